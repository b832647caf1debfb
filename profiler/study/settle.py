"""Settling: the kernel's dirty limit brought down to the settings before a trial is timed.

The limit that throttles rises at once with the threshold, but after memory has shrunk it falls by
1/32 of the difference every 200 ms and only while some writer is throttled
(`domain_update_dirty_limit()`). A *changed* write to a threshold's sysctl sets it to the threshold
at once (`writeback_set_ratelimit()`; both mm/page-writeback.c, as of Linux 6.18). So where the
limit is above the threshold the sysctl is written with its neighbour and then with its value.
"""

from __future__ import annotations

from collections.abc import Mapping

from profiler.bpf.probes.dirty_limit import DirtyLimitReader, DirtyLimits
from sysctl.host.host import Host
from sysctl.host.system import HostError
from sysctl.knobs.vm import BY_NAME, DIRTY_PAIR

#: How far the limit may stay above the threshold, which itself moves with free memory.
TOLERANCE = 1.02


def settle_dirty_limit(
    host: Host, limits: DirtyLimitReader, wanted: Mapping[str, int]
) -> DirtyLimits:
    """Bring the limit down to the threshold of `wanted`, which is in force; the limits then.

    Raises HostError when it does not come down: a trial under it would not be of these settings.
    """
    if _is_settled(limits.read()):
        return limits.read()
    name = next(name for name in DIRTY_PAIR if name in wanted)
    host.set_writeback({name: _neighbour(name, wanted[name])})
    host.set_writeback(wanted)
    settled = limits.read()
    if not _is_settled(settled):
        raise HostError(
            f"the kernel's dirty limit is at {settled.limit_bytes >> 20} MiB and does not follow "
            f"the settings to {settled.threshold_bytes >> 20} MiB",
            "another program may be writing much: try again when the host is quieter",
        )
    return settled


def _is_settled(present: DirtyLimits) -> bool:
    return present.limit_bytes <= present.threshold_bytes * TOLERANCE


def _neighbour(name: str, value: int) -> int:
    """A value next to `value`, above it where the range allows, so that background stays below."""
    knob = BY_NAME[name]
    step = 1 if knob.maximum <= 100 else 2 * 4096
    return value + step if value + step <= knob.maximum else value - step
