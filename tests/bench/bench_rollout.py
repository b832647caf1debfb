# SPDX-License-Identifier: Apache-2.0
"""Simulate roll-outs to 100,000 nodes, and count what the gate decides.

`python -m tests.bench.bench_rollout [ROLLOUTS [CASE …]]`. Nodes differ by 20 % (standard deviation
of the logarithm). In each stage they report one after the other, and the gate is asked up to 10
times while they do, until it answers anything but "wait". The decisions are those of
`sysctl.rollout.gate.decide`; only the sums of 100,000 nodes are made with numpy, and for some
stages they are compared with those of `sysctl.rollout.gate.tally`.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sysctl.rollout import guardrails
from sysctl.rollout.anytime import Events, Moments
from sysctl.rollout.arms import CONTROL, TREATED
from sysctl.rollout.gate import (
    GO_ON,
    REVERT,
    STOP,
    WAIT,
    EventPair,
    StageTally,
    TimePair,
    decide,
    nodes_for,
    tally,
)
from sysctl.rollout.outcomes import NodeOutcome, StageOutcomes, VotingProblems
from sysctl.rollout.plan import RolloutPlan
from tests.bench.figures import host_line, print_table, rounds_wanted
from tests.unit.rollouts import plan_for

NODES, ROLLOUTS, ASKED = 100_000, 1000, 10
DEVIATION = 0.2
#: What happens on healthy nodes: shares of them with each event.
BASE = {"failed_pulls": 0.02, "oom_kills": 0.005, "memory_pressure": 0.03, "peak_at_risk": 0.01}
SILENT = 0.01
#: name → factor of the times on treated nodes, and factor of the events.
CASES: Mapping[str, tuple[float, float]] = {
    "+10 % return time": (1.10, 1.0),
    "+3 % return time": (1.03, 1.0),
    "no effect": (1.0, 1.0),
    "20 % faster": (0.8, 1.0),
    "20 % faster, events x 3": (0.8, 3.0),
}
COMPARED_STAGES = 3


class SimulatedFleet:
    """The nodes of one roll-out: their positions, and what each stage's records say of them."""

    def __init__(self, plan: RolloutPlan, seed: int, slower: float, events: float) -> None:
        self.plan = plan
        self._random = np.random.default_rng(seed)
        self._position = self._random.random(NODES)
        self._node = self._random.normal(math.log(60), DEVIATION, NODES)
        self._slower, self._events = slower, events

    def stage(self, number: int) -> Any:
        """Return the stage's records by arm: rows in the order in which the nodes report."""
        share = self.plan.stage(number).share
        arms = {
            TREATED: np.flatnonzero(self._position < share),
            CONTROL: np.flatnonzero(self._position >= 1 - self.plan.control),
        }
        return {arm: self._records(nodes, arm == TREATED) for arm, nodes in arms.items()}

    def _records(self, nodes: Any, is_treated: bool) -> dict[str, Any]:
        nodes = self._random.permutation(nodes)
        factor = self._slower if is_treated else 1.0
        rise = self._events if is_treated else 1.0
        # a node's own deviation stays; its pulls of this stage add a little
        logs = self._node[nodes] + self._random.normal(0, 0.03, len(nodes)) + math.log(factor)
        later = self._random.normal(math.log(1.5), 0.05, len(nodes))
        happened = {
            name: self._random.random(len(nodes)) < share * rise for name, share in BASE.items()
        }
        silent = self._random.random(len(nodes)) < SILENT
        return {"return": logs, "durable": logs + later, "events": happened, "silent": silent}


def moments_of(logs: Any, control: Any) -> Moments:
    """Return the moments, bounded by the control arm as the gate does."""
    if len(control) >= 20:
        centre = np.median(control)
        width = 4.0 * 1.4826 * np.median(np.abs(control - centre))
        logs = np.clip(logs, centre - width, centre + width)
    if not len(logs):
        return Moments(0, 0.0, 0.0)
    return Moments(len(logs), float(logs.mean()), float(((logs - logs.mean()) ** 2).sum()))


def sums(plan: RolloutPlan, number: int, records: Any, part: float) -> StageTally:
    """Return the sums of the first `part` of each arm's records."""
    arms = [records[arm] for arm in (TREATED, CONTROL)]
    counts = [max(0, round(part * len(arm["return"]))) for arm in arms]
    times = {}
    for name, key in (("return_time", "return"), ("durable_time", "durable")):
        logs = [arm[key][:count] for arm, count in zip(arms, counts)]
        times[name] = TimePair(*(moments_of(each, logs[1]) for each in logs))
    events = {
        name: EventPair(
            *(
                Events(count, int(arm["events"][name][:count].sum()))
                for arm, count in zip(arms, counts)
            )
        )
        for name in BASE
    }
    events["silent"] = EventPair(
        *(Events(count, int(arm["silent"][:count].sum())) for arm, count in zip(arms, counts))
    )
    logs = [arm["return"][:count] for arm, count in zip(arms, counts)]
    return StageTally(
        times,
        {each.name: events[each.name] for each in guardrails.EVENTS},
        _look(plan, number, logs),
        Events(counts[0], 0),
        Events(sum(counts), 0),
    )


