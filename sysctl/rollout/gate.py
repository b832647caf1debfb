# SPDX-License-Identifier: Apache-2.0
"""The decision after a look at a stage: go on, wait, stop, or revert; the reasons as data.

Harm is looked for at any time and decides first. A stage is promoted at a planned look at its
votes, if a rise of the time to return by the stage's margin is excluded. What is neither at the
last look stops: a person decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sysctl.change.class_text import recorded_class
from sysctl.rollout import guardrails
from sysctl.rollout.anytime import (
    ArmDifference,
    Events,
    Moments,
    difference,
    evidence_above,
    evidence_of_more,
    moments,
    reach,
)
from sysctl.rollout.arms import CONTROL, TREATED
from sysctl.rollout.group_sequential import boundaries, student_boundary
from sysctl.rollout.outcomes import NodeOutcome, StageOutcomes, StageWindow, by_arm
from sysctl.rollout.plan import ALPHA, RolloutPlan, Stage

GO_ON, WAIT, STOP, REVERT = "go on", "wait", "stop", "revert"
#: A vote further from the control arm's median counts as if it were there: so many deviations
#: (MAD x 1.4826, that of the normal distribution). A single forged record cannot hide a difference.
_CLIP, _MAD = 4.0, 1.4826
_FEW = 20


@dataclass(frozen=True)
class TimePair:
    """The logarithms of a time in both arms."""

    treated: Moments
    control: Moments


@dataclass(frozen=True)
class EventPair:
    """The nodes with an event in both arms."""

    treated: Events
    control: Events


@dataclass(frozen=True)
class StageTally:
    """What the decision needs of the outcomes: sums by guardrail.

    `look` is the time to return at the last planned look that was reached, None before the first.
    `verified` and `contradicting` are of treated nodes that answered, and of all nodes, `missing`
    of nodes that reported lately.
    """

    times: Mapping[str, TimePair]
    events: Mapping[str, EventPair]
    look: tuple[int, TimePair] | None
    verified: Events
    contradicting: Events
    missing: EventPair = EventPair(Events(0, 0), Events(0, 0))


@dataclass(frozen=True)
class TimeFinding:
    """A time: ratio treated : control, its any-time-valid interval, the harmless limit, votes."""

    name: str
    ratio: float | None
    low: float | None
    high: float | None
    limit: float
    treated_nodes: int
    control_nodes: int
    is_harm: bool


@dataclass(frozen=True)
class EventFinding:
    """An event: nodes with it in both arms, and the evidence (log e-value) of the needed one."""

    name: str
    treated: Events
    control: Events
    evidence: float
    needed: float
    limit: float
    is_harm: bool


@dataclass(frozen=True)
class ShareFinding:
    """A share of nodes that must not exceed its limit: settings not in force, contradictions."""

    name: str
    nodes: Events
    evidence: float
    needed: float
    limit: float
    is_exceeded: bool


@dataclass(frozen=True)
class Promotion:
    """The look that was reached (from 1; 0: none), its score, and the boundary to exceed."""

    look: int
    looks: int
    votes: float
    votes_needed: int
    margin: float
    score: float | None
    boundary: float | None
    is_excluded: bool


@dataclass(frozen=True)
class GateDecision:
    """What to do, why (names of guardrails, or of what is missing), and every finding."""

    decision: str
    because: tuple[str, ...]
    times: tuple[TimeFinding, ...]
    events: tuple[EventFinding, ...]
    shares: tuple[ShareFinding, ...]
    promotion: Promotion


def window_of(plan: RolloutPlan, number: int, now_s: float) -> StageWindow:
    """Return what decides who votes in stage `number` of the plan at a time (s since 1970)."""
    return StageWindow(
        rollout=plan.id,
        stage=number,
        treated=plan.stage(number).share,
        control=plan.control,
        created_s=plan.created_s,
        silent_after_s=plan.silent_after_s,
        now_s=now_s,
        class_key=None if plan.class_key is None else recorded_class(plan.class_key),
    )


def tally(found: StageOutcomes, plan: RolloutPlan, stage: Stage) -> StageTally:
    """Return the sums of the outcomes."""
    arms = by_arm(found.outcomes)
    treated, control = arms[TREATED], arms[CONTROL]
    times = {each.name: _time_pair(each, treated, control) for each in guardrails.TIMES}
    events = {
        each.name: EventPair(
            *(_events(each, arm, plan.limits[each.name]) for arm in (treated, control))
        )
        for each in guardrails.EVENTS
    }
    answered = [each.verify for each in treated if each.verify is not None]
    wrong = sum(answer != "in force" for answer in answered)
    everyone = len(found.outcomes) + found.contradicting
    return StageTally(
        times,
        events,
        _look(treated, control, stage, plan.looks),
        Events(len(answered), wrong),
        Events(everyone, found.contradicting + _treated_controls(control)),
        EventPair(*(_missing(found, arm, len(arms[arm])) for arm in (TREATED, CONTROL))),
    )


def _missing(found: StageOutcomes, arm: str, known: int) -> Events:
    count = found.missing.get(arm, 0)
    return Events(known + count, count)


def _treated_controls(control: Iterable[NodeOutcome]) -> int:
    """Return how many control nodes have the settings in force: they are no control."""
    return sum(each.verify == "in force" for each in control)


def _events(
    guardrail: guardrails.EventGuardrail, arm: Iterable[NodeOutcome], limit: float
) -> Events:
    known = [guardrails.exceeds(guardrail, each, limit) for each in arm]
    return Events(sum(each is not None for each in known), sum(each is True for each in known))


def _time_pair(
    guardrail: guardrails.TimeGuardrail,
    treated: Iterable[NodeOutcome],
    control: Iterable[NodeOutcome],
) -> TimePair:
    logs = [
        [math.log(seconds) for each in arm if (seconds := guardrail.seconds(each))]
        for arm in (treated, control)
    ]
    clip = _clip(logs[1])
    return TimePair(*(moments(map(clip, arm)) for arm in logs))


def _clip(control: Sequence[float]) -> Callable[[float], float]:
    """Return what bounds a vote by the control arm; nothing is bounded by few nodes."""
    if len(control) < _FEW:
        return float
    centre = median(control)
    width = _CLIP * _MAD * median(abs(each - centre) for each in control)
    if not width:
        return float
    return lambda value: min(max(value, centre - width), centre + width)


def _look(
    treated: Sequence[NodeOutcome],
    control: Sequence[NodeOutcome],
    stage: Stage,
    looks: Sequence[float],
) -> tuple[int, TimePair] | None:
    """Return the last look that was reached, with the first nodes that reach it.

    So a look has the same nodes however often and whenever the gate is asked.
    """
    voters = [each for each in treated if each.return_s]
    kept = [each for each in control if each.return_s]
    for number in range(len(looks), 0, -1):
        count = nodes_for(looks[number - 1] * stage.votes, len(kept))
        if count is not None and count <= len(voters):
            return number, _time_pair(guardrails.RETURN_TIME, voters[:count], kept)
    return None


def nodes_for(votes: float, control: int) -> int | None:
    """Return how many treated nodes give so many votes; None if the control arm is too small."""
    if control <= votes:
        return None
    return max(2, math.ceil(1 / (1 / votes - 1 / control)))


def decide(plan: RolloutPlan, number: int, sums: StageTally) -> GateDecision:
    """Return the decision on stage `number` (from 1)."""
    stage = plan.stage(number)
    times = tuple(_time_finding(name, pair, plan, stage) for name, pair in sums.times.items())
    events = tuple(_event_finding(name, pair, plan) for name, pair in sums.events.items())
    shares = (
        _share_finding(guardrails.NOT_IN_FORCE, sums.verified, plan),
        _share_finding(guardrails.CONTRADICTING, sums.contradicting, plan),
    )
    promotion = _promotion(sums, plan, stage)
    missing = evidence_of_more(sums.missing.treated, sums.missing.control)
    is_missing = missing >= math.log(1 / plan.alpha_of_each)
    decision, because = _decision(times, events, shares, promotion, is_missing)
    return GateDecision(decision, because, times, events, shares, promotion)


def _decision(
    times: Iterable[TimeFinding],
    events: Iterable[EventFinding],
    shares: Sequence[ShareFinding],
    promotion: Promotion,
    is_missing: bool,
) -> tuple[str, tuple[str, ...]]:
    findings: list[TimeFinding | EventFinding] = [*times, *events]
    harm = tuple(each.name for each in findings if each.is_harm)
    if harm:
        return REVERT, harm
    exceeded = tuple(each.name for each in shares if each.is_exceeded)
    if exceeded:
        return STOP, exceeded
    if promotion.is_excluded and is_missing:  # the change may have silenced them
        return WAIT, ("missing",)
    if promotion.is_excluded:
        verified = next(each.nodes for each in shares if each.name == guardrails.NOT_IN_FORCE)
        return (GO_ON, ("promotion",)) if verified.nodes else (WAIT, ("not_verified",))
    if promotion.look == promotion.looks:
        return STOP, ("last_look",)
    return WAIT, ("votes",)


def _time_finding(name: str, pair: TimePair, plan: RolloutPlan, stage: Stage) -> TimeFinding:
    limit = plan.limits[name]
    nodes = pair.treated.count, pair.control.count
    found = difference(pair.treated, pair.control)
    if found is None:
        return TimeFinding(name, None, None, None, limit, *nodes, is_harm=False)
    radius = reach(found, plan.alpha_of_each, stage.votes)
    low, high = found.estimate - radius, found.estimate + radius
    return TimeFinding(
        name,
        _ratio(found.estimate),
        _ratio(low),
        _ratio(high),
        limit,
        *nodes,
        is_harm=low > math.log(limit),
    )


def _ratio(logarithm: float) -> float | None:
    """Return the ratio; None if it has no bound."""
    return math.exp(logarithm) if abs(logarithm) < 700 else None


def _event_finding(name: str, pair: EventPair, plan: RolloutPlan) -> EventFinding:
    evidence = evidence_of_more(pair.treated, pair.control)
    needed = math.log(1 / plan.alpha_of_each)
    is_harm = evidence >= needed
    limit = plan.limits[name]
    return EventFinding(name, pair.treated, pair.control, evidence, needed, limit, is_harm)


def _share_finding(name: str, nodes: Events, plan: RolloutPlan) -> ShareFinding:
    evidence = evidence_above(nodes, plan.limits[name])
    needed = math.log(1 / plan.alpha_of_each)
    return ShareFinding(name, nodes, evidence, needed, plan.limits[name], evidence >= needed)


def _promotion(sums: StageTally, plan: RolloutPlan, stage: Stage) -> Promotion:
    pair = sums.times[guardrails.RETURN_TIME.name]
    now = difference(pair.treated, pair.control)
    votes = now.votes if now else 0.0
    basis = Promotion(0, len(plan.looks), votes, stage.votes, stage.margin, None, None, False)
    found = difference(sums.look[1].treated, sums.look[1].control) if sums.look else None
    if sums.look is None or found is None:
        return basis
    number = sums.look[0]
    boundary = student_boundary(boundaries(plan.looks, ALPHA)[number - 1], found.degrees)
    score = _score(found, stage.margin)
    return Promotion(
        number, len(plan.looks), votes, stage.votes, stage.margin, score, boundary, score > boundary
    )


def _score(found: ArmDifference, margin: float) -> float:
    """Return by how many standard errors the rise is below the margin."""
    distance = math.log1p(margin) - found.estimate
    return distance / found.error if found.error else math.copysign(math.inf, distance)
