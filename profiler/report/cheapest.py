# SPDX-License-Identifier: Apache-2.0
"""The cheapest volumes for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from contracts.shared.units import format_minutes, format_size
from profiler.report.console import print_lines
from profiler.report.next_steps import NextStep, command
from profiler.report.plan import SAME, Question, source_lines
from profiler.report.plan_words import (
    exact_seconds,
    limit_text,
    percent,
    usd,
    volume_name,
    volume_options,
    words_of,
)
from sysctl.volume import volume_types
from sysctl.volume.cheapest import CheapestVolumes, VolumeSearch, of_type, without_volume
from sysctl.volume.limits import LimitedBy
from sysctl.volume.planning import MeasuredDevice, Plan


def print_cheapest(
    found: CheapestVolumes, wanted: VolumeSearch, asked: Question, console: Console
) -> None:
    """Print the cheapest volume, faster ones that cost more, and why types are missing."""
    print_lines([verdict_text(found, wanted)], console, "bold")
    print_lines([f"Warning: {each}." for each in asked.warnings], console, "yellow", hanging=2)
    if found.plans:
        console.print()
        console.print(_table(found))
        console.print()
    print_lines(list(_remarks(found, wanted)), console, hanging=2)
    assumed = [*asked.assumed, *_credits_texts(found, asked)]
    print_lines([f"Assumed: {each}." for each in assumed], console, "dim", hanging=2)
    print_lines(list(source_lines(asked)), console, "dim", hanging=2)
    tables = f"volumes of {volume_types.table()['as_of']}, prices of {wanted.prices.origin}"
    print_lines([f"From the tables: {tables}."], console, "dim", hanging=2)


def verdict_text(found: CheapestVolumes, wanted: VolumeSearch) -> str:
    """Return the cheapest volume, or that there is none, in one sentence."""
    pull = f"a pull of {format_size(wanted.pull.size_bytes)}"
    if not found.plans and (wanted.deadline_s is None or not found.too_slow):
        return f"No volume was found that holds {wanted.capacity_gib:,} GiB and has a price."
    if not found.plans:
        return f"No volume has {pull} durable within {format_minutes(wanted.deadline_s or 0)}."
    first = found.plans[0]
    within = f" within {format_minutes(wanted.deadline_s)}" if wanted.deadline_s else ""
    return (
        f"Cheapest for {pull}{within}: {volume_name(first)}, {usd(first.monthly_usd)}, durable "
        f"after {format_minutes(first.slowest_s)}."
    )


def _table(found: CheapestVolumes) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("volume", overflow="fold")
    for title in ("a month", "durable", "credits after"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("limited by", overflow="fold")
    for plan in found.plans:
        table.add_row(*_cells(plan))
    return table


def _cells(plan: Plan) -> tuple[str, ...]:
    course = plan.repeated.steady if plan.repeated else plan.course
    balance = plan.balance(LimitedBy.VOLUME, course.levels_after)
    return (
        volume_name(plan),
        "" if plan.monthly_usd is None else f"${plan.monthly_usd:,.2f}",
        format_minutes(plan.slowest_s),
        "" if balance is None else percent(balance),
        course.limited_by.value,
    )


def _remarks(found: CheapestVolumes, wanted: VolumeSearch) -> Iterator[str]:
    before = without_volume(wanted)
    if wanted.deadline_s is not None and before and before.durable_s > wanted.deadline_s:
        time = format_minutes(before.durable_s)
        yield f"Before the volume, {limit_text(before.limited_by)}: {time} whatever the volume."
    if wanted.pull.idle_s is not None:
        pause = format_minutes(wanted.pull.idle_s)
        yield f"Durable: the slowest of all pulls with {pause} between them, the first included."
    for types, why in (
        (found.too_slow, "cannot be durable in time"),
        (found.too_small, "cannot hold the capacity"),
        (found.unpriced, "no price is known"),
    ):
        if types:
            yield f"Left out: {', '.join(types)}: {why}."
    yield from _margins(found, wanted)
    if any(wanted.prices.is_unverified(_volume(plan)) for plan in found.plans):
        yield "The price of sc1, and of io2 above 32,000 IOPS, could not be verified."


def _credits_texts(found: CheapestVolumes, asked: Question) -> Iterator[str]:
    """Yield that the volumes start with credits, if one of them is slower without."""
    without = [(plan, plan.without_credits(LimitedBy.VOLUME)) for plan in found.plans]
    if asked.shows_empty and any(
        course and course.durable_s > plan.course.durable_s * SAME for plan, course in without
    ):
        yield "the volumes have all their credits at the start; --credits empty plans without"


def _margins(found: CheapestVolumes, wanted: VolumeSearch) -> Iterator[str]:
    """Yield what an HDD type needs to meet the deadline at 90 % of its burst rate."""
    careful = replace(wanted, with_hdd_margin=True)
    for plan in found.plans:
        volume = _volume(plan)
        if wanted.deadline_s is None or not volume_types.is_hdd(volume):
            continue
        larger = of_type(careful, volume.type)
        if larger is None:
            yield f"{volume.type} promises 90 % of its burst rate; that is not in time."
        elif larger.volume != volume:
            yield (
                f"{volume.type} promises 90 % of its burst rate; to be in time with that: "
                f"{volume_name(larger)}, {usd(larger.monthly_usd)}."
            )


def _volume(plan: Plan) -> volume_types.EbsVolume:
    assert not isinstance(plan.volume, MeasuredDevice)  # noqa: S101 - a search makes none
    return plan.volume


def next_step(plan: Plan, asked: Question) -> NextStep:
    """Return the command that shows a plan in full."""
    words = [*words_of(plan).split(), *volume_options(plan), *asked.options]
    if asked.deadline_s is not None:
        words += ["--deadline", exact_seconds(asked.deadline_s)]
    return NextStep(command("plan", *words), "It shows this volume in full.")
