"""A sweep while it runs: a line for each trial, below it what moves and the time left.

The moving line begins with what has a bounded width, so that a narrow terminal cuts the setting
and never the time left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import (
    counted,
    format_count,
    format_duration,
    format_minutes,
    format_seconds,
    format_size,
)
from profiler.pull.measured import Phase
from profiler.pull.result import Progress as PullProgress
from profiler.report.progress import MovingLine
from sysctl.evidence.results import (
    PRESENT,
    PRICE,
    RECHECK,
    LeftOut,
    Observation,
    Results,
    Trial,
    by_reason,
)
from sysctl.knobs.setting import Setting, notable
from sysctl.sweep.steps import Step

_FORMATS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_size,
    "ns": format_duration,
    "calls": lambda value: format_count(int(value)),
}


@contextlib.contextmanager
def shown_sweep(console: Console) -> Iterator[SweepView]:
    """A view for `run_study`, as long as the context lasts; lines only without a terminal."""
    with sweep_bar(console) as bar:
        yield SweepView(console, bar)


def sweep_bar(console: Console) -> Progress:
    """Facts, a bar, and the setting in what is left of the width; nothing without a terminal."""
    elastic = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=10),
        TextColumn("{task.fields[setting]}", markup=False, table_column=elastic),
        console=console,
        expand=True,
        transient=True,
        disable=not console.is_terminal,
    )


class SweepView:
    """Implements `profiler.study.study.View`."""

    def __init__(
        self, console: Console, bar: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._moving = MovingLine(bar, "preparing", setting="")
        self._number = 0
        self._remaining = 0
        self._timed = 0
        self._busy_s = 0.0
        self._started_s = clock()

    def recovered(self, changes: Sequence[str], left: Sequence[str]) -> None:
        """See `View`."""
        for change in changes:
            self._line(f"restored after a run that was killed: {change}", "yellow")
        for sentence in left:
            self._line(f"left: {sentence}", "yellow")

    def planned(self, results: Results, trials: int) -> None:
        """See `View`."""
        for item in by_reason(results.left_out):
            self.left_out(item)
        self._number = len(results.trials)
        self._line(
            f"about {counted(trials, 'trial')}: present settings, search, pairs, price", "dim"
        )

    def left_out(self, item: LeftOut) -> None:
        """See `View`."""
        self._line(f"left out: {item.what}: {item.why}", "yellow")

    def step(self, step: Step) -> None:
        """See `View`."""
        self._started_s = self._clock()
        self._number += 1
        self._remaining = step.remaining
        title = printable(title_of(step.role, step.setting))
        self._moving.begin(self._facts(), setting=title)
        if not self._console.is_terminal:
            left = self._time_left()
            line = f"trial {self._number} of {self._number + self._remaining}: {title}"
            self._line(f"{line} · about {left}" if left else line, "dim")

    def doing(self, what: str) -> None:
        """See `View`."""
        self._moving.describe(self._facts(what))

    def phase(self, phase: Phase, progress: PullProgress | None) -> None:
        """See `View`."""
        if progress is None:
            self._moving.begin(self._facts(phase.value))
            return
        facts = self._facts(f"{phase.value} {progress.objects}/{progress.total_objects}")
        self._moving.advance(facts, progress.bytes, progress.total_bytes)

    def _facts(self, what: str = "") -> str:
        """`trial 3/16 · 2 min 10 s left · pulling 30/40`."""
        of = f"trial {self._number}/{self._number + self._remaining}"
        return " · ".join(part for part in (of, self._time_left(), what) if part)

    def _time_left(self) -> str:
        """From the mean trial of this run, without waits for the device, of which few follow.

        Empty before the first has ended, or once overdue.
        """
        if not self._timed:
            return ""
        each_s = self._busy_s / self._timed
        this_s = max(0.0, each_s - (self._clock() - self._started_s))
        left_s = this_s + each_s * self._remaining
        return f"{format_minutes(left_s)} left" if left_s else ""

    def trial(self, trial: Trial) -> None:
        """See `View`."""
        observation = trial.valid
        self._timed += 1
        self._busy_s += self._clock() - self._started_s - _sync_s(observation)
        if observation is None:
            self._line(*_without_observation(trial))
            return
        self._line(_trial_line(trial, observation))
        if self._number == 1:
            for line in contract_lines(observation):
                self._line(line, "dim")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(printable(text), style=style), soft_wrap=True)


def _sync_s(seen: Observation | None) -> float:
    return seen.durable_s - seen.return_s if seen and seen.durable_s is not None else 0.0


def title_of(role: str, setting: Setting) -> str:
    """`present (dirty_ratio=20 …)`."""
    if role == PRESENT:
        return f"present ({notable(setting)})"
    prefix = {RECHECK: "again: ", PRICE: "until durable: "}.get(role, "")
    return f"{prefix}{notable(setting)}"


def _without_observation(trial: Trial) -> tuple[str, str]:
    """The line of a trial that counts for nothing, or was stopped, and its style."""
    title = title_of(trial.role, trial.setting)
    if trial.stopped_s is not None:
        return f">{trial.stopped_s:5.1f} s  {title} · stopped: it can no longer win", "dim"
    return f"invalid: {title}: {trial.problem}", "yellow"


def _trial_line(trial: Trial, seen: Observation) -> str:
    durable = f" · durable {seen.durable_s:.1f} s" if seen.durable_s is not None else ""
    fsync = seen.price.fsync if seen.price else None
    neighbour = f" · its fsync up to {format_seconds(fsync.worst_s)}" if fsync else ""
    stalled = "" if seen.stall_share is None else f" · stalled {seen.stall_share:.0%}"
    return (
        f"{seen.return_s:6.1f} s  {title_of(trial.role, trial.setting)}{stalled} · peak "
        f"{format_size(seen.peak_dirty_bytes)} dirty{durable}{neighbour}"
    )


def contract_lines(observation: Observation) -> list[str]:
    """A line for each of the contract's rules, from the findings' document."""
    return [f"          {finding_text(finding)}" for finding in observation.findings]


def finding_text(finding: Mapping[str, object]) -> str:
    """`mean_lat_write: mean-latency 1.2 ms, over 1.00 µs`."""
    show = _FORMATS[str(finding["unit"])]
    value, threshold = finding["value"], finding["threshold"]
    shown = show(value) if isinstance(value, (int, float)) else "no calls"
    limit = show(threshold) if isinstance(threshold, (int, float)) else "?"
    verdict = "over" if finding["violated"] else "within"
    return f"{finding['label']}: {finding['measurement']} {shown}, {verdict} {limit}"
