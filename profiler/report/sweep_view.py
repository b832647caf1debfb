# SPDX-License-Identifier: Apache-2.0
"""The view of a running sweep: a line for each trial, and below it progress and time left.

The moving line begins with the parts of bounded width, so that a narrow terminal cuts the setting
and never the time left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import counted, exact_size, format_minutes, format_seconds, format_size
from profiler.pull.measured import Phase
from profiler.pull.result import Progress as PullProgress
from profiler.report.conclusions import stall_text
from profiler.report.console import print_lines
from profiler.report.over_limit import short_text
from profiler.report.progress import MovingLine
from sysctl.evidence.baseline import Baseline
from sysctl.evidence.results import PRICE, RECHECK, Observation, Results, Trial
from sysctl.knobs.mount import split_options
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.sweep.steps import Step

_HEAD = f"{'trial':>5}  {'return':>8}  {'waited':>6}  {'peak dirty':>10}  settings"
#: In the column of the times, for an invalid trial: its setting and the reason follow.
_INVALID = "invalid:"


@contextlib.contextmanager
def shown_sweep(console: Console) -> Iterator[SweepView]:
    """Yield a view for `run_study` while the context lasts; without a terminal only lines."""
    with sweep_bar(console) as bar:
        yield SweepView(console, bar)


def sweep_bar(console: Console) -> Progress:
    """Return facts, a bar, and the setting in the remaining width; empty without a terminal."""
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
        self._baseline: Baseline | None = None
        self._mount_words: tuple[str, ...] = ()
        self._problems: set[str] = set()
        self._number = 0
        self._remaining = 0
        self._timed = 0
        self._busy_s = 0.0
        self._started_s = clock()

    def recovered(self, changes: Sequence[str], left: Sequence[str]) -> None:
        """See `View`."""
        for change in changes:
            self._note(f"restored after a killed run: {change}")
        for sentence in left:
            self._note(f"left: {sentence}")

    def noted(self, sentences: Sequence[str]) -> None:
        """See `View`."""
        for sentence in sentences:
            self._note(sentence)

    def planned(self, results: Results, trials: int) -> None:
        """See `View`."""
        of_class = results.circumstances.node_class
        self._mount_words = of_class.mount_words
        if of_class.whole_bytes > of_class.bytes:
            pulled, whole = format_size(of_class.bytes), format_size(of_class.whole_bytes)
            objects = f"{of_class.objects:,} of {counted(of_class.whole_objects, 'object')}"
            self._note(f"Each trial pulls a sample: {pulled} of {whole}, {objects}.")
        self._number = len(results.trials)
        for trial in results.trials[:1]:
            self._know(trial.setting)
        print_lines(
            [f"About {counted(trials, 'trial')}: current settings, search, pairs, cost."],
            self._console,
            "dim",
        )
        self._line(_HEAD, "dim")

    def step(self, step: Step) -> None:
        """See `View`."""
        self._know(step.setting)
        self._started_s = self._clock()
        self._number += 1
        self._remaining = step.remaining
        self._moving.begin(self._facts(), setting=self._title(step.role, step.setting))

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

    def trial(self, trial: Trial) -> None:
        """See `View`."""
        observation = trial.valid
        self._timed += 1
        self._busy_s += self._clock() - self._started_s - _sync_s(observation)
        title = self._title(trial.role, trial.setting)
        number = f"{self._number:>5}  "
        if observation is not None:
            durable_s = observation.durable_s
            durable = "" if durable_s is None else f" · durable {format_seconds(durable_s)}"
            limit = short_text(observation.over_limit)
            self._line(f"{number}{_cells(observation)}  {title}{durable}{limit}")
            self._note_once(observation.over_limit_problem)
        elif trial.stopped_s is not None:
            stopped = f"> {format_seconds(trial.stopped_s)}"
            self._line(f"{number}{stopped:>8}  {'stopped: too slow':>18}  {title}", "dim")
        else:
            self._line(f"{number}{_INVALID:>8} {title}: {trial.problem}", "yellow", is_whole=True)

    def _know(self, setting: Setting) -> None:
        """Remember the current settings, which the first trial of a sweep has."""
        if self._baseline is None:
            self._baseline = Baseline(setting, self._mount_words)

    def _facts(self, what: str = "") -> str:
        """Return `trial 3 · 2 min 10 s left · pulling 30/40`; the number of trials is not fixed."""
        of = f"trial {self._number}"
        return " · ".join(part for part in (of, self._time_left(), what) if part)

    def _time_left(self) -> str:
        """Estimate from this run's mean trial, without waits for the device, since few follow.

        It is empty before the first trial has ended, and when the estimate is exceeded.
        """
        if not self._timed:
            return ""
        each_s = self._busy_s / self._timed
        this_s = max(0.0, each_s - (self._clock() - self._started_s))
        left_s = this_s + each_s * self._remaining
        return f"about {format_minutes(left_s)} left" if left_s else ""

    def _title(self, role: str, setting: Setting) -> str:
        """Return `again: dirty_ratio=90`: the purpose, and the change to the current settings."""
        words = changed_words(setting, self._baseline) if self._baseline else []
        prefix = {RECHECK: "again: ", PRICE: "cost: "}.get(role, "")
        return printable(f"{prefix}{' '.join(words) or 'current settings'}")

    def _note_once(self, problem: str | None) -> None:
        """Print why the time over the limits of EBS is unknown, the first time that it is."""
        if problem and problem not in self._problems:
            self._problems.add(problem)
            self._note(f"The time over the limits of EBS is unknown: {problem}.")

    def _note(self, text: str) -> None:
        print_lines([text], self._console, "yellow")

    def _line(self, text: str, style: str = "", *, is_whole: bool = False) -> None:
        """Print one line, cut at the terminal's width; the results file has all of it.

        With `is_whole` a file or a pipe also gets all of it.
        """
        line = Text(printable(text), style=style)
        if is_whole and not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)
        else:
            self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


def _sync_s(seen: Observation | None) -> float:
    return seen.durable_s - seen.return_s if seen and seen.durable_s is not None else 0.0


def changed_words(setting: Setting, baseline: Baseline) -> list[str]:
    """Return how the setting differs from the current ones: `dirty_ratio=90`, `mount=noatime`."""
    values, transfer = setting.values, dict(setting.transfer)
    words = [
        f"{name.partition('.')[2]}={_value_text(name, values[name])}"
        for name in baseline.changed_sysctls(setting)
    ]
    words += [f"{name}={value}" for name, value in setting.device]
    if baseline.changed_options(setting):
        words.append(f"mount={','.join(split_options(setting.mount_options or '')) or 'defaults'}")
    changed = baseline.changed_transfer(setting)
    return words + [f"{name}={TRANSFER_BY_NAME[name].text(transfer[name])}" for name in changed]


def _value_text(name: str, value: int) -> str:
    return exact_size(value) if name.endswith("_bytes") and value else str(value)


def _cells(seen: Observation) -> str:
    """Return the time, the share that writers waited, and the peak of dirty memory."""
    waited = "–" if seen.stall_share is None else stall_text(seen)
    returned, peak = format_seconds(seen.return_s), format_size(seen.peak_dirty_bytes)
    return f"{returned:>8}  {waited:>6}  {peak:>10}"
