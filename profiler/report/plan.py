# SPDX-License-Identifier: Apache-2.0
"""A plan for the terminal: the verdict, its basis, a picture, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from contracts.shared.units import counted, format_minutes, format_rate, format_size
from profiler.report.console import print_lines
from profiler.report.next_steps import NextStep, command
from profiler.report.plan_picture import print_picture
from profiler.report.plan_words import (
    exact_seconds,
    instance_text,
    limit_text,
    percent,
    volume_text,
    words_of,
    write_back_texts,
)
from sysctl.volume import instances, volume_types
from sysctl.volume.limits import LimitedBy
from sysctl.volume.planning import MeasuredDevice, Plan
from sysctl.volume.repeated import DAY_S

_HANGING = 12
#: Smaller differences between times get no line.
SAME = 1.005


@dataclass(frozen=True)
class Question:
    """What else was asked, and how the options were read, in sentences.

    `shows_empty`: the credits at the start are unknown, so the report has both full and empty.
    `sources` say which figures AWS gave; `credits_from` is where those of the volume are from, None
    if an option gave them or nobody did. `options` are those that a command to try next must repeat
    and that the plan does not have: files, credits, AWS's region.
    """

    deadline_s: float | None = None
    shows_empty: bool = True
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    credits_from: str | None = None
    is_instance_live: bool = False
    options: tuple[str, ...] = ()


def print_volume_plan(plan: Plan, asked: Question, console: Console) -> None:
    """Print the plan on one screen."""
    print_lines(list(verdict_lines(plan, asked)), console, "bold")
    print_lines([f"Warning: {each}." for each in asked.warnings], console, "yellow", hanging=2)
    print_lines([""], console)
    print_lines(list(_facts(plan, asked)), console, hanging=_HANGING)
    print_lines([""], console)
    print_picture(plan, console)
    print_lines([""], console)
    assumed = [*asked.assumed, *_begins_texts(plan)]
    print_lines([f"Assumed: {each}." for each in assumed], console, "dim", hanging=2)
    print_lines(list(source_lines(asked)), console, "dim", hanging=2)
    print_lines([_tables_text(plan, asked)], console, "dim", hanging=2)


def verdict_lines(plan: Plan, asked: Question) -> Iterator[str]:
    """Yield the answer: when the pull is durable, if in time, and what settings can do."""
    course = plan.course
    rate = format_rate(plan.pull.size_bytes / course.durable_s)
    yield (
        f"Durable after {format_minutes(course.durable_s)}, at {rate}: "
        f"{limit_text(course.limited_by)}."
    )
    if course.falls_at_s:
        yield (
            f"Credits run out after {format_minutes(course.falls_at_s)}; from then on "
            f"{format_rate(course.phases[-1].bytes_per_s)}."
        )
    yield from _repeated_texts(plan)
    if asked.deadline_s is not None:
        yield _deadline_text(plan, asked.deadline_s)
    yield from write_back_texts(plan)


def _deadline_text(plan: Plan, deadline_s: float) -> str:
    deadline = format_minutes(deadline_s)
    if plan.slowest_s <= deadline_s:
        return f"It meets the deadline of {deadline}."
    if plan.course.durable_s <= deadline_s:
        return f"The first pull meets the deadline of {deadline}; later ones do not."
    return f"It misses the deadline of {deadline}."


def _facts(plan: Plan, asked: Question) -> Iterator[str]:
    kind = (
        "sequential" if plan.pull.io_bytes is None else f"random {format_size(plan.pull.io_bytes)}"
    )
    yield _fact("pull", f"{format_size(plan.pull.size_bytes)}, {kind} I/O")
    yield _fact("volume", volume_text(plan))
    if plan.node.instance is not None:
        yield _fact("instance", instance_text(plan))
    balance = plan.balance(LimitedBy.VOLUME, plan.course.levels_after)
    if balance is not None:
        start = plan.balance(LimitedBy.VOLUME, plan.levels) or 0.0
        origin = f" ({asked.credits_from})" if asked.credits_from else ""
        after = f"{percent(balance)} after the pull"
        yield _fact("credits", f"{percent(start)} at the start{origin}, {after}")
    yield from _empty_lines(plan, asked)
    if plan.with_margin and plan.with_margin.durable_s > plan.course.durable_s * SAME:
        time = format_minutes(plan.with_margin.durable_s)
        yield _fact("margin", f"plan for {time}: HDD volumes promise 90 % of their burst rate")
    yield _fact("a day", _most_text(plan.pulls_per_day) + _guaranteed(plan))


def _fact(name: str, text: str) -> str:
    return f"{name:{_HANGING}}{text}"


def _empty_lines(plan: Plan, asked: Question) -> Iterator[str]:
    """Yield the pull's time without credits, if the credits at the start are unknown."""
    owners = [LimitedBy.INSTANCE]
    if asked.shows_empty:
        owners.insert(0, LimitedBy.VOLUME)
    for owner in owners:
        without = plan.without_credits(owner)
        if without and without.durable_s > plan.course.durable_s * SAME:
            times = without.durable_s / plan.course.durable_s
            yield _fact(
                "empty",
                f"without credits of the {owner.value}: {format_minutes(without.durable_s)}, "
                f"{times:.1f} times as long",
            )