def _look(plan: RolloutPlan, number: int, logs: Sequence[Any]) -> tuple[int, TimePair] | None:
    for at in range(len(plan.looks), 0, -1):
        wanted = nodes_for(plan.looks[at - 1] * plan.stage(number).votes, len(logs[1]))
        if wanted is not None and wanted <= len(logs[0]):
            return at, TimePair(moments_of(logs[0][:wanted], logs[1]), moments_of(logs[1], logs[1]))
    return None


def roll_out(plan: RolloutPlan, seed: int, slower: float, events: float) -> tuple[str, float, str]:
    """Return the last decision, the share that was treated then, and why."""
    fleet = SimulatedFleet(plan, seed, slower, events)
    for number, stage in enumerate(plan.stages, 1):
        records = fleet.stage(number)
        # like the pipeline of docs/how-to/roll-out-in-stages.md: the first answer but "wait" counts
        asked = (
            decide(plan, number, sums(plan, number, records, (at + 1) / ASKED))
            for at in range(ASKED)
        )
        last = next((each for each in asked if each.decision != WAIT), None)
        if last is None:
            return WAIT, stage.share, "votes"
        if last.decision != GO_ON:
            return last.decision, stage.share, ",".join(last.because)
    return GO_ON, plan.stages[-1].share, ""


def compare_sums(plan: RolloutPlan) -> None:
    """Fail unless the sums made with numpy are those of the gate's own outcomes."""
    for number in range(1, COMPARED_STAGES + 1):
        records = SimulatedFleet(plan, number, 1.1, 3.0).stage(number)
        outcomes = [
            each
            for arm in (TREATED, CONTROL)
            for each in _outcomes(arm, number, records[arm], plan)
        ]
        own = tally(StageOutcomes(tuple(outcomes), 0, VotingProblems()), plan, plan.stage(number))
        made = sums(plan, number, records, 1.0)
        first, second = (decide(plan, number, each) for each in (own, made))
        assert first.events == second.events
        assert (first.decision, first.because) == (second.decision, second.because)
        for one, other in zip(first.times, second.times):
            assert math.isclose(one.low or 0, other.low or 0, rel_tol=1e-9), (one, other)
        assert math.isclose(first.promotion.score or 0, second.promotion.score or 0, rel_tol=1e-6)


def _outcomes(arm: str, stage: int, records: Any, plan: RolloutPlan) -> list[NodeOutcome]:
    happened = records["events"]
    return [
        NodeOutcome(
            node=f"{arm}-{at}",
            arm=arm,
            stage=stage,
            start_s=float(at),
            pulls=1,
            failed_pulls=int(happened["failed_pulls"][at]),
            return_s=math.exp(records["return"][at]),
            durable_s=math.exp(records["durable"][at]),
            peak_at_risk_bytes=2**45 if happened["peak_at_risk"][at] else 0,
            oom_kills=int(happened["oom_kills"][at]),
            memory_psi_full_s=math.exp(records["return"][at])
            * (0.5 if happened["memory_pressure"][at] else 0),
            verify="in force" if arm == TREATED else None,
            reported=not records["silent"][at],
        )
        for at in range(len(records["return"]))
    ]


def main() -> None:
    """Simulate every case and print how the roll-outs ended."""
    rollouts = rounds_wanted(ROLLOUTS)
    plan = plan_for(NODES)
    compare_sums(plan)
    print(host_line(f"{rollouts} roll-outs to {NODES:,} nodes, {DEVIATION:.0%} between nodes"))
    rows = []
    named = sys.argv[2:]  # some of the cases
    for name, (slower, events) in CASES.items():
        if named and name not in named:
            continue
        began = time.monotonic()
        ends = [roll_out(plan, seed, slower, events) for seed in range(rollouts)]
        took_s = time.monotonic() - began
        rows.append(_row(name, ends))
        why = Counter(because for decision, _, because in ends if decision == REVERT)
        print(f"{name}: {took_s:.0f} s; {dict(why.most_common(3))}", file=sys.stderr, flush=True)
    header = ("", "reverted at 0.1 %", "at 1 %", "later", "stopped ≤ 1 %", "later", "all stages")
    print_table(header, rows)
    for stage in plan.stages:
        print(f"- {stage.share:.1%}: {stage.votes} votes exclude +{stage.margin:.1%}")


def _row(name: str, ends: Sequence[tuple[str, float, str]]) -> tuple[str, ...]:
    def share(count: int) -> str:
        return f"{count / len(ends):.1%}"

    reverted = [treated for decision, treated, _ in ends if decision == REVERT]
    stopped = [treated for decision, treated, _ in ends if decision in (STOP, WAIT)]
    decisions = Counter(decision for decision, _, _ in ends)
    return (
        name,
        share(sum(each <= 0.001 for each in reverted)),
        share(sum(0.001 < each <= 0.01 for each in reverted)),
        share(sum(each > 0.01 for each in reverted)),
        share(sum(each <= 0.01 for each in stopped)),
        share(sum(each > 0.01 for each in stopped)),
        share(decisions[GO_ON]),
    )


if __name__ == "__main__":
    main()
