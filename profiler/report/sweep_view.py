"""A sweep while it runs: a line for each trial, below it what moves and the time left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from contracts.text import printable
from contracts.units import format_count, format_duration, format_seconds, format_size
from profiler.measured_pull import Phase
from profiler.pull.results import Progress as PullProgress
from sysctl.results import CONFIRM, PRESENT, Observation, Results, Trial
from sysctl.sweep import Step

_FORMATS: Mapping[str, Callable[[float], str]] = {
    "bytes": format_size,
    "ns": format_duration,
    "calls": lambda value: format_count(int(value)),
}


@contextlib.contextmanager
def shown_sweep(console: Console) -> Iterator[SweepView]:
    """A view for `run_study`, as long as the context lasts; lines only without a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}", markup=False),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar:
        yield SweepView(console, bar)


class SweepView:
    """Implements `profiler.study.View`."""

    def __init__(
        self, console: Console, bar: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._bar = bar
        self._clock = clock
        self._task: TaskID = bar.add_task("preparing", total=None, state="")
        self._done = 0
        self._busy_s = 0.0
        self._started_s = clock()
        self._left = ""

    def recovered(self, changes: Sequence[str]) -> None:
        """See `View`."""
        for change in changes:
            self._line(f"restored after a run that was killed: {change}", "yellow")

    def planned(self, results: Results, trials: int) -> None:
        """See `View`."""
        for item in results.left_out:
            self._line(f"left out: {item.what}: {item.why}", "yellow")
        self._line(f"{trials} settings to try, the present ones between them", "dim")

    def step(self, step: Step) -> None:
        """See `View`."""
        self._started_s = self._clock()
        each_s = self._busy_s / self._done if self._done else None
        seconds_left = each_s * (step.remaining + 1) if each_s is not None else None
        self._left = f"about {format_seconds(seconds_left)} left" if seconds_left else ""
        done_of = f"trial {self._done + 1} of {self._done + 1 + step.remaining}"
        title = f"{done_of}: {title_of(step.role, str(step.setting))}"
        self._bar.reset(self._task, total=None, description=title, state=self._left)
        if not self._console.is_terminal:
            self._line(f"{title}{' · ' if self._left else ''}{self._left}", "dim")

    def doing(self, what: str) -> None:
        """See `View`."""
        self._bar.update(self._task, state=f"{what} · {self._left}")

    def phase(self, phase: Phase, progress: PullProgress | None) -> None:
        """See `View`."""
        if progress is None:
            self._bar.reset(self._task, total=None, state=f"{phase.value} · {self._left}")
            return
        state = f"{phase.value} {progress.objects}/{progress.total_objects}"
        self._bar.update(
            self._task,
            completed=progress.bytes,
            total=progress.total_bytes,
            state=f"{state} · {self._left}",
        )

    def trial(self, trial: Trial) -> None:
        """See `View`."""
        self._done += 1
        self._busy_s += self._clock() - self._started_s
        observation = trial.valid
        if observation is None:
            self._line(f"{title_of(trial.role, str(trial.setting))}: {trial.problem}", "yellow")
            return
        self._line(_trial_line(trial, observation))
        if trial.role == PRESENT and self._done == 1:
            for line in contract_lines(observation):
                self._line(line, "dim")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(printable(text), style=style), soft_wrap=True)


def title_of(role: str, setting: str) -> str:
    """`present (dirty_ratio=20 …)`."""
    return {PRESENT: f"present ({setting})", CONFIRM: f"again: {setting}"}.get(role, setting)


def _trial_line(trial: Trial, seen: Observation) -> str:
    durable = f" · durable {seen.durable_s:.1f} s" if seen.durable_s is not None else ""
    return (
        f"{seen.return_s:6.1f} s  {title_of(trial.role, str(trial.setting))} · stalled "
        f"{seen.stall_share:.0%} · peak {format_size(seen.peak_dirty_bytes)} dirty{durable}"
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
