# SPDX-License-Identifier: Apache-2.0
"""A pull's progress on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from contracts.shared.units import format_count, format_rate, format_seconds, format_size
from profiler.pull.measured import OnPhase, Phase
from profiler.pull.result import Progress as PullProgress

_LINE_INTERVAL_S = 5.0


@contextlib.contextmanager
def shown_progress(
    console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[OnPhase]:
    """Yield a function for `measure_pull` that shows each phase while the context lasts."""
    if not console.is_terminal:
        yield _lines(console, clock)
        return
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True)),
        *(TransferSpeedColumn(), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _bar(bar)


@contextlib.contextmanager
def shown_count(console: Console, noun: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows on a terminal how many there are so far."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with Progress(TextColumn("{task.description}"), console=console, transient=True) as bar:
        line = MovingLine(bar)
        yield lambda count: line.describe(f"{format_count(count)} {noun}")


class MovingLine:
    """The line of a rich bar, restarted for each activity; it pulses if the length is unknown."""

    def __init__(self, bar: Progress, description: str = "", **fields: Any) -> None:
        self._bar = bar
        self._fields = fields
        self._task = bar.add_task(description, total=None, **fields)

    def begin(self, description: str, **fields: Any) -> None:
        """Begin an activity of unknown length; rich's `reset` cannot remove a total."""
        self._fields |= fields
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(description, total=None, **self._fields)

    def describe(self, description: str) -> None:
        """Change the description of the activity."""
        self._bar.update(self._task, description=description)

    def advance(self, description: str, completed: int, total: int) -> None:
        """Show the activity's progress."""
        self._bar.update(self._task, description=description, completed=completed, total=total)


def _bar(bar: Progress) -> OnPhase:
    line = MovingLine(bar)
    current: list[Phase] = []

    def show(phase: Phase, progress: PullProgress | None) -> None:
        if current != [phase]:
            current[:] = [phase]
            line.begin(phase.value)
        if progress is not None:
            objects = f"{phase.value} {progress.objects}/{progress.total_objects} objects"
            line.advance(objects, progress.bytes, progress.total_bytes)

    return show


def _lines(console: Console, clock: Callable[[], float]) -> OnPhase:
    """Print a line when a phase begins and then every few seconds."""
    due_s = clock() + _LINE_INTERVAL_S

    def show(phase: Phase, progress: PullProgress | None) -> None:
        nonlocal due_s
        if progress is None:
            console.print(phase.value, markup=False)
        elif clock() >= due_s:
            due_s = clock() + _LINE_INTERVAL_S
            console.print(_line(phase, progress), markup=False, soft_wrap=True)

    return show


def _line(phase: Phase, progress: PullProgress) -> str:
    rate = progress.bytes / progress.elapsed_s if progress.elapsed_s > 0 else 0.0
    left = progress.total_bytes - progress.bytes
    time_left = f", {format_seconds(left / rate)} left" if rate > 0 else ""
    return (
        f"{phase.value}: {progress.objects}/{progress.total_objects} objects, "
        f"{format_size(progress.bytes)} of {format_size(progress.total_bytes)}, "
        f"{format_rate(rate)}{time_left}"
    )
