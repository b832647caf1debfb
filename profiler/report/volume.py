# SPDX-License-Identifier: Apache-2.0
"""The advice on the volume: the long report, and the document for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from contracts.shared.units import format_minutes, format_size
from profiler.report.console import print_lines
from profiler.report.plan_document import ebs_volume, rounded_usd
from profiler.report.plan_words import instance_text, volume_name, volume_text
from profiler.report.price import durable_text
from profiler.report.volume_words import (
    choice_text,
    known_volume_text,
    out_of_reach_text,
    rate_text,
)
from sysctl.advice.advise import Recommendation
from sysctl.advice.device_rate import DeviceRate
from sysctl.advice.other_volumes import Other
from sysctl.advice.volume_advice import Choice, OutOfReach, VolumeAdvice
from sysctl.volume import instances, volume_types
from sysctl.volume.limits import LimitedBy
from sysctl.volume.planning import MeasuredDevice, Plan

_HANGING = 12


def print_volume(recommendation: Recommendation, console: Console) -> None:
    """Print what the device's rate is made of, other volumes, and what follows."""
    advice = recommendation.volume
    print_lines(list(volume_lines(recommendation)), console, hanging=_HANGING)
    if advice.others:
        settings = "recommended" if recommendation.best else "current"
        lead = f"The same pull on other volumes, with the {settings} settings (predicted):"
        print_lines(["", lead], console)
        console.print(_table(recommendation))
    remarks = list(_remarks(recommendation))
    print_lines(["", *remarks] if remarks else [], console, hanging=2)


def volume_lines(recommendation: Recommendation) -> Iterator[str]:
    """Yield the facts: the volume, the instance, and what limits the device."""
    advice, circumstances = recommendation.volume, recommendation.analysis.runs.circumstances
    rate = advice.rate
    known = known_volume_text(circumstances)
    yield _fact("volume", known or "unknown; `sweep` has --volume-type and --volume-size for it")
    if rate is not None and rate.problem:
        yield _fact("", f"not planned with: {rate.problem}")
    if advice.current is not None:
        yield _fact("allows", volume_text(advice.current))
        if advice.instance is not None:
            yield _fact("instance", instance_text(_without_source(advice.current)))
    if rate is None:
        why = f": {advice.unknown}" if advice.unknown else ""
        yield _fact("device", f"its rate cannot be determined{why}")
        return
    yield _fact("device", rate_text(advice, rate))


def _without_source(plan: Plan) -> Plan:
    return replace(plan, node=replace(plan.node, source=None))


def _fact(name: str, text: str) -> str:
    return f"{name:{_HANGING}}{text}"


def _table(recommendation: Recommendation) -> Table:
    advice = recommendation.volume
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("volume", overflow="fold")
    for title in ("a month", "return", "durable", "without credits"):
        table.add_column(title, justify="right", no_wrap=True)
    side, price = recommendation.best or recommendation.present, recommendation.price
    table.add_row(
        "now, as measured",
        _usd(advice.current),
        format_minutes(side.return_s.median),
        durable_text(price or recommendation.present_price),
        _without_credits(advice.current),
    )
    for other in advice.others:
        table.add_row(*_cells(other))
    return table


def _cells(other: Other) -> tuple[str, ...]:
    return (
        volume_name(other.plan),
        _usd(other.plan),
        format_minutes(other.return_s),
        format_minutes(other.durable_s),
        _without_credits(other.plan),
    )


def _without_credits(plan: Plan | None) -> str:
    empty = plan.without_credits(LimitedBy.VOLUME) if plan else None
    return format_minutes(empty.durable_s) if empty else ""


def _usd(plan: Plan | None) -> str:
    return "" if plan is None or plan.monthly_usd is None else f"${plan.monthly_usd:,.2f}"


