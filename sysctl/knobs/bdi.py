# SPDX-License-Identifier: Apache-2.0
"""The knobs of a disk's share of dirty memory (its backing device information), each as data.

Semantics: kernel `Documentation/ABI/testing/sysfs-class-bdi` and `mm/backing-dev.c`, which has
`strict_limit`, `min_bytes` and `max_bytes` since Linux 6.2. The kernel stores bytes as millionths
of the current dirty threshold: they read back rounded, and change when the threshold changes.
"""

from __future__ import annotations

from sysctl.knobs.device import DeviceKnob

STRICT_LIMIT = "bdi/strict_limit"
MIN_BYTES = "bdi/min_bytes"
MAX_BYTES = "bdi/max_bytes"
MAX_RATIO = "bdi/max_ratio"

#: Attributes with the exact share; older kernels have only the coarser ones.
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
        risk="a small share makes writers wait earlier, a large share leaves less to other devices",
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
        what="the same as bdi/max_ratio, in bytes",
        risk="a small share makes writers wait earlier, a large share leaves less to other devices",
        takes="at once, converted to a share of the current dirty threshold",
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
        what="dirty memory that this device may always hold, even if it wrote little recently",
        risk="other devices may hold that much less",
        takes="at once, converted to a share of the current dirty threshold",
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
        what="applies this device's own limit even when the host is far below its limit",
        risk="writers wait earlier",
        wide=("0", "1"),
    ),
)
