# SPDX-License-Identifier: Apache-2.0
"""What the rate of the destination's device is made of: the volume, its credits, the instance.

The measured rate is compared with what the volume and the instance give to a pull of that size with
full and with empty buckets. So it shows which of them is the limit, and whether credits had run
out. The counters of EBS (`sysctl.evidence.over_limit`) count more than that comparison.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from contracts.shared.errors import UsageError
from sysctl.evidence.circumstances import KnownVolume, NodeClass
from sysctl.evidence.over_limit import EbsLimit, OverLimit, most_limited
from sysctl.evidence.prediction import Model
from sysctl.evidence.protocol import OUT_OF_CREDITS
from sysctl.evidence.runs import Runs
from sysctl.volume import instances, volume_types
from sysctl.volume.instances import Instance
from sysctl.volume.limits import DataPath, LimitedBy
from sysctl.volume.timeline import pull
from sysctl.volume.volume_types import EbsVolume

#: A rate that differs by less from what a type allows is that rate: HDD volumes promise 90 %.
_SAME = 0.10
#: A device that is at most this much slower than the source is not the limit.
_KEEPS_UP = 0.05
#: EBS was over a limit if it counted at least this share of a run.
_OVER = 0.05
_OWNERS = (LimitedBy.VOLUME, LimitedBy.INSTANCE)


class Fit(enum.Enum):
    """How the measured rate compares with what the volume and the instance allow."""

    UNKNOWN = "unknown volume"
    KEEPS_UP = "as fast as the source"
    WITH_CREDITS = "as allowed"
    WITHOUT_CREDITS = "as allowed without credits"
    BETWEEN = "between the rates with and without credits"
    ABOVE = "above what is allowed"
    BELOW = "below what is allowed"


@dataclass(frozen=True)
class State:
    """The mean rate of a pull with these credits (0 to 1, by owner), and what limits it."""

    bytes_per_s: float
    limited_by: LimitedBy
    credits: Mapping[LimitedBy, float]

    @property
    def is_full(self) -> bool:
        """Whether no bucket is empty."""
        return all(self.credits.values())


@dataclass(frozen=True)
class DeviceRate:
    """The measured rates of the device and the source, and what limits the device.

    `volume` and `instance` are None if they are unknown; `problem` says what is wrong with the
    volume of the results. `states` are what they allow, with full buckets first; `state` is the one
    that was measured. `over` is what EBS counted in the runs of the current settings.
    """

    bytes_per_s: float
    source_bytes_per_s: float
    fit: Fit
    volume: EbsVolume | None = None
    instance: Instance | None = None
    states: tuple[State, ...] = ()
    state: State | None = None
    over: OverLimit | None = None
    problem: str | None = None
    exhausted: int = 0

    @cached_property
    def limited_by(self) -> LimitedBy | None:
        """What limits the pull's way to the device; None if that is unknown."""
        if self.fit is Fit.KEEPS_UP:
            return LimitedBy.SOURCE
        counted = self.over_limit
        if counted is not None:
            owner = LimitedBy.INSTANCE if counted.is_of_instance else LimitedBy.VOLUME
            is_same = self.state is not None and self.state.limited_by.value.startswith(owner.value)
            return self.state.limited_by if self.state and is_same else owner
        if self.did_instance_run_out:
            return LimitedBy.INSTANCE_CREDITS
        return self.state.limited_by if self.state and not self.is_never_over else None

    @property
    def over_limit(self) -> EbsLimit | None:
        """The limit that EBS counted for the longest time; None if it counted hardly any."""
        limit = self.over.longest if self.over else None
        return limit if self.over and limit and self.over.share(limit) >= _OVER else None

    @property
    def did_instance_run_out(self) -> bool:
        """Whether a rate between those of the states is explained by the instance's credits alone.

        Without the volume's credits alone the rate would be as high or higher, or the volume has
        none. The counters of EBS overrule the comparison.
        """
        if self.fit is not Fit.BETWEEN or self.is_never_over:
            return False
        if self.over_limit is not None and not self.over_limit.is_of_instance:
            return False
        return self._explains(LimitedBy.INSTANCE) and not self._explains(LimitedBy.VOLUME)

    def _explains(self, owner: LimitedBy) -> bool:
        """Return whether that owner's lack of credits alone leads to less than was measured."""
        return any(
            state.bytes_per_s < self.bytes_per_s
            for state in self.states
            if [each for each, share in state.credits.items() if not share] == [owner]
        )

    @property
    def is_never_over(self) -> bool:
        """Whether EBS counted, and the device was over no limit although it was slower."""
        return self.over is not None and self.over_limit is None

    @property
    def may_volume_help(self) -> bool:
        """Whether a faster volume would write faster, as far as that is known."""
        if self.fit in (Fit.KEEPS_UP, Fit.ABOVE, Fit.BELOW) or self.is_never_over:
            return False
        return self.limited_by in (None, LimitedBy.VOLUME, LimitedBy.VOLUME_CREDITS)

    @property
    def credits(self) -> Mapping[LimitedBy, float]:
        """The credits to plan other volumes with: none where they ran out."""
        if self.fit is Fit.BETWEEN:
            return {LimitedBy.INSTANCE if self.did_instance_run_out else LimitedBy.VOLUME: 0.0}
        return dict(self.state.credits) if self.state else {}


