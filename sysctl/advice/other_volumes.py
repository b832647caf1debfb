# SPDX-License-Identifier: Apache-2.0
"""The sweep's pull on other volumes: planned with the measured source, instance and credits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sysctl.advice.device_rate import DeviceRate, Fit
from sysctl.evidence.prediction import Model
from sysctl.knobs.setting import Setting, replace_values
from sysctl.volume.cheapest import VolumeSearch, cheapest, without_volume
from sysctl.volume.limits import Ceiling, LimitedBy
from sysctl.volume.planning import Plan, Pull, PullNode
from sysctl.volume.prices import Prices
from sysctl.volume.volume_types import EbsVolume
from sysctl.volume.write_back import Memory, judge

#: Volumes are shown for these shares of the current time to durable.
_SHARES = (1.0, 1 / 2, 1 / 4)
_MOST_SHOWN = 5
_BISECTIONS = 40


@dataclass(frozen=True)
class Other:
    """The same pull on another volume: predicted times to return and to durable (s)."""

    plan: Plan
    return_s: float
    durable_s: float


@dataclass(frozen=True)
class OtherVolumes:
    """Plans of the sweep's pull on other volumes."""

    model: Model
    rate: DeviceRate
    prices: Prices
    capacity_gib: int

    def plan(self, volume: EbsVolume) -> Plan:
        """Return the plan of one volume."""
        return Plan(Pull(self.model.burst_bytes), self._node(), volume, self.prices)

    def _node(self) -> PullNode:
        source = Ceiling(LimitedBy.SOURCE, self.model.source_bytes_per_s)
        return PullNode(source, self.rate.instance, None, self.rate.credits)

    def within(self, deadline_s: float) -> tuple[Plan, ...]:
        """Return the cheapest volumes that have all data after that time, the cheapest first."""
        return cheapest(self._search(deadline_s)).plans

    def fastest_s(self) -> tuple[float, LimitedBy]:
        """Return when the data would be durable on the fastest volume, and what then limits."""
        course = without_volume(self._search(None))
        assert course is not None  # noqa: S101 - the source's rate is known
        return course.durable_s, course.limited_by

    def _search(self, deadline_s: float | None) -> VolumeSearch:
        return VolumeSearch(
            pull=Pull(self.model.burst_bytes),
            node=self._node(),
            prices=self.prices,
            capacity_gib=self.capacity_gib,
            deadline_s=deadline_s,
            with_hdd_margin=True,
        )

    def predicted(self, plan: Plan, values: Mapping[str, int]) -> Other:
        """Return the predicted times under sysctl `values`."""
        model, phases = self.model, plan.course.phases
        if len(phases) == 1:
            found = replace(model, device_bytes_per_s=phases[0].bytes_per_s).predict(values)
            return Other(plan, found.return_s, found.durable_s)
        complete = Setting(tuple(replace_values(model.present, values).items()))
        memory = Memory(model.dirtyable_bytes, complete)
        now = judge(model.burst_bytes, memory, model.source_bytes_per_s, phases).current
        durable_s = max(now.return_s, now.begins_s + plan.course.durable_s)
        return Other(plan, now.return_s, durable_s)

    def shown(self, values: Mapping[str, int], wanted: Plan | None) -> tuple[Other, ...]:
        """Return a few volumes from the cheapest that is as fast as now to the fastest.

        None if the device does not behave like its type: another may not, either. Nor if the
        instance's credits ran out during the pulls: no plan has the measured rate.
        """
        if self.rate.fit in (Fit.ABOVE, Fit.BELOW) or self.rate.did_instance_run_out:
            return ()
        shares = _SHARES if self.rate.may_volume_help else _SHARES[:1]
        now_s = self.model.burst_bytes / self.model.device_bytes_per_s
        fastest_s, _ = self.fastest_s()
        deadlines = [now_s * share for share in shares if now_s * share > fastest_s]
        found = [plan for each_s in (*deadlines, fastest_s) for plan in self.within(each_s)]
        if wanted:
            found.append(wanted)
        plans = {plan.volume: plan for plan in found if plan.volume != self.rate.volume}
        kept = _not_beaten([self.predicted(plan, values) for plan in plans.values()])
        return tuple(_thinned(kept, wanted))


def _not_beaten(others: list[Other]) -> list[Other]:
    """Return those that are faster than all cheaper ones, the cheapest first."""
    kept: list[Other] = []
    for other in sorted(others, key=lambda each: (each.plan.monthly_usd or 0.0, each.durable_s)):
        if not kept or other.durable_s < kept[-1].durable_s:
            kept.append(other)
    return kept


def _thinned(others: list[Other], wanted: Plan | None) -> Iterator[Other]:
    """Yield at most a few, evenly spread, with the cheapest, the fastest and the wanted one."""
    last = len(others) - 1
    steps = min(last, _MOST_SHOWN - 1)
    chosen = {round(step * last / steps) for step in range(steps + 1)} if steps > 0 else {0}
    for number, other in enumerate(others):
        if number in chosen or (wanted and other.plan.volume == wanted.volume):
            yield other


def rate_for_return(model: Model, goal_s: float) -> float | None:
    """Return the least device rate (bytes/s) at which the current settings return in time.

    None if the device is fast enough already, or if no rate is.
    """

    def is_in_time(rate: float) -> bool:
        return replace(model, device_bytes_per_s=rate).predict({}).return_s <= goal_s

    low, high = model.device_bytes_per_s, model.source_bytes_per_s
    if low >= high or is_in_time(low) or not is_in_time(high):
        return None
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_in_time(middle) else (middle, high)
    return high