def _repeated_texts(plan: Plan) -> Iterator[str]:
    repeated, idle_s = plan.repeated, plan.pull.idle_s
    if repeated is None or idle_s is None:
        return
    pause = f"with {format_minutes(idle_s)} between pulls" if idle_s else "without a pause"
    lead, number = f"Repeated, {pause}:", repeated.first_slow_pull
    steady = format_minutes(repeated.steady.durable_s)
    if number is None:
        yield f"{lead} every pull is as fast."
    elif repeated.steady.falls_at_s is None:
        yield f"{lead} the first are slow, later ones take {steady}."
    elif number == 1 or plan.course.falls_at_s is not None:
        yield f"{lead} in the end each takes {steady}."
    else:
        after = format_minutes((number - 1) * (plan.course.durable_s + idle_s))
        yield (
            f"{lead} credits run out in pull {number:,}, which begins after {after}; in the end "
            f"each takes {steady}."
        )


def _most_text(pulls_per_day: float) -> str:
    """`at most 75 fast pulls`."""
    if pulls_per_day < 1:
        return "less than 1 fast pull"
    return f"at most {counted(math.floor(pulls_per_day), 'fast pull')}"


def _guaranteed(plan: Plan) -> str:
    count = plan.guaranteed_pulls_per_day
    if count is None or count >= plan.pulls_per_day:
        return ""
    text = f"; the instance's credits are guaranteed for {count:,}"
    if plan.repeated is None or plan.pull.idle_s is None:
        return text
    asked = DAY_S / (plan.repeated.steady.durable_s + plan.pull.idle_s)
    return f"{text}; this plan needs {math.ceil(asked):,}"


def source_lines(asked: Question) -> Iterator[str]:
    """Yield which figures are from AWS, if any."""
    if asked.sources:
        yield f"From AWS: {'; '.join(asked.sources)}."


def _tables_text(plan: Plan, asked: Question) -> str:
    dates = [f"volumes of {volume_types.table()['as_of']}"]
    if plan.node.instance is not None and not asked.is_instance_live:
        dates.append(f"instances of {instances.table().as_of}")
    if plan.monthly_usd is not None:
        dates.append(f"prices of {plan.prices.origin}")
    return f"From the tables: {', '.join(dates)}."


def _begins_texts(plan: Plan) -> Iterator[str]:
    """Yield how long after the pull's start write-back begins, if that matters."""
    write_back = plan.write_back
    if write_back is not None and write_back.current.begins_s > plan.course.durable_s / 50:
        begins = format_minutes(write_back.current.begins_s)
        yield (
            "times count from when the volume begins to write; with the settings in force that is "
            f"up to {begins} after the start of the pull"
        )


def next_step(plan: Plan, asked: Question) -> NextStep:
    """Return what to try next: a measurement if settings help, else another volume."""
    if plan.write_back is not None and plan.write_back.best is not None:
        return NextStep(
            command("sweep", "s3://BUCKET/PREFIX", "DEST", as_root=True),
            "It measures the settings.",
        )
    size_gib = None if isinstance(plan.volume, MeasuredDevice) else plan.volume.size_gib
    deadline_s = asked.deadline_s or max(1.0, round(plan.slowest_s / 2))
    wanted = ("--capacity", f"{size_gib or 100}GiB", "--deadline", exact_seconds(deadline_s))
    return NextStep(
        command("plan", *words_of(plan).split(), *asked.options, "--cheapest", *wanted),
        "It lists the cheapest volumes that meet the deadline.",
    )
