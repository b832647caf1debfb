# SPDX-License-Identifier: Apache-2.0
"""How far the thresholds may rise, and which background threshold a moment needs.

A writer never waits while the host's dirty pages are below freerun, the mean of both thresholds
(`dirty_freerun_ceiling()` in mm/page-writeback.c, Linux 6.18), and they never exceed the dirty
threshold. So the dirty threshold is raised to the bound, which the kernel then enforces, and the
background threshold follows the burst: high enough that freerun stays above the dirty pages, and
below the dirty pages, so that the device never stops writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.govern.samples import NS_PER_S, HostSample
from sysctl.knobs.setting import invalid_reason
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds, effective_thresholds

#: Without --max-at-risk: this share of the memory that is available at rest.
AVAILABLE_SHARE = 0.25
#: At most this share of dirtyable memory may be dirty, whatever was asked for.
_DIRTYABLE_SHARE = 0.75
#: So much more may stay raised than may be raised: memory varies.
_MEMORY_SLACK = 1.02
#: A bound that is nearer to the host's own threshold is not worth a raise.
_WORTH_IT = 1.05
#: The number of background thresholds of one raise. They are in its journal.
_STEPS = 32
#: The highest background threshold, as a share of the dirty threshold, which must be above it.
_HIGHEST_BACKGROUND = 0.95
#: A background threshold below this share of the dirty pages keeps the device writing.
_BELOW_DIRTY = 0.95


#: A raise without a limit in time.
UNLIMITED_NS = 2**62


@dataclass(frozen=True)
class RaiseLimits:
    """What the user allows. `max_at_risk_bytes` None is a share of what is available at rest."""

    max_at_risk_bytes: int | None = None
    max_raise_ns: int = 600 * NS_PER_S


@dataclass(frozen=True)
class Raise:
    """A raised dirty threshold, and the background thresholds that may be in force with it.

    The first of them stands for the host's own one, unless that stays in force (None).
    """

    dirty_bytes: int
    backgrounds: tuple[int, ...]
    keeps_background: bool = True

    @property
    def lowest_background(self) -> int | None:
        """The background threshold in force before it has to rise; None is the host's own."""
        return None if self.keeps_background else self.backgrounds[0]

    @property
    def highest(self) -> Thresholds:
        """The thresholds with the highest freerun."""
        return Thresholds(self.backgrounds[-1], self.dirty_bytes)


def rest_thresholds(sample: HostSample, rest: Mapping[str, int]) -> Thresholds:
    """Return the thresholds of the host's own values with the present memory."""
    return effective_thresholds(rest, sample.dirtyable_bytes)


def bound_bytes(limits: RaiseLimits, sample: HostSample) -> int:
    """Return the most that may be dirty: what the user allows, and what memory is there."""
    asked = limits.max_at_risk_bytes
    allowed = sample.available_bytes * AVAILABLE_SHARE if asked is None else asked
    return round(min(allowed, sample.dirtyable_bytes * _DIRTYABLE_SHARE))


def kept_bytes(limits: RaiseLimits, sample: HostSample) -> float:
    """Return the most that may stay raised with the present memory.

    The default bound is of the memory at rest, so a burst that uses memory does not change it.
    """
    there = sample.dirtyable_bytes * _DIRTYABLE_SHARE
    asked = limits.max_at_risk_bytes
    return round(there if asked is None else min(asked, there)) * _MEMORY_SLACK


def highest_raise(
    limits: RaiseLimits, sample: HostSample, at_rest: Thresholds, rest: Mapping[str, int]
) -> Raise | None:
    """Return the raise that the bound allows; None if it allows none above the host's own.

    If the host's background threshold is not below its dirty one, the kernel uses half of that,
    and would use half of the raised one. So then what it uses at rest is written. A background
    threshold of 0 is possible as a ratio only: the kernel refuses 0 bytes.
    """
    dirty = bound_bytes(limits, sample) // PAGE_BYTES * PAGE_BYTES
    highest = round(dirty * _HIGHEST_BACKGROUND)
    lowest = max(at_rest.background_bytes, PAGE_BYTES)
    if dirty < at_rest.dirty_bytes * _WORTH_IT or highest <= lowest:
        return None
    steps = (lowest + (highest - lowest) * step // _STEPS for step in range(_STEPS + 1))
    backgrounds = dict.fromkeys(-(-step // PAGE_BYTES) * PAGE_BYTES for step in steps)
    is_used = invalid_reason(rest, sample.dirtyable_bytes) is None
    return Raise(dirty, tuple(backgrounds), keeps_background=is_used)


def low_bound(limits: RaiseLimits, sample: HostSample) -> tuple[int, int] | None:
    """Return the host's own dirty threshold and the bound, in bytes, if no raise is possible.

    The sample is of a host at rest. None: a raise is possible.
    """
    at_rest = rest_thresholds(sample, sample.values)
    if highest_raise(limits, sample, at_rest, sample.values):
        return None
    return at_rest.dirty_bytes, bound_bytes(limits, sample)


def background_for(
    raised: Raise,
    at_rest: Thresholds,
    sample: HostSample,
    margin_bytes: float,
    *,
    is_device_busy: bool,
) -> int | None:
    """Return the least background threshold with which no writer waits; None: the host's own.

    Freerun is above the dirty pages by the margin, if one is possible that keeps the device
    writing. Any does for as long as enough is in flight (`is_device_busy`).
    """
    needed = 2 * (sample.held_bytes + margin_bytes) - raised.dirty_bytes
    if needed <= at_rest.background_bytes:
        return raised.lowest_background
    most = raised.backgrounds[-1] if is_device_busy else sample.dirty_bytes * _BELOW_DIRTY
    possible = [b for b in raised.backgrounds if at_rest.background_bytes <= b <= most]
    highest = possible[-1] if possible else raised.lowest_background
    return next((each for each in possible if each >= needed), highest)
