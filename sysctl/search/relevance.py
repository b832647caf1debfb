# SPDX-License-Identifier: Apache-2.0
"""Which knobs cannot matter, as a run shows, so no trial is spent on them.

A knob is left out only if its mechanism was not active: no writer slept in dirty throttling, none
waited for the device, nothing was read, no page became old enough. Everything else is tried.
"""

from __future__ import annotations

from contracts.causes import Cause
from contracts.shared.units import format_seconds, format_size
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE
from sysctl.evidence.results import Observation
from sysctl.evidence.runs import Runs
from sysctl.knobs.bdi import BDI_KNOBS
from sysctl.knobs.block import NR_REQUESTS, READ_AHEAD, SCHEDULER, WBT

#: The waits that mount options and knobs of the disk may shorten.
HELPED = (Cause.DEVICE, Cause.SLEEPING)

_SHARES = tuple(knob.name for knob in BDI_KNOBS)
_QUEUE = (SCHEDULER, NR_REQUESTS, WBT)
_PERIODIC = ("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs")
#: The lowest age (s) at which periodic write-back writes pages: no `wide` value is lower.
_MIN_AGE_S = 5.0


def skip_reason(runs: Runs, name: str, seen: Observation) -> str | None:
    """Return why no value of a knob can make this pull return earlier; None if one may.

    `name` is a sysctl or a knob of the disk, `seen` a run without it.
    """
    if name == READ_AHEAD and seen.device_read_bytes is not None:
        return _no_reads(seen.device_read_bytes, seen.bytes)
    if name in _PERIODIC:
        return _begun_before(seen)
    if name not in (*_SHARES, *_QUEUE) or not _is_unthrottled(seen):
        return None
    throttled = f"writers slept in dirty throttling for {seen.throttled_share:.1%} of their time"
    if name in _SHARES:
        peak, freerun = seen.peak_dirty_bytes, seen.thresholds.freerun_bytes
        return (
            f"{throttled}: at most {format_size(peak)} was dirty, and throttling begins at "
            f"{format_size(freerun)}"
        )
    waited = runs.cause_share(seen, Cause.DEVICE)
    if not seen.split_s or waited >= NEGLIGIBLE_SHARE:
        return None
    return f"{throttled} and waited for the device for {waited:.1%}"


def _no_reads(read_bytes: int, pulled_bytes: int) -> str | None:
    if read_bytes >= NEGLIGIBLE_SHARE * pulled_bytes:
        return None
    read, pulled = format_size(read_bytes), format_size(pulled_bytes)
    return f"only {read} was read from the disk while {pulled} was pulled"


def _begun_before(seen: Observation) -> str | None:
    """Return that background write-back began before the periodic one; None if not certain."""
    background_bytes = seen.thresholds.background_bytes
    above = (point.time_s for point in seen.trace if point.held_bytes > background_bytes)
    begun_s = next(above, None)
    if begun_s is None and seen.return_s < _MIN_AGE_S:
        return f"no page was {format_seconds(_MIN_AGE_S)} old before the pull returned"
    if begun_s is None or begun_s >= _MIN_AGE_S:
        return None
    return (
        f"write-back began after {format_seconds(begun_s)}, at the background threshold of "
        f"{format_size(background_bytes)}, before any page was old enough for periodic write-back"
    )


def _is_unthrottled(seen: Observation) -> bool:
    below = seen.peak_dirty_bytes < seen.thresholds.freerun_bytes
    return seen.throttled_share < NEGLIGIBLE_SHARE and below


def no_other_waits(runs: Runs, seen: Observation) -> str | None:
    """Return why only thresholds can help a run; None if its writers have other waits.

    Other waits are those for the device, and sleeps for reasons other than dirty throttling (locks,
    the journal), as shares of the writers' time.
    """
    device, other = (runs.cause_share(seen, cause) for cause in HELPED)
    if not seen.split_s or max(device, other) >= NEGLIGIBLE_SHARE:
        return None
    return (
        f"writers waited for the device for {device:.1%} of their time, and slept for reasons "
        f"other than dirty throttling for {other:.1%}: other knobs cannot help much"
    )
