# SPDX-License-Identifier: Apache-2.0
"""A shared study in words: its state, and what it shows for a class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console

from contracts.shared.units import counted, format_size
from profiler.report.console import print_lines
from sysctl.evidence.statistics import Interval
from sysctl.fleet.claims import ClaimKind, ClaimState, Record, lost_settings
from sysctl.fleet.class_advice import ENOUGH_NODES, ClassAdvice, ClassSetting, Objections
from sysctl.fleet.spec import StudySpec

_DIFFER = 0.05


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
        "ratio_by_node": {n.node: n.ratio for n in found.nodes} if found else {},
        "stall_share": each.stall_share,
        "at_risk_bytes": each.at_risk_bytes,
        "objection": each.objection.value if each.objection else None,
        "enough_nodes": each.enough_nodes,
    }


def _interval_document(interval: Interval) -> dict[str, float | None]:
    high = interval.high if math.isfinite(interval.high) else None
    return {"estimate": interval.estimate, "low": interval.low, "high": high}


def headline(advice: ClassAdvice) -> str:
    """Return what to do, in one sentence."""
    if advice.best and advice.best.found:
        found = advice.best.found
        return (
            f"Set {advice.best.setting}: a pull takes {found.mean.estimate:.0%} of its time, and "
            f"on another node of the class {_span(found.predicted)}."
        )
    if not advice.settings:
        return "Change nothing yet: no setting was compared with the current ones."
    why = advice.settings[0].objection
    return f"Change nothing on the class: {why.value if why else 'nothing was compared'}."


def _span(interval: Interval) -> str:
    return f"{interval.low:.0%} to {interval.high:.0%}"


def print_class_advice(advice: ClassAdvice, console: Console) -> None:
    """Print the advice for a class, with how much its nodes differ."""
    lines = [headline(advice), ""]
    state = "complete" if advice.is_complete else "not complete"
    nodes = counted(len(advice.nodes), "node")
    lines.append(f"class {advice.spec.class_key}; {nodes}; the recheck is {state}")
    for each in advice.settings:
        lines += ["", *_setting_lines(each)]
    print_lines(lines, console)


def _setting_lines(each: ClassSetting) -> Iterator[str]:
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
        yield from _unlike(each)
    yield f"  at risk       at most {format_size(each.at_risk_bytes)} on any node"
    if each.objection:
        yield f"  not advised   {_why(each)}"


def _unlike(each: ClassSetting) -> Iterator[str]:
    """Yield the fastest and slowest node where they differ by more than a small share."""
    if each.found is None or each.found.tau < _DIFFER:
        return
    ranked = sorted(each.found.nodes, key=lambda node: node.ratio)
    first, last = ranked[0], ranked[-1]
    yield f"                {first.node} {first.ratio:.3f} … {last.node} {last.ratio:.3f}"


def _why(each: ClassSetting) -> str:
    why, enough = each.objection, each.enough_nodes
    if why is Objections.TOO_FEW_NODES:
        return (
            f"only {counted(each.nodes, 'node')}: at least {max(enough or 0, ENOUGH_NODES)} would "
            "be enough if the others are like these"
        )
    if why is Objections.NODES_DIFFER:
        if enough is None:
            return (
                "the nodes differ so much that some are slower with it, however many are "
                "measured: look for what distinguishes them, and split the class"
            )
        return f"another node may be slower; about {enough} nodes would be enough to exclude it"
    reasons = {
        Objections.NO_GAIN: "the mean gain is less than 5 %, or not significant",
        Objections.NOT_THROTTLED: "writers did not wait for write-back, so the gain has another "
        "cause",
        Objections.AT_RISK: "more data is at risk than --max-at-risk allows",
    }
    return reasons[why] if why else ""
