"""The knobs of a disk's share of dirty memory (its backing device information), each as data.

Semantics: kernel `Documentation/ABI/testing/sysfs-class-bdi` and `mm/backing-dev.c`, which has
`strict_limit`, `min_bytes` and `max_bytes` since Linux 6.2. The bytes are kept as parts of a
million of the dirty threshold of that moment: they read back rounded, and move when it does.
"""

from __future__ import annotations

from sysctl.knobs.device import DeviceKnob

STRICT_LIMIT = "bdi/strict_limit"
MIN_BYTES = "bdi/min_bytes"
MAX_BYTES = "bdi/max_bytes"
MAX_RATIO = "bdi/max_ratio"

#: Attributes that hold a share exactly, and the coarser one that older kernels have in its place.
_MAX_EXACT = "bdi/max_ratio_fine"
_MIN_EXACT = "bdi/min_ratio_fine"

BDI_KNOBS: tuple[DeviceKnob, ...] = (
    DeviceKnob(
        name=MAX_RATIO,
        flag="--bdi-max-ratio",
        unit="% of the dirty threshold",
        minimum=1,
        maximum=100,
        kernel_default="100",
        what="the largest share of dirty memory that this device may hold",
        risk="a small share makes writers wait earlier, a large one leaves less to other devices",
        counterpart=MAX_BYTES,
        exact=_MAX_EXACT,
        wide=("50", "100"),
    ),
    DeviceKnob(
        name=MAX_BYTES,
        flag="--bdi-max-bytes",
        unit="bytes, at most the dirty threshold",
        minimum=2 * 4096,
        maximum=2**62,
        kernel_default="the dirty threshold",
        what="as bdi/max_ratio, in bytes",
        risk="a small share makes writers wait earlier, a large one leaves less to other devices",
        takes="at once, converted to a share of the dirty threshold of that moment",
        counterpart=MAX_RATIO,
        exact=_MAX_EXACT,
        is_rounded=True,
    ),
    DeviceKnob(
        name=MIN_BYTES,
        flag="--bdi-min-bytes",
        unit="bytes, at most the dirty threshold",
        minimum=0,
        maximum=2**62,
        kernel_default="0",
        what="dirty memory that this device may hold at least, however little it wrote lately",
        risk="other devices get that much less of it",
        takes="at once, converted to a share of the dirty threshold of that moment",
        exact=_MIN_EXACT,
        is_rounded=True,
        wide=(str(2**28), str(2**30)),
    ),
    DeviceKnob(
        name=STRICT_LIMIT,
        flag="--bdi-strict-limit",
        unit="(1: on)",
        minimum=0,
        maximum=1,
        kernel_default="0",
        what="hold writers to this device's own limit also where the host's is far off",
        risk="writers wait earlier",
        wide=("0", "1"),
    ),
)