def device_rate(runs: Runs, model: Model) -> DeviceRate:
    """Return the device's rate, and what it is made of."""
    of_class = runs.circumstances.node_class
    volume, problem = checked(of_class.volume)
    instance = instance_of(of_class)
    measured, source = model.device_bytes_per_s, model.source_bytes_per_s
    states = _states(volume, instance, model.burst_bytes) if volume else ()
    fit, state = _fit(measured, source, states)
    return DeviceRate(
        bytes_per_s=measured,
        source_bytes_per_s=source,
        fit=fit,
        volume=volume,
        instance=instance,
        states=states,
        state=state,
        over=most_limited(run.over_limit for run in runs.valid_present if run.over_limit),
        problem=problem,
        exhausted=sum(OUT_OF_CREDITS in trial.problem for trial in runs.trials),
    )


def checked(known: KnownVolume | None) -> tuple[EbsVolume | None, str | None]:
    """Return the volume of the results if it can be planned with; else None, and why not."""
    if known is None or known.type is None:
        return None, None
    asked = EbsVolume(known.type, known.size_gib, known.iops, known.mib_per_s)
    try:
        return volume_types.check(asked).volume, None
    except UsageError as error:
        return None, error.message


def instance_of(of_class: NodeClass) -> Instance | None:
    """Return the instance type; None if it is unknown or not in the table."""
    return instances.table().by_name.get((of_class.instance or "").lower())


def _states(volume: EbsVolume, instance: Instance | None, size_bytes: float) -> tuple[State, ...]:
    """Return what the volume and the instance give to a pull, with full and empty buckets."""
    path = (instances.path(instance) if instance else DataPath(())) + volume_types.path(volume)
    owners = [each for each in _OWNERS if any(b.owner is each for b in path.buckets)]
    found = []
    for shares in itertools.product((1.0, 0.0), repeat=len(owners)):
        credits = dict(zip(owners, shares))
        course = pull(path, size_bytes, path.levels(credits))
        found.append(State(size_bytes / course.durable_s, course.limited_by, credits))
    return tuple(found)


def _fit(measured: float, source: float, states: tuple[State, ...]) -> tuple[Fit, State | None]:
    """Return how a measured rate compares with the states, and the state that it shows."""
    is_above = bool(states) and measured > (1 + _SAME) * max(s.bytes_per_s for s in states)
    if measured >= (1 - _KEEPS_UP) * source and not is_above:
        return Fit.KEEPS_UP, None
    if not states:
        return Fit.UNKNOWN, None
    if is_above:
        return Fit.ABOVE, None
    near = [s for s in states if abs(measured / s.bytes_per_s - 1) <= _SAME]
    if near:
        state = min(near, key=lambda s: (not s.is_full, abs(measured / s.bytes_per_s - 1)))
        return Fit.WITH_CREDITS if state.is_full else Fit.WITHOUT_CREDITS, state
    is_below = measured < min(s.bytes_per_s for s in states)
    return (Fit.BELOW if is_below else Fit.BETWEEN), None
