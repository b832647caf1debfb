# SPDX-License-Identifier: Apache-2.0
"""From the records of nodes to one outcome a node: who votes in a stage, and who contradicts it.

A record is what a node reports of itself, so nothing in it is believed that can be computed: the
arm is that of the plan. Records with another arm, in two arms, of another stage, with a clock that
is off, or that came twice, are counted and their nodes named; they do not vote. A node of either
arm that has stopped to report is in the outcomes with `reported` false.

A plan for one class of nodes is judged by records of that class: others do not vote. A node that
reports under another class, such as after an upgrade of its kernel, has left the class, and is not
silent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sysctl.rollout.arms import CONTROL, NODE, TREATED, WAITING, arm_of

#: A record from further ahead has a clock that is off.
CLOCK_TOLERANCE_S = 3600.0
#: Nodes that are named for each problem.
MAX_NAMED = 10


@dataclass(frozen=True)
class NodeReport:
    """One record, as far as a roll-out needs it. `start_s` is in seconds since 1970.

    `rollout`, `stage` (from 1) and `arm` are what the node believes; None without a roll-out.
    `class_key` is the class of the node.
    """

    node: str
    start_s: float
    rollout: str | None
    stage: int | None
    arm: str | None
    pulls: int
    failed_pulls: int
    return_s: float | None
    durable_s: float | None
    peak_at_risk_bytes: int | None
    oom_kills: int
    memory_psi_full_s: float | None
    verify: str | None
    class_key: str | None = None


@dataclass(frozen=True)
class NodeOutcome:
    """What one node has to say of one stage: its vote. Times are means over its pulls, in s."""

    node: str
    arm: str
    stage: int
    start_s: float
    pulls: int = 0
    failed_pulls: int = 0
    return_s: float | None = None
    durable_s: float | None = None
    peak_at_risk_bytes: int | None = None
    oom_kills: int = 0
    memory_psi_full_s: float | None = None
    verify: str | None = None
    reported: bool = True


@dataclass(frozen=True)
class StageWindow:
    """What decides who votes: the roll-out, its stage and shares, the times, and the class.

    Without a class, nodes of all classes vote.
    """

    rollout: str
    stage: int
    treated: float
    control: float
    created_s: float
    silent_after_s: float
    now_s: float
    class_key: str | None = None

    def is_of_class(self, report: NodeReport) -> bool:
        """Return whether a report is of the class that is judged."""
        return self.class_key is None or report.class_key == self.class_key


@dataclass
class VotingProblems:
    """For each kind of problem how many records or nodes have it, and some of their names."""

    counts: dict[str, int] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, node: str) -> None:
        """Count one, and keep its name if there is room."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        names = self.named.setdefault(kind, [])
        if len(names) < MAX_NAMED and node not in names:
            names.append(node)


@dataclass(frozen=True)
class StageOutcomes:
    """One outcome a node, and the nodes whose records contradict the plan, which do not vote.

    `missing` are how many nodes of each arm reported lately, but not yet in this stage.
    """

    outcomes: tuple[NodeOutcome, ...]
    contradicting: int
    problems: VotingProblems
    missing: Mapping[str, int] = field(default_factory=dict)


def stage_outcomes(
    reports: Iterable[NodeReport], window: StageWindow, problems: VotingProblems | None = None
) -> StageOutcomes:
    """Return one outcome for each treated and control node that was ever seen.

    What does not vote is added to `problems`.
    """
    problems = VotingProblems() if problems is None else problems
    by_node: dict[str, list[NodeReport]] = defaultdict(list)
    for report in _plausible(reports, window, problems):
        by_node[report.node].append(report)
    outcomes: list[NodeOutcome] = []
    contradicting, missing = 0, {TREATED: 0, CONTROL: 0}
    for node, listed in sorted(by_node.items()):
        arm = arm_of(node, window.rollout, window.treated, window.control)
        judged = [each for each in listed if window.is_of_class(each)]
        kind = _contradiction(judged, arm, window)
        if not judged:
            if any(each.rollout == window.rollout for each in listed):
                problems.add("other_class", node)
        elif kind:
            problems.add(kind, node)
            contradicting += 1
        elif arm != WAITING:
            last_s = max(each.start_s for each in listed)
            found = _outcome(node, arm, judged, last_s, window)
            outcomes += found
            missing[arm] += not found and not _is_gone(judged, window)
    return StageOutcomes(tuple(outcomes), contradicting, problems, missing)


