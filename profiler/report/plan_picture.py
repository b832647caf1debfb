# SPDX-License-Identifier: Apache-2.0
"""The picture of a plan: rate and credits over one pull, or duration and credits pull by pull."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from contracts.shared.units import format_minutes, format_rate
from profiler.report.area_chart import area_rows, axis, chart_columns, panel
from sysctl.volume.limits import OUT_OF_CREDITS, LimitedBy
from sysctl.volume.planning import Plan
from sysctl.volume.repeated import courses
from sysctl.volume.timeline import Course, RatePhase

_ROWS = 3
_WIDEST = 100
#: Pulls shown after the first slow one, and in total.
_AFTER, _MOST_PULLS = 3, 500
_BOXES = str.maketrans("┤", "|")


def print_picture(plan: Plan, console: Console) -> None:
    """Print the curves."""
    columns = chart_columns(min(console.width, _WIDEST))
    is_ascii = console.options.ascii_only
    lines = _pulls(plan, columns, is_ascii) or _one_pull(plan, columns, is_ascii)
    for line in lines:
        text = line.translate(_BOXES) if is_ascii else line
        console.print(Text(text.rstrip()), no_wrap=True, overflow="crop")


def _one_pull(plan: Plan, columns: int, is_ascii: bool) -> list[str]:
    """Return lines with rate and credits over the time of the first pull."""
    course = plan.course
    moments_s = [course.durable_s * (column + 0.5) / columns for column in range(columns)]
    phases = [_phase_at(course, moment_s) for moment_s in moments_s]
    top = max(phase.bytes_per_s for phase in course.phases)
    rates = area_rows([phase.bytes_per_s for phase in phases], top, _ROWS, is_ascii=is_ascii)
    lines = panel("Rate at which the volume is written", rates, format_rate(top))
    owner = _owner_shown(plan)
    if owner is not None:
        balances = [
            plan.balance(owner, _levels_at(phase, moment_s)) or 0.0
            for phase, moment_s in zip(phases, moments_s)
        ]
        lines += _balance_panel(f"Credits of the {owner.value}", balances, is_ascii)
    fall = next((at for at, phase in enumerate(phases) if phase.limited_by in OUT_OF_CREDITS), None)
    mark = None
    if fall is not None and course.falls_at_s:
        mark = fall, format_minutes(course.falls_at_s)
    return [*lines, axis("0 s", format_minutes(course.durable_s), columns, mark)]


def _pulls(plan: Plan, columns: int, is_ascii: bool) -> list[str]:
    """Return lines with each pull's duration and initial credits, up to a few after the first slow.

    There are no lines for a single pull, or if all pulls are equal or too many.
    """
    repeated, owner = plan.repeated, _owner_shown(plan)
    if repeated is None or plan.pull.idle_s is None or owner is None:
        return []
    first_slow = repeated.first_slow_pull
    if first_slow is None or first_slow + _AFTER > _MOST_PULLS:
        return []
    count = first_slow + _AFTER
    endless = courses(plan.path, plan.pull.size_bytes, plan.levels, plan.pull.idle_s)
    shown = list(itertools.islice(endless, count))
    numbers = [column * count // columns for column in range(columns)]
    top_s = max(course.durable_s for course in shown)
    durations = area_rows(
        [shown[number].durable_s for number in numbers], top_s, _ROWS, is_ascii=is_ascii
    )
    balances = [
        plan.balance(owner, shown[number].phases[0].levels_before) or 0.0 for number in numbers
    ]
    mark = numbers.index(first_slow - 1), f"pull {first_slow}"
    return [
        *panel("Time to durable, pull by pull", durations, format_minutes(top_s)),
        *_balance_panel(f"Credits of the {owner.value} when the pull begins", balances, is_ascii),
        axis("pull 1", f"pull {count}", columns, mark if first_slow > 1 else None),
    ]


def _balance_panel(caption: str, balances: Sequence[float], is_ascii: bool) -> list[str]:
    return panel(caption, area_rows(balances, 1.0, _ROWS, is_ascii=is_ascii), "100 %")


def _owner_shown(plan: Plan) -> LimitedBy | None:
    """Return the owner whose credits are shown: those that get lowest."""
    owners = {bucket.owner for bucket in plan.path.buckets}
    left = {owner: plan.balance(owner, plan.course.levels_after) or 0.0 for owner in owners}
    return min(owners, key=lambda owner: (left[owner], owner.value), default=None)


def _phase_at(course: Course, moment_s: float) -> RatePhase:
    return next((p for p in course.phases if moment_s <= p.ends_s), course.phases[-1])


def _levels_at(phase: RatePhase, moment_s: float) -> tuple[float, ...]:
    share = (moment_s - phase.begins_s) / phase.duration_s if phase.duration_s else 0.0
    return tuple(
        before + (after - before) * share
        for before, after in zip(phase.levels_before, phase.levels_after)
    )
