# SPDX-License-Identifier: Apache-2.0
"""A shared study in words: its state, and what it shows for a class."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console

from contracts.shared.units import counted, format_seconds, format_size
from profiler.report.console import print_lines
from sysctl.evidence.statistics import Interval
from sysctl.fleet.claims import (
    ClaimKind,
    ClaimState,
    Record,
    is_without_finalist,
    lost_settings,
)
from sysctl.fleet.class_advice import (
    ENOUGH_NODES,
    ClassAdvice,
    ClassSetting,
    NodeBefore,
    Objections,
)
from sysctl.fleet.kinds import LEAST_TAU, NodeKind, NodeVerdict
from sysctl.fleet.spec import StudySpec

_KINDS = {
    NodeKind.GAINS: "gains on",
    NodeKind.NO_GAIN: "no gain on",
    NodeKind.UNCLEAR: "unclear on",
}
#: The width of the labels before what they name.
_LABEL = 16
#: Nodes of a kind that are named in the text; JSON has all.
_NAMED = 50


def status_document(spec: StudySpec, records: Sequence[Record], broken: int) -> dict[str, object]:
    """Return the state of a study as plain data."""
    states = Counter((record.claim.kind, record.state) for record in records)

    def counts(kind: ClaimKind) -> dict[str, int]:
        return {state.value: states[kind, state] for state in ClaimState}

    return {
        "study": spec.name,
        "class": spec.class_key,
        "strategy": spec.strategy,
        "present": dict(spec.present),
        "values": {name: list(values) for name, values in spec.values.items()},
        "candidates": len(spec.candidates),
        "nodes_wanted": spec.nodes,
        "blocks_wanted": spec.blocks,
        "search": counts(ClaimKind.SEARCH),
        "blocks": counts(ClaimKind.BLOCK),
        "nodes": sorted({record.claim.node for record in records}),
        "late": sum(record.is_late for record in records),
        "given_up": [str(setting) for setting in lost_settings(spec, records)],
        "broken": broken,
    }


def print_status(spec: StudySpec, records: Sequence[Record], broken: int, console: Console) -> None:
    """Print the state of a study."""
    shown = status_document(spec, records, broken)
    states = Counter((record.claim.kind, record.state) for record in records)
    lines = [
        f"study {spec.name}: {counted(len(spec.candidates), 'candidate')} for {spec.class_key}",
    ]
    for kind, noun in ((ClaimKind.SEARCH, "search"), (ClaimKind.BLOCK, "recheck")):
        found = ", ".join(f"{states[kind, state]} {state.value}" for state in ClaimState)
        lines.append(f"  {noun:<8} {found}")
    nodes = len({record.claim.node for record in records})
    lines.append(f"  nodes    {nodes} took part; the recheck takes {spec.nodes}")
    if shown["late"]:
        lines.append(f"  late     {shown['late']} results came after their claims were lost")
    lines += [f"  given up {each}" for each in map(str, lost_settings(spec, records))]
    if is_without_finalist(spec, records):
        lines.append("  ended    no candidate was faster than the current settings")
    if broken:
        lines.append(
            f"  warning  {counted(broken, 'claim')} of the ledger cannot be read: "
            "check who can write to it"
        )
    print_lines(lines, console)


def advice_of_class_document(advice: ClassAdvice) -> dict[str, object]:
    """Return the advice for a class as plain data."""
    return {
        "study": advice.spec.name,
        "class": advice.spec.class_key,
        "headline": headline(advice),
        "complete": advice.is_complete,
        "nodes": list(advice.nodes),
        "present": dict(advice.spec.present),
        "present_by_node": {node: vars(each) for node, each in advice.before.items()},
        "recommended": advice.best.setting.values if advice.best else None,
        "settings": [_setting_document(each) for each in advice.settings],
    }


def _setting_document(each: ClassSetting) -> dict[str, object]:
    found = each.found
    return {
        "setting": each.setting.values,
        "nodes": each.nodes,
        "time_ratio": _interval_document(found.mean) if found else None,
        "predicted": _interval_document(found.predicted) if found else None,
        "confidence": found.confidence if found else None,
        "tau": found.tau if found else None,
        "i_squared": found.i_squared if found else None,
        "by_node": {verdict.node: _verdict_document(verdict) for verdict in each.verdicts},
        "stall_share": each.stall_share,
        "at_risk_bytes": each.at_risk_bytes,
        "objection": each.objection.value if each.objection else None,
        "enough_nodes": each.enough_nodes,
    }


def _verdict_document(verdict: NodeVerdict) -> dict[str, object]:
    ratio = verdict.ratio
    return {**_interval_document(ratio), "pairs": ratio.count, "kind": verdict.kind.value}


def _interval_document(interval: Interval) -> dict[str, float | None]:
    high = interval.high if math.isfinite(interval.high) else None
    return {"estimate": interval.estimate, "low": interval.low, "high": high}


def headline(advice: ClassAdvice) -> str:
    """Return what to do, in one sentence."""
    if advice.best and advice.best.found:
        found = advice.best.found
        return (
            f"Set {advice.best.setting}: a pull takes {found.mean.estimate:.0%} of the current "
            f"time, and on another node of the class {_span(found.predicted)}."
        )
    if advice.is_without_finalist:
        return "Change nothing on the class: no candidate was faster than the current settings."
    if not advice.settings:
        return "Change nothing yet: no setting was compared with the current ones."
    mixed = next((x for x in advice.settings if x.objection is Objections.MIXED), None)
    if mixed:
        gains, others = (_count(mixed, kind) for kind in (NodeKind.GAINS, NodeKind.NO_GAIN))
        return (
            f"Change nothing on the class, and split it: {mixed.setting} gains on "
            f"{counted(gains, 'node')} and not on {others}."
        )
    why = advice.settings[0].objection
    return f"Change nothing on the class: {why.value if why else 'nothing was compared'}."


def _count(each: ClassSetting, kind: NodeKind) -> int:
    return sum(verdict.kind is kind for verdict in each.verdicts)


def _span(interval: Interval) -> str:
    return f"{interval.low:.0%} to {interval.high:.0%}"


def print_class_advice(advice: ClassAdvice, console: Console) -> None:
    """Print the advice for a class, with how much its nodes differ."""
    about = f"class {advice.spec.class_key}; {_state(advice)}"
    print_lines([headline(advice), "", about], console)
    for each in advice.settings:
        print_lines(["", *_setting_lines(each, advice.before)], console, hanging=_LABEL)


def _state(advice: ClassAdvice) -> str:
    if advice.is_without_finalist:
        return "the search has ended, and nothing was left to compare"
    state = "complete" if advice.is_complete else "not complete"
    return f"{counted(len(advice.nodes), 'node')}; the recheck is {state}"


def _setting_lines(each: ClassSetting, before: Mapping[str, NodeBefore]) -> Iterator[str]:
    yield f"{each.setting}"
    found = each.found
    if found is None:
        yield f"  measured on {counted(each.nodes, 'node')}, too few for an estimate"
    else:
        yield (
            f"  time ratio    {found.mean.estimate:.3f}, {found.confidence:.1%} interval "
            f"{found.mean.low:.3f} to {found.mean.high:.3f}, {counted(found.mean.count, 'node')}"
        )
        yield (
            f"  another node  {found.predicted.low:.3f} to {found.predicted.high:.3f} "
            "(prediction interval)"
        )
        yield (
            f"  nodes differ  by {found.tau:.1%} (tau); {found.i_squared:.0%} of the scatter is "
            "not noise (I²)"
        )
        yield from _kind_lines(each, before)
    yield f"  at risk       at most {format_size(each.at_risk_bytes)} on any node"
    if each.objection:
        yield f"  not advised   {_why(each)}"


def _kind_lines(each: ClassSetting, before: Mapping[str, NodeBefore]) -> Iterator[str]:
    """Yield which nodes gain and which do not, where nodes differ, with how they are now."""
    if each.found is None or each.found.tau < LEAST_TAU:
        return
    for kind, words in _KINDS.items():
        verdicts = [verdict for verdict in each.verdicts if verdict.kind is kind]
        if not verdicts:
            continue
        now = [before[verdict.node] for verdict in verdicts]
        yield (
            f"  {words:<13} {counted(len(verdicts), 'node')}, now "
            f"{format_seconds(statistics.median(one.return_s for one in now))} a pull, writers "
            f"wait {statistics.median(one.stall_share for one in now):.0%} of their time:"
        )
        named = [f"{verdict.node} {verdict.ratio.estimate:.3f}" for verdict in verdicts[:_NAMED]]
        more = len(verdicts) - len(named)
        yield f"{'':{_LABEL}}{', '.join(named)}{f', and {more} more' if more else ''}"


def _why(each: ClassSetting) -> str:
    why, enough = each.objection, each.enough_nodes
    if why is Objections.TOO_FEW_NODES:
        few = f"only {counted(each.nodes, 'node')}, at least {ENOUGH_NODES} are needed"
        if enough is None:
            return f"{few}; if the others are like these, no number of nodes is enough"
        likely = f"{few}; {enough} would be enough if the others are like these"
        return likely if each.found else few
    if why is Objections.MIXED:
        return (
            "the class has two kinds of nodes: find what distinguishes them, and make a study for "
            "each kind (`study create --kind`)"
        )
    if why is Objections.NODES_DIFFER:
        if enough is None:
            return (
                "the nodes differ so much that some are slower with it, however many are "
                "measured: find what distinguishes them, and make a study for each kind "
                "(`study create --kind`)"
            )
        return f"another node may be slower; about {enough} nodes would be enough to exclude it"
    reasons = {
        Objections.NO_GAIN: "the mean gain is less than 5 %, or not significant",
        Objections.NOT_THROTTLED: "writers did not wait for write-back, so the gain has another "
        "cause",
        Objections.AT_RISK: "more data is at risk than --max-at-risk allows",
    }
    return reasons[why] if why else ""