def _remarks(recommendation: Recommendation) -> Iterator[str]:
    advice = recommendation.volume
    outcome = advice.outcome
    if isinstance(outcome, Choice):
        yield choice_text(recommendation, outcome)
    elif isinstance(outcome, OutOfReach):
        yield out_of_reach_text(advice, outcome)
    if advice.others and not advice.is_capacity_known:
        size = format_size(advice.capacity_gib * 2**30)
        yield f"Volumes of {size} or more: the size of the pull, since the volume's is unknown."
    if advice.others and advice.rate and advice.rate.credits.get(LimitedBy.VOLUME) == 0:
        yield "Volumes with credits are planned without them, since those of this volume ran out."
    gaps = advice.prices.gaps()
    if gaps:
        yield f"{advice.prices.origin} has no price of {', '.join(gaps)}."
    if advice.current is None and not advice.others:
        return
    tables = [f"volumes of {volume_types.table()['as_of']}", f"prices of {advice.prices.origin}"]
    if advice.instance is not None:
        tables.insert(1, f"instances of {instances.table().as_of}")
    yield f"From the tables: {', '.join(tables)}.{_unverified(advice)}"


def _unverified(advice: VolumeAdvice) -> str:
    plans = [each.plan for each in advice.others]
    doubtful = [
        plan.volume.type
        for plan in plans
        if not isinstance(plan.volume, MeasuredDevice) and plan.prices.is_unverified(plan.volume)
    ]
    return f" The price of {doubtful[0]} could not be verified." if doubtful else ""


def volume_document(recommendation: Recommendation) -> dict[str, object]:
    """Return the advice on the volume as plain data."""
    advice, circumstances = recommendation.volume, recommendation.analysis.runs.circumstances
    known, node = circumstances.node_class.volume, circumstances.node
    outcome = advice.outcome
    return {
        "volume": ebs_volume(known) if known else None,
        "volume_id": node.volume_id,
        "instance": circumstances.node_class.instance,
        "credits": vars(node.credits) if node.credits else None,
        "monthly_usd": rounded_usd(advice.current.monthly_usd) if advice.current else None,
        "device": _rate_document(advice, advice.rate) if advice.rate else None,
        "unknown": advice.unknown,
        "is_recommended": advice.is_recommendation,
        "choice": _choice_document(recommendation, outcome) if advice.choice else None,
        "out_of_reach": out_of_reach_text(advice, outcome)
        if isinstance(outcome, OutOfReach)
        else None,
        "others": [_other_document(advice, other) for other in advice.others],
        "capacity_gib": advice.capacity_gib,
        "is_capacity_known": advice.is_capacity_known,
        "prices": advice.prices.origin,
    }


def _rate_document(advice: VolumeAdvice, rate: DeviceRate) -> dict[str, object]:
    return {
        "bytes_per_s": rate.bytes_per_s,
        "source_bytes_per_s": rate.source_bytes_per_s,
        "fit": rate.fit.value,
        "limited_by": rate.limited_by.value if rate.limited_by else None,
        "allowed": [
            {
                "bytes_per_s": state.bytes_per_s,
                "limited_by": state.limited_by.value,
                "credits": {owner.value: 100 * share for owner, share in state.credits.items()},
            }
            for state in rate.states
        ],
        "over_limit": vars(rate.over) if rate.over else None,
        "exhausted_trials": rate.exhausted,
        "problem": rate.problem,
        "sentence": rate_text(advice, rate),
    }


def _choice_document(recommendation: Recommendation, outcome: object) -> dict[str, object] | None:
    if not isinstance(outcome, Choice):
        return None
    return {
        **_other_document(recommendation.volume, outcome.other),
        "aim": outcome.aim.value,
        "sentence": choice_text(recommendation, outcome),
    }


def _other_document(advice: VolumeAdvice, other: Other) -> dict[str, object]:
    volume = other.plan.volume
    return {
        "volume": {} if isinstance(volume, MeasuredDevice) else ebs_volume(volume),
        "monthly_usd": rounded_usd(other.plan.monthly_usd),
        "more_usd": rounded_usd(advice.more_usd(other)),
        "return_s": other.return_s,
        "durable_s": other.durable_s,
    }
