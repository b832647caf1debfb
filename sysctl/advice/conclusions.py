# SPDX-License-Identifier: Apache-2.0
"""The outcome of a sweep as data: a change, or why there is none; `profiler.report` words it.

Every type but `Change` is a reason for no change. The types of `Note` supplement a conclusion.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, Union

from sysctl.advice.analysis import Excluded, NotAttributable
from sysctl.evidence.comparison import Side
from sysctl.evidence.prediction import Model
from sysctl.evidence.price import Limits, Objection, Price
from sysctl.evidence.statistics import Interval, Repeats
from sysctl.knobs.setting import Setting


class Case(str, enum.Enum):
    """The outcome of a sweep; the value is its name in JSON."""

    CHANGE = "change recommended"
    NOTHING_TO_GAIN = "writers do not wait"
    OTHER_WAITS = "writers wait for something else"
    BEYOND_MEMORY = "burst beyond memory"
    NOTHING_MEASURED = "nothing else could be measured"
    NOISE = "too noisy to tell"
    NO_DIFFERENCE = "no difference"
    NOT_WITHIN_LIMITS = "nothing within the limits"
    PRESENT_BEYOND_LIMITS = "present settings beyond the limits"
    UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Change:
    """A change is recommended: times to return (s) of its pairs, and their ratio."""

    case: ClassVar[Case] = Case.CHANGE
    interval: Interval
    present_s: float
    best_s: float


@dataclass(frozen=True)
class WritersDoNotWait:
    """The source is the bottleneck (or the volume's operations), not dirty throttling."""

    case: ClassVar[Case] = Case.NOTHING_TO_GAIN
    present: Side


@dataclass(frozen=True)
class OtherWait:
    """Writers wait longer for another cause (`profiler.watch.causes.Cause`, by its name).

    Shares are of the writers' time: run time × threads that could write at a time.
    """

    case: ClassVar[Case] = Case.OTHER_WAITS
    present: Side
    cause: str
    share: float
    throttled_share: float


@dataclass(frozen=True)
class BeyondMemory:
    """The burst needs more dirty memory than there is, so its rest waits for the device.

    It would need a device with `device_bytes_per_s`, or memory of `dirtyable_bytes`.
    """

    case: ClassVar[Case] = Case.BEYOND_MEMORY
    model: Model
    device_bytes_per_s: float
    dirtyable_bytes: float


@dataclass(frozen=True)
class InvalidTrials:
    """Invalid trials: `count` of `trials`; the most frequent `reason` occurred `times` times."""

    count: int
    trials: int
    reason: str
    times: int


@dataclass(frozen=True)
class NothingMeasured:
    """Every other setting failed or was invalid."""

    case: ClassVar[Case] = Case.NOTHING_MEASURED
    problems: InvalidTrials


@dataclass(frozen=True)
class AllLeftOut:
    """No other setting was tried."""

    case: ClassVar[Case] = Case.NOTHING_MEASURED


@dataclass(frozen=True)
class TooNoisy:
    """Runs with the same settings differ too much, or too many trials are invalid.

    The signs are None if absent: invalid trials; the standard deviation of times under the same
    settings; the narrowest interval of a setting.
    """

    case: ClassVar[Case] = Case.NOISE
    invalid: InvalidTrials | None
    deviation: float | None
    narrowest: Interval | None


@dataclass(frozen=True)
class NoGainInPairs:
    """The best setting in pairs is not faster by enough, or not significantly."""

    case: ClassVar[Case] = Case.NO_DIFFERENCE
    best: Interval


@dataclass(frozen=True)
class NoGainInSearch:
    """No candidate was worth pairs; `best_s` is None if every candidate was stopped."""

    case: ClassVar[Case] = Case.NO_DIFFERENCE
    best_s: float | None
    present_s: Repeats


@dataclass(frozen=True)
class UnattributedGain:
    """A setting was faster in its pairs, but the gain is not attributable to it."""

    setting: Setting
    interval: Interval
    why: NotAttributable


@dataclass(frozen=True)
class OnlyUnattributed:
    """Settings were faster, but no gain is attributable to its setting."""

    case: ClassVar[Case] = Case.NO_DIFFERENCE
    gains: tuple[UnattributedGain, ...]


@dataclass(frozen=True)
class NothingWithin:
    """Every faster setting exceeds the limits.

    `fastest_s` is the time of the one run of the `fastest` candidate that keeps the limits; None
    without one. `are_new`: the sweep had other limits.
    """

    case: ClassVar[Case] = Case.NOT_WITHIN_LIMITS
    excluded: tuple[Excluded, ...]
    fastest: Setting | None
    fastest_s: float | None
    are_new: bool


@dataclass(frozen=True)
class KeepsLimits:
    """The fastest other setting that keeps the limits, and the current time (s)."""

    setting: Setting
    price: Price
    times_s: Repeats
    present_s: float
    limits: Limits


@dataclass(frozen=True)
class NoneKeepsLimits:
    """No other setting that was measured keeps the limits."""

    are_new: bool


@dataclass(frozen=True)
class PresentBeyond:
    """Nothing is faster, and the current settings exceed the limits."""

    case: ClassVar[Case] = Case.PRESENT_BEYOND_LIMITS
    why: Objection
    alternative: KeepsLimits | NoneKeepsLimits


@dataclass(frozen=True)
class Unfinished:
    """The search has not ended, or its finding has too few pairs."""

    case: ClassVar[Case] = Case.UNFINISHED


Conclusion = Union[
    Change,
    WritersDoNotWait,
    OtherWait,
    BeyondMemory,
    NothingMeasured,
    AllLeftOut,
    TooNoisy,
    NoGainInPairs,
    NoGainInSearch,
    OnlyUnattributed,
    NothingWithin,
    PresentBeyond,
    Unfinished,
]


@dataclass(frozen=True)
class PassedOver:
    """A faster setting in pairs that is not recommended.

    `faster` is the fastest setting if that is not the recommended one. `is_as_fast`: this setting
    is as fast as the recommended one, but not cheaper.
    """

    setting: Setting
    interval: Interval
    is_as_fast: bool = False
    faster: Setting | None = None


@dataclass(frozen=True)
class NoGain:
    """A setting in pairs that show no gain."""

    setting: Setting
    interval: Interval


@dataclass(frozen=True)
class CostOfLimits:
    """The excluded settings that are faster than the recommended one."""

    excluded: tuple[Excluded, ...]


@dataclass(frozen=True)
class Sampled:
    """The sweep pulled a sample of the prefix, which may show less than a pull of the whole.

    Sizes are in bytes. Writers wait from `freerun_bytes`: with the recommended settings where
    `is_of_change`, else with the current ones; `have_waited` is whether they did in the sample.
    """

    pulled_objects: int
    pulled_bytes: int
    whole_objects: int
    whole_bytes: int
    freerun_bytes: int
    is_of_change: bool
    have_waited: bool

    @property
    def hides_waits(self) -> bool:
        """Whether the sample cannot make writers wait and the whole could."""
        is_small = self.pulled_bytes < self.freerun_bytes < self.whole_bytes
        return is_small and not (self.is_of_change or self.have_waited)

    @property
    def enough_bytes(self) -> int:
        """A size of a sample, in whole GiB, that is twice what writers may leave unwritten."""
        return -(-2 * self.freerun_bytes // 2**30) * 2**30


Note = Union[
    UnattributedGain,
    PassedOver,
    NoGain,
    CostOfLimits,
    KeepsLimits,
    NoneKeepsLimits,
    BeyondMemory,
    Sampled,
]
