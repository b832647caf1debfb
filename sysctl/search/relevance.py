"""Which knobs a run shows to have taken no part, so that no trial is spent on them.

A knob is left out only where what it acts on did not take part: no writer slept in dirty
throttling, none waited for the device, nothing was read, no page grew old. All else is for the
trials to tell.
"""

from __future__ import annotations

from contracts.shared.units import format_seconds, format_size
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE
from sysctl.evidence.results import Observation
from sysctl.evidence.runs import Runs
from sysctl.knobs.bdi import BDI_KNOBS
from sysctl.knobs.block import NR_REQUESTS, READ_AHEAD, SCHEDULER, WBT

#: `profiler.watch.causes.Cause.DEVICE`, by its name in the results.
_DEVICE_WAIT = "waiting for the device"
#: The waits that mount options and knobs of the disk may shorten.
HELPED = (_DEVICE_WAIT, "other sleeping")

_SHARES = tuple(knob.name for knob in BDI_KNOBS)
_QUEUE = (SCHEDULER, NR_REQUESTS, WBT)
_PERIODIC = ("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs")
#: The youngest age (s) at which periodic write-back takes pages in a sweep: no knob's `wide` value
#: is lower.
_MIN_AGE_S = 5.0


def skip_reason(runs: Runs, name: str, seen: Observation) -> str | None:
    """Return why no value of a knob can make this pull return sooner; None if one may.

    `name` is a sysctl's or a disk's knob, `seen` what a run without it showed.
    """
    if name == READ_AHEAD and seen.device_read_bytes is not None:
        return _no_reads(seen.device_read_bytes, seen.bytes)
    if name in _PERIODIC:
        return _begun_before(seen)
    if name not in (*_SHARES, *_QUEUE) or not _is_unthrottled(seen):
        return None
    said = f"writers slept in dirty throttling for {seen.throttled_share:.1%} of their time"
    if name in _SHARES:
        peak, freerun = seen.peak_dirty_bytes, seen.thresholds.freerun_bytes
        return (
            f"{said}: at most {format_size(peak)} were dirty, and they are made to wait from "
            f"{format_size(freerun)} on"
        )
    waited = runs.cause_share(seen, _DEVICE_WAIT)
    if not seen.split_s or waited >= NEGLIGIBLE_SHARE:
        return None
    return f"{said} and waited for the device for {waited:.1%}"


def _no_reads(read_bytes: int, pulled_bytes: int) -> str | None:
    if read_bytes >= NEGLIGIBLE_SHARE * pulled_bytes:
        return None
    read, pulled = format_size(read_bytes), format_size(pulled_bytes)
    return f"{read} were read from the disk while {pulled} were pulled"


def _begun_before(seen: Observation) -> str | None:
    """Return that periodic write-back found the other one at work; None if it may be first."""
    background_bytes = seen.thresholds.background_bytes
    above = (point.time_s for point in seen.trace if point.held_bytes > background_bytes)
    begun_s = next(above, None)
    if begun_s is None and seen.return_s < _MIN_AGE_S:
        return f"no page was {format_seconds(_MIN_AGE_S)} old before the pull returned"
    if begun_s is None or begun_s >= _MIN_AGE_S:
        return None
    return (
        f"write-back began after {format_seconds(begun_s)}, at the background threshold of "
        f"{format_size(background_bytes)}, when no page was old enough for the periodic one"
    )


def _is_unthrottled(seen: Observation) -> bool:
    below = seen.peak_dirty_bytes < seen.thresholds.freerun_bytes
    return seen.throttled_share < NEGLIGIBLE_SHARE and below


def no_other_waits(runs: Runs, seen: Observation) -> str | None:
    """Return why a knob that is no threshold cannot help a run; None if its writers do wait.

    For the device, or asleep for another reason than dirty throttling (locks, the journal): parts
    of the time that the writers had.
    """
    device, other = (runs.cause_share(seen, cause) for cause in HELPED)
    if not seen.split_s or max(device, other) >= NEGLIGIBLE_SHARE:
        return None
    return (
        f"writers waited for the device for {device:.1%} of their time, and slept for another "
        f"reason than dirty throttling for {other:.1%}: nothing else could help by much"
    )
