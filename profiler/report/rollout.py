# SPDX-License-Identifier: Apache-2.0
"""The words of a roll-out: what a plan can show, and a gate's decision with its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console

from contracts.shared.text import printable
from contracts.shared.units import counted, format_count, format_size
from profiler.report.console import plain_table, print_lines
from sysctl.rollout.gate import (
    GO_ON,
    REVERT,
    STOP,
    WAIT,
    EventFinding,
    GateDecision,
    ShareFinding,
    TimeFinding,
)
from sysctl.rollout.guardrails import AT_RISK, BY_NAME, CONTRADICTING, NOT_IN_FORCE
from sysctl.rollout.outcomes import VotingProblems
from sysctl.rollout.plan import ALPHA, DEVIATION, RolloutPlan

_HANGING = 2
_HEADLINES = {
    GO_ON: "Go on with the next stage.",
    WAIT: "Wait: there is neither harm nor proof of none.",
    STOP: "Stop: a person has to decide. Nothing shows that the settings harm.",
    REVERT: "Revert: the settings harm.",
}
_SHARES = {
    NOT_IN_FORCE: "treated nodes on which the settings are not in force",
    CONTRADICTING: "nodes in another arm than the plan's",
}
_BECAUSE = {
    "promotion": "a time to return that is longer by the margin is excluded",
    "votes": "more nodes must report",
    "missing": "far more treated than control nodes that reported before have not done so since",
    "last_look": "the stage has its votes, and a longer time to return is not excluded",
    "not_verified": "no treated node reports whether the settings are in force",
    **_SHARES,
    **{name: each.what for name, each in BY_NAME.items()},
}
_PROBLEMS = {
    "broken": "records that cannot be read",
    "bad_name": "records with an invalid name",
    "clock_ahead": "records from the future: a clock is off",
    "before_the_plan": "records of the roll-out from before its plan: a clock is off",
    "duplicate": "records that came more than once",
    "later_stage": "nodes that are ahead of their stage",
    "two_arms": "nodes in two arms",
    "wrong_arm": "nodes in another arm than the plan's",
    "other_class": "nodes of other classes that take part in the roll-out",
}


def percent(share: float) -> str:
    """Return `0.1 %`."""
    return f"{share * 100:.3g} %"


def print_plan(plan: RolloutPlan, console: Console) -> None:
    """Print the stages: how many nodes, which votes, and what they can show."""
    print_lines(
        [f"Roll-out {plan.id} for {counted(plan.nodes, 'node')}, in these stages:", ""], console
    )
    table = plain_table("stage", "share", "nodes", "votes needed", "excludes a rise of")
    for number, stage in enumerate(plan.stages, 1):
        table.add_row(
            str(number),
            percent(stage.share),
            format_count(round(stage.share * plan.nodes)),
            format_count(stage.votes),
            percent(stage.margin),
        )
    console.print(table)
    print_lines(["", *_plan_lines(plan)], console, hanging=_HANGING)


def _plan_lines(plan: RolloutPlan) -> Iterator[str]:
    control = round(plan.control * plan.nodes)
    if plan.class_key is not None:
        yield (
            f"Only for nodes of the class {plan.class_key}: "
            "give it to them alone. The gate does not count records of other classes."
        )
    yield f"Control arm, never treated: {percent(plan.control)}, {counted(control, 'node')}."
    yield (
        f"Votes are computed for a deviation of {percent(DEVIATION)} between nodes. All stages "
        f"together revert a harmless change with a probability of at most {percent(ALPHA)}."
    )
    first = plan.stages[0]
    if first.margin > 2 * plan.stages[-1].margin:
        yield (
            f"Stage 1 is small: it excludes only a rise of {percent(first.margin)} of the time to "
            "return. More is seen in later stages."
        )


def plan_document(plan: RolloutPlan, file: str) -> dict[str, Any]:
    """Return the content of the plan's JSON document."""
    content = plan.to_json()
    del content["format"], content["version"]
    return {"file": file, "class": plan.class_key, **content}


def print_decision(
    found: GateDecision, plan: RolloutPlan, stage: int, problems: VotingProblems, console: Console
) -> None:
    """Print the decision, each finding, and the records that did not count."""
    reasons = "; ".join(_BECAUSE[each] for each in found.because)
    print_lines([_HEADLINES[found.decision], f"Because: {reasons}.", ""], console)
    of_class = "" if plan.class_key is None else f", class {plan.class_key}"
    about = f"Roll-out {plan.id}, stage {stage} of {len(plan.stages)}{of_class}"
    print_lines([f"{about}:", *_findings(found)], console, hanging=_HANGING)
    lines = list(_problem_lines(problems))
    print_lines(["", "Not counted:", *lines] if lines else [], console, hanging=_HANGING)


def _findings(found: GateDecision) -> Iterator[str]:
    yield from (f"  {_time(each)}" for each in found.times)
    yield from (f"  {_event(each)}" for each in found.events)
    yield from (f"  {_share(each)}" for each in found.shares)
    promotion = found.promotion
    score = (
        ""
        if promotion.score is None
        else (f", score {promotion.score:.2f} (needs {promotion.boundary:.2f})")
    )
    yield (
        f"  promotion: {promotion.votes:.0f} of {promotion.votes_needed} votes, look "
        f"{promotion.look} of {promotion.looks}{score}"
    )


def _time(found: TimeFinding) -> str:
    what = BY_NAME[found.name].what
    nodes = f"{found.treated_nodes} treated and {found.control_nodes} control nodes"
    if found.ratio is None:
        return f"{what}: too few of {nodes}"
    low, high = (f"{end:.3f}" if end is not None else "?" for end in (found.low, found.high))
    verdict = "HARM" if found.is_harm else "no harm seen"
    return f"{what}: ×{found.ratio:.3f} [{low}, {high}], {nodes}: {verdict}"


def _event(found: EventFinding) -> str:
    verdict = "HARM" if found.is_harm else "no harm seen"
    limit = f" ({format_size(found.limit)})" if found.name == AT_RISK.name else ""
    treated, control = found.treated, found.control
    return (
        f"{BY_NAME[found.name].what}{limit}: {treated.count} of {treated.nodes} treated, "
        f"{control.count} of {control.nodes} control nodes: {verdict}"
    )


def _share(found: ShareFinding) -> str:
    verdict = f"MORE THAN {percent(found.limit)}" if found.is_exceeded else "within the limit"
    return f"{_SHARES[found.name]}: {found.nodes.count} of {found.nodes.nodes}: {verdict}"


def _problem_lines(problems: VotingProblems) -> Iterable[str]:
    for kind, count in sorted(problems.counts.items()):
        names = ", ".join(map(printable, problems.named[kind]))
        yield f"  {_PROBLEMS[kind]}: {format_count(count)} ({names})"


def decision_document(
    found: GateDecision, plan: RolloutPlan, stage: int, problems: VotingProblems
) -> dict[str, Any]:
    """Return the content of the gate's JSON document."""
    return {
        "rollout": plan.id,
        "stage": stage,
        "class": plan.class_key,
        "decision": found.decision,
        "because": list(found.because),
        "times": [asdict(each) for each in found.times],
        "events": [asdict(each) for each in found.events],
        "shares": [asdict(each) for each in found.shares],
        "promotion": _finite(asdict(found.promotion)),
        "not_counted": {
            kind: {"count": count, "some": problems.named[kind]}
            for kind, count in sorted(problems.counts.items())
        },
    }


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with null for what JSON has no number for."""
    infinite = (float("inf"), float("-inf"))
    return {name: None if value in infinite else value for name, value in fields.items()}
