# SPDX-License-Identifier: Apache-2.0
"""Advice on the volume: what the same pull takes on others, and when another one is the answer.

The rule (`docs/explanation/volumes.md`):

1. Another volume is named only if the volume is the limit: not the source, not the instance, and
   not a device that is slower or faster than its type allows.
2. Settings that gain come first. The volume named next to them returns as fast with the current
   settings, or, if the pull is beyond memory, as fast as the source delivers.
3. Settings that gain nothing although writers wait, or that the limits exclude: the recommendation
   is the cheapest volume that meets the aim.
4. No volume is named if the runs are too few or too noisy.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from sysctl.advice.analysis import Analysis
from sysctl.advice.conclusions import (
    AllLeftOut,
    BeyondMemory,
    Change,
    Conclusion,
    NothingMeasured,
    OnlyUnattributed,
    OtherWait,
    TooNoisy,
    Unfinished,
    WritersDoNotWait,
)
from sysctl.advice.device_rate import DeviceRate, checked, device_rate, instance_of
from sysctl.advice.other_volumes import Other, OtherVolumes, rate_for_return
from sysctl.evidence.comparison import Side, is_gain
from sysctl.evidence.prediction import IN_TIME, Model
from sysctl.volume.instances import Instance
from sysctl.volume.limits import GIB, LimitedBy
from sysctl.volume.planning import Plan
from sysctl.volume.prices import Prices
from sysctl.volume.volume_types import EbsVolume

#: Conclusions from too little evidence.
_TOO_LITTLE = (TooNoisy, Unfinished, NothingMeasured, AllLeftOut, OnlyUnattributed)


class Aim(enum.Enum):
    """What another volume is for; the value is its name in JSON."""

    WITHIN_LIMIT = "durable within the limit"
    WITHOUT_WAITS = "as fast as the source"
    BEST_THRESHOLDS = "as fast as the source, with the best thresholds"
    SAME_RETURN = "as fast as with the recommended settings"


@dataclass(frozen=True)
class Choice:
    """The cheapest volume that meets an aim. `is_recommended`: it is the answer, not settings."""

    aim: Aim
    other: Other
    is_recommended: bool


@dataclass(frozen=True)
class OutOfReach:
    """No volume meets an aim, which needs this rate; `limited_by` the instance, or None."""

    aim: Aim
    needed_bytes_per_s: float
    limited_by: LimitedBy | None


@dataclass(frozen=True)
class VolumeAdvice:
    """What the results say about the volume.

    `rate` is None if the runs do not show it; `unknown` has the reason. `current` is the plan of
    the measured volume, None if its type is unknown. `capacity_gib` is its size, or if that is
    unknown (`is_capacity_known`) that of the pull. `others` are with the recommended settings, or
    the current ones; the cheapest first.
    """

    prices: Prices
    volume: EbsVolume | None
    instance: Instance | None
    capacity_gib: int
    is_capacity_known: bool
    rate: DeviceRate | None = None
    unknown: str | None = None
    current: Plan | None = None
    others: tuple[Other, ...] = ()
    outcome: Choice | OutOfReach | None = None

    @property
    def choice(self) -> Choice | None:
        """The volume named, if there is one."""
        return self.outcome if isinstance(self.outcome, Choice) else None

    @property
    def is_recommendation(self) -> bool:
        """Whether another volume, not settings, is the recommendation."""
        return self.choice is not None and self.choice.is_recommended

    def more_usd(self, other: Other) -> float | None:
        """Return how much more a volume costs a month; None if a price is unknown."""
        now = self.current.monthly_usd if self.current else None
        new = other.plan.monthly_usd
        return None if now is None or new is None else new - now


def advise_volume(
    analysis: Analysis,
    conclusion: Conclusion,
    best: Side | None,
    beyond: BeyondMemory | None,
    prices: Prices,
) -> VolumeAdvice:
    """Return the advice on the volume of a sweep; `beyond`: the pull is beyond memory."""
    runs, of_class = analysis.runs, analysis.runs.circumstances.node_class
    known = of_class.volume
    whole_bytes = max(runs.burst_bytes, of_class.bytes, of_class.whole_bytes, 1)
    size_gib = known.size_gib if known else None
    advice = VolumeAdvice(
        prices=prices,
        volume=checked(known)[0],
        instance=instance_of(of_class),
        capacity_gib=size_gib or -(-whole_bytes // GIB),
        is_capacity_known=size_gib is not None,
    )
    if analysis.model is None:
        return replace(advice, unknown=analysis.unpredictable)
    rate = device_rate(runs, analysis.model)
    others = OtherVolumes(analysis.model, rate, prices, advice.capacity_gib)
    values = best.setting.values if best else {}
    found = replace(
        advice,
        rate=rate,
        current=others.plan(rate.volume) if rate.volume else None,
        outcome=_outcome(analysis, conclusion, best, beyond, others),
    )
    wanted = found.choice.other.plan if found.choice else None
    return replace(found, others=others.shown(values, wanted))


def _outcome(
    analysis: Analysis,
    conclusion: Conclusion,
    best: Side | None,
    beyond: BeyondMemory | None,
    others: OtherVolumes,
) -> Choice | OutOfReach | None:
    """Apply the rule; None if no volume is to be named."""
    model = others.model
    found = _aim(analysis, conclusion, best, beyond, model) if others.rate.may_volume_help else None
    if found is None:
        return None
    aim, deadline_s = found
    plans = others.within(deadline_s)
    if not plans:
        fastest_s, limited_by = others.fastest_s()
        is_instance = fastest_s > deadline_s and limited_by is not LimitedBy.SOURCE
        needed = model.burst_bytes / deadline_s
        return OutOfReach(aim, needed, limited_by if is_instance else None)
    other = others.predicted(plans[0], {})
    if aim is Aim.BEST_THRESHOLDS:
        other = replace(other, return_s=model.unthrottled_s() * (1 + IN_TIME))
    is_faster = aim is Aim.WITHIN_LIMIT or is_gain(other.return_s / model.predict({}).return_s)
    if not is_faster or other.plan.volume == others.rate.volume:
        return None
    return Choice(aim, other, is_recommended=best is None)


def _aim(
    analysis: Analysis,
    conclusion: Conclusion,
    best: Side | None,
    beyond: BeyondMemory | None,
    model: Model,
) -> tuple[Aim, float] | None:
    """Return what another volume is for, and when it must have all data (s); None if nothing."""
    if isinstance(conclusion, _TOO_LITTLE):
        return None
    if best is None and _exceeds_durable(analysis):
        return _within_limit(analysis, model)
    if beyond is not None:
        return Aim.BEST_THRESHOLDS, model.burst_bytes / beyond.device_bytes_per_s
    aim, goal_s = Aim.WITHOUT_WAITS, model.unthrottled_s() * (1 + IN_TIME)
    if isinstance(conclusion, Change):
        if best is None or not analysis.runs.baseline.changed_thresholds(best.setting):
            return None  # other settings gain the same on every volume
        aim, goal_s = Aim.SAME_RETURN, max(conclusion.best_s, goal_s)
    elif isinstance(conclusion, (WritersDoNotWait, OtherWait)):
        return None
    rate = rate_for_return(model, goal_s)
    return (aim, model.burst_bytes / rate) if rate else None


def _exceeds_durable(analysis: Analysis) -> bool:
    limit_s, durable_s = analysis.limits.max_durable_s, analysis.present_price.durable_s
    return limit_s is not None and durable_s is not None and durable_s > limit_s


def _within_limit(analysis: Analysis, model: Model) -> tuple[Aim, float] | None:
    """Return the deadline for the limit, from when the device begins to write."""
    limit_s, durable_s = analysis.limits.max_durable_s, analysis.present_price.durable_s
    if limit_s is None or durable_s is None:
        return None
    begins_s = max(0.0, durable_s - model.burst_bytes / model.device_bytes_per_s)
    return (Aim.WITHIN_LIMIT, limit_s - begins_s) if limit_s > begins_s else None