def _plausible(
    reports: Iterable[NodeReport], window: StageWindow, problems: VotingProblems
) -> Iterable[NodeReport]:
    """Yield each record once, without those whose name or clock cannot be right."""
    seen: set[tuple[str, float]] = set()
    for report in reports:
        key = (report.node, report.start_s)
        if not NODE.fullmatch(report.node):
            problems.add("bad_name", "?")
        elif not report.start_s <= window.now_s + CLOCK_TOLERANCE_S:  # nor a NaN
            problems.add("clock_ahead", report.node)
        elif report.rollout == window.rollout and report.start_s < window.created_s - (
            CLOCK_TOLERANCE_S
        ):
            problems.add("before_the_plan", report.node)
        elif key in seen:
            problems.add("duplicate", report.node)
        else:
            seen.add(key)
            yield report


def _contradiction(reports: Sequence[NodeReport], arm: str, window: StageWindow) -> str | None:
    """Return why the node does not vote: it has been in an arm that is not the plan's."""
    here = [each for each in reports if each.rollout == window.rollout]
    if any(each.stage is None or not 1 <= each.stage <= window.stage for each in here):
        return "later_stage"
    said = {each.arm for each in here if each.stage == window.stage}
    if len(said) > 1:
        return "two_arms"
    return "wrong_arm" if said - {arm} else None


def _outcome(
    node: str, arm: str, reports: Sequence[NodeReport], last_s: float, window: StageWindow
) -> list[NodeOutcome]:
    """Return the node's outcome; none if it is of another time, or new in this stage.

    `last_s` is of its last report of any class.
    """
    if _is_gone(reports, window):
        return []
    votes = [
        each for each in reports if each.rollout == window.rollout and each.stage == window.stage
    ]
    is_silent = last_s < window.now_s - window.silent_after_s
    if not votes:
        silent = NodeOutcome(node, arm, window.stage, last_s, reported=False)
        return [silent] if is_silent else []
    return [
        NodeOutcome(
            node,
            arm,
            window.stage,
            start_s=min(each.start_s for each in votes),
            pulls=sum(each.pulls for each in votes),
            failed_pulls=sum(each.failed_pulls for each in votes),
            return_s=_mean([(each.return_s, each.pulls) for each in votes]),
            durable_s=_mean([(each.durable_s, each.pulls) for each in votes]),
            peak_at_risk_bytes=max(
                (each.peak_at_risk_bytes for each in votes if each.peak_at_risk_bytes is not None),
                default=None,
            ),
            oom_kills=sum(each.oom_kills for each in votes),
            memory_psi_full_s=_sum([each.memory_psi_full_s for each in votes]),
            verify=_verify([each.verify for each in votes]),
            reported=not is_silent,
        )
    ]


def _is_gone(reports: Sequence[NodeReport], window: StageWindow) -> bool:
    """Return whether the node was gone before the roll-out."""
    last_s = max(each.start_s for each in reports)
    return last_s < window.created_s - window.silent_after_s


def _mean(values: Iterable[tuple[float | None, int]]) -> float | None:
    """Return the mean weighted by pulls of the positive, finite values."""
    known = [
        (value, max(1, weight))
        for value, weight in values
        if value is not None and 0 < value < math.inf
    ]
    total = sum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / total if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and 0 <= value < math.inf]
    return math.fsum(known) if known else None


def _verify(values: Sequence[str | None]) -> str | None:
    """Return the worst of the answers; None if there is none."""
    known = {value for value in values if value is not None}
    return next((each for each in ("not applied", "changed", "in force") if each in known), None)


def by_arm(outcomes: Iterable[NodeOutcome]) -> Mapping[str, list[NodeOutcome]]:
    """Return the outcomes of each arm, the node that began first before the others."""
    arms: dict[str, list[NodeOutcome]] = {TREATED: [], CONTROL: []}
    for each in sorted(outcomes, key=lambda each: (each.start_s, each.node)):
        arms[each.arm].append(each)
    return arms
