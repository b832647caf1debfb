"""What a sweep came to, as data: a change, or why there is none; `profiler.report` words it.

Every type but `Change` is a reason for no change. Those of `Note` hold next to a conclusion.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, Union

from sysctl.advice.analysis import Doubted, Excluded
from sysctl.evidence.comparison import Side
from sysctl.evidence.prediction import Model
from sysctl.evidence.price import Limits, Objection, Price
from sysctl.evidence.statistics import Interval, Repeats
from sysctl.knobs.setting import Setting


class Case(str, enum.Enum):
    """What a sweep came to; the value is its name in JSON."""

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
    """A change is recommended: times to return (s) by its pairs, and their ratio."""

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

    `device_bytes_per_s` or `dirtyable_bytes` is what it would need of the one or of the other.
    """

    case: ClassVar[Case] = Case.BEYOND_MEMORY
    model: Model
    device_bytes_per_s: float
    dirtyable_bytes: float


@dataclass(frozen=True)
class InvalidTrials:
    """Trials that do not count: `count` of `trials`, most often (`times`) for one `reason`."""

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
    """Runs alike differ too much, or too many trials are invalid, to tell settings apart.

    Each sign is None where there is none of it: invalid trials; the standard deviation of times
    under the same settings; the narrowest interval of a setting.
    """

    case: ClassVar[Case] = Case.NOISE
    invalid: InvalidTrials | None
    deviation: float | None
    narrowest: Interval | None


@dataclass(frozen=True)
class NoGainInPairs:
    """The best setting that was measured in pairs is not faster by enough, or by chance."""

    case: ClassVar[Case] = Case.NO_DIFFERENCE
    best: Interval


@dataclass(frozen=True)
class NoGainInSearch:
    """Nothing was worth pairs; `best_s` is None where every candidate was stopped."""

    case: ClassVar[Case] = Case.NO_DIFFERENCE
    best_s: float | None
    present_s: Repeats


@dataclass(frozen=True)
class DoubtedGain:
    """A setting was faster in its pairs, and that is not its doing."""

    setting: Setting
    interval: Interval
    why: Doubted


@dataclass(frozen=True)
class OnlyDoubted:
    """What was faster was so for another reason than the settings."""

    case: ClassVar[Case] = Case.NO_DIFFERENCE
    gains: tuple[DoubtedGain, ...]


@dataclass(frozen=True)
class NothingWithin:
    """Every faster setting costs too much.

    `fastest_s` is the time in one run of the `fastest` candidate that keeps the limits; None
    without any. `are_new`: the sweep was given other limits.
    """

    case: ClassVar[Case] = Case.NOT_WITHIN_LIMITS
    excluded: tuple[Excluded, ...]
    fastest: Setting | None
    fastest_s: float | None
    are_new: bool


@dataclass(frozen=True)
class KeepsLimits:
    """The fastest setting but the present one that keeps the limits, and the present time (s)."""

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
    """Nothing is faster, and the present settings are no answer to the limits either."""

    case: ClassVar[Case] = Case.PRESENT_BEYOND_LIMITS
    why: Objection
    way: KeepsLimits | NoneKeepsLimits


@dataclass(frozen=True)
class Unfinished:
    """The search has not ended, or what it found has too few pairs."""

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
    OnlyDoubted,
    NothingWithin,
    PresentBeyond,
    Unfinished,
]


@dataclass(frozen=True)
class PassedOver:
    """A setting in pairs that counts, or could, and is not recommended.

    `faster` is the fastest setting, where it is another than the recommended one; `is_as_fast` says
    that this one is, and no cheaper.
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
    """What the limits exclude that is faster than the recommended setting."""

    excluded: tuple[Excluded, ...]


Note = Union[
    DoubtedGain, PassedOver, NoGain, CostOfLimits, KeepsLimits, NoneKeepsLimits, BeyondMemory
]
