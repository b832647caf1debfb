# SPDX-License-Identifier: Apache-2.0
"""Settling: lowers the kernel's dirty limit to the settings before a trial is timed.

The limit at which writers are throttled rises at once with the threshold. But after memory has
shrunk, it falls by 1/32 of the difference every 200 ms, and only while a writer is throttled
(`domain_update_dirty_limit()`). Writing *another* value to a threshold's sysctl sets it to the
threshold at once (`writeback_set_ratelimit()`; both mm/page-writeback.c, Linux 6.18). So if the
limit is above the threshold, the sysctl is set to an adjacent value and then to its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from profiler.bpf.probes.dirty_limit import DirtyLimitReader, DirtyLimits
from sysctl.host.host import Host
from sysctl.host.system import HostError
from sysctl.knobs.vm import BY_NAME, DIRTY_PAIR

#: How far the limit may be above the threshold, which itself moves with free memory.
TOLERANCE = 1.02


def settle_dirty_limit(
    host: Host, limits: DirtyLimitReader, wanted: Mapping[str, int]
) -> DirtyLimits:
    """Lower the limit to the threshold of `wanted`, which is in force, and return the limits.

    Raises HostError if it does not fall: a trial would not measure these settings.
    """
    if _is_settled(limits.read()):
        return limits.read()
    name = next(name for name in DIRTY_PAIR if name in wanted)
    host.set_writeback({name: _adjacent(name, wanted[name])})
    host.set_writeback(wanted)
    settled = limits.read()
    if not _is_settled(settled):
        raise HostError(
            f"the kernel's dirty limit stays at {settled.limit_bytes >> 20} MiB although the "
            f"settings' threshold is {settled.threshold_bytes >> 20} MiB",
            "try again when other programs write less",
        )
    return settled


def _is_settled(present: DirtyLimits) -> bool:
    return present.limit_bytes <= present.threshold_bytes * TOLERANCE


def _adjacent(name: str, value: int) -> int:
    """Return a value next to `value`, above it if possible, so that background stays below."""
    knob = BY_NAME[name]
    step = 1 if knob.maximum <= 100 else 2 * 4096
    return value + step if value + step <= knob.maximum else value - step
