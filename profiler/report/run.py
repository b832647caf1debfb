# SPDX-License-Identifier: Apache-2.0
"""What `writewise run` prints: before its command, while its data is written, and at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from contracts.shared.units import counted, format_seconds, format_size
from profiler.govern.beside import GovernStart
from profiler.report.console import print_lines
from profiler.report.govern import (
    ROOT_GROUP_ONLY,
    bound_words,
    low_bound_note,
    saved_words,
    values_words,
)
from profiler.running.run import Drained, Run
from sysctl.host.governor_state import GovernorState, read_governor_state
from sysctl.host.holders import Holder

_HANGING = 12


@dataclass(frozen=True)
class GovernedRun:
    """What `--auto` did: `state` is None if a followed governor did all the work.

    `problem` is why it ended before the data was on the devices, None if it did not.
    """

    start: GovernStart
    state: GovernorState | None
    problem: str | None


@dataclass(frozen=True)
class RunReport:
    """A run and its settings: `before` and `during` it by name, in words; or `governed`.

    `joined` are the runs that had set them, `remaining` those that still hold them. `recovered` is
    what a killed run had left, `restored` what this run restored at its end, and `left` what it did
    not restore, and why.
    """

    run: Run
    command_user: str
    before: Mapping[str, str]
    during: Mapping[str, str]
    joined: tuple[Holder, ...]
    remaining: tuple[Holder, ...]
    recovered: Sequence[str]
    restored: Sequence[str]
    left: Sequence[str]
    notes: Sequence[str]
    governed: GovernedRun | None = None


def print_start(
    recovered: Sequence[str], joined: Sequence[Holder], notes: Sequence[str], console: Console
) -> None:
    """Print what happened before the command starts."""
    lines = [f"restored after a killed run: {text}" for text in recovered]
    lines += [f"joined {holder}: its settings are in force" for holder in joined[:1]]
    print_lines([*lines, *notes], console)


def governed_notes(start: GovernStart, named: Sequence[str]) -> list[str]:
    """Return remarks that are printed before a command with --auto; `named` are volumes of --on."""
    if start.followed is None:
        lines = [f"left: {sentence}" for sentence in start.left]
        lines += [low_bound_note(*start.low_bound)] if start.low_bound else []
        return lines if start.counts_every_group else [*lines, ROOT_GROUP_ONLY]
    lines = [f"{start.followed}, governs this host; this run governs when that governor has ended"]
    state = read_governor_state()
    if state and start.followed.endswith(f", process {state.pid}"):
        lines.append(
            f"it governs {', '.join(state.volumes)}, {bound_words(state.max_at_risk_bytes)} at risk"
        )
        missing = [each for each in named if each not in state.volumes]
        if missing:
            lines.append(f"until then writers onto {', '.join(missing)} wait as they would at rest")
    return lines


def print_run(report: RunReport, console: Console) -> None:
    """Print the times, what was at risk, and what was restored."""
    run = report.run
    print_lines(
        [
            f"command     exit code {run.exit_code}, as {report.command_user}",
            *_in_force(report),
            f"returned    after {format_seconds(run.return_s)}",
            f"durable     {_durable(run)}",
            f"at risk     at most {format_size(run.peak_bytes)} was only in memory",
            *_waits(run),
            *_end(report),
        ],
        console,
        hanging=_HANGING,
    )


def _in_force(report: RunReport) -> list[str]:
    if report.governed is None:
        return [f"settings    {_settings(report)}"]
    governed = report.governed
    lines = [f"governor    {governor_words(governed, report.run.drained)}"]
    change = governed.state.stood_down if governed.state else None
    if change:
        lines.append(
            f"governor    stood down at {change.at}, because another program changed "
            f"{values_words(change.before) or 'a threshold'} to "
            f"{values_words(change.after) or 'its counterpart'}"
        )
    if governed.problem:
        lines.append(f"governor    {governed.problem}")
    return lines


def governor_words(governed: GovernedRun, drained: Drained) -> str:
    """Return what the governor of a run did."""
    state = governed.state
    if governed.start.followed and (state is None or not state.sums.bursts):
        return f"{governed.start.followed}, governs this host; it accounts for the bursts"
    if state is None:
        return "nothing is known of what it did"
    sums = state.sums
    if not sums.bursts:
        if drained is Drained.BEHIND and state.is_raised:
            return f"raised since {state.changed_at}, until the burst is drained"
        if governed.start.low_bound:
            return low_bound_note(*governed.start.low_bound)
        return "nothing was raised: no writer would have waited at the host's own thresholds"
    return (
        f"raised for {counted(sums.bursts, 'burst')} of {format_size(sums.arrived_bytes)}, for "
        f"{format_seconds(sums.raised_s)}; {saved_words(sums.saved_s, sums.unknown_savings)}"
    )


def _settings(report: RunReport) -> str:
    changes = [f"{name} {report.before[name]} → {new}" for name, new in report.during.items()]
    if report.joined:
        return f"those of process {report.joined[0].pid}: {report.joined[0].words}"
    return ", ".join(changes) or "all were in force already; nothing was changed"


def _durable(run: Run) -> str:
    if run.durable_s is not None:
        return f"after {format_seconds(run.durable_s)}"
    if run.drained is Drained.SKIPPED:
        return "not waited for: a signal ended the wait"
    return "not waited for (--no-drain)"


def _waits(run: Run) -> list[str]:
    if run.io_wait_s is None:
        return []
    waited = format_seconds(run.io_wait_s)
    return [f"I/O waits   some program of the host waited for I/O for {waited} of that"]


def _end(report: RunReport) -> list[str]:
    """Return what has become of the settings."""
    lines = [f"restored    {text}" for text in report.restored]
    lines += [f"left        {sentence}" for sentence in report.left]
    if report.run.drained is Drained.BEHIND:
        lines.append(
            "restored    as soon as the data is on the devices, by a process that stays behind: "
            "see `writewise status`"
        )
    if report.remaining:
        lines.append(f"kept        for {report.remaining[0]}; the last run restores the originals")
    return lines


def run_document(report: RunReport) -> dict[str, object]:
    """Return the report for `--json`."""
    run = report.run
    return {
        "command_user": report.command_user,
        "exit_code": run.exit_code,
        "changes": [
            {"name": name, "before": report.before[name], "during": new}
            for name, new in report.during.items()
        ],
        "joined": [_process(holder) for holder in report.joined],
        "return_s": run.return_s,
        "durable_s": run.durable_s,
        "drained": run.drained.value,
        "peak_at_risk_bytes": run.peak_bytes,
        "io_wait_s": run.io_wait_s,
        "restored": list(report.restored),
        "left": list(report.left),
        "remaining": [_process(holder) for holder in report.remaining],
        "recovered": list(report.recovered),
        "notes": list(report.notes),
        "governed": _governed_document(report.governed),
    }


def _governed_document(governed: GovernedRun | None) -> dict[str, object] | None:
    if governed is None:
        return None
    state = governed.state
    return {
        "volumes": list(governed.start.volumes),
        "followed": governed.start.followed,
        "max_at_risk_bytes": state.max_at_risk_bytes if state else None,
        **(asdict(state.sums) if state else {}),
        "stood_down": asdict(state.stood_down) if state and state.stood_down else None,
        "problem": governed.problem,
    }


def _process(holder: Holder) -> dict[str, object]:
    return {"pid": holder.pid, "command": holder.command, "since": holder.since}


@contextlib.contextmanager
def shown_drain(console: Console) -> Iterator[Callable[[int], None]]:
    """Yield what shows the bytes still only in memory: a bar on a terminal, else one line.

    The bar has no thread of its own, because the caller may fork.
    """
    if not console.is_terminal:
        yield _Line(console).show
        return
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True)),
        *(TransferSpeedColumn(), TimeRemainingColumn()),
    )
    bar = _Bar(Progress(*columns, console=console, transient=True, auto_refresh=False))
    try:
        yield bar.show
    finally:
        bar.end()


class _Line:
    def __init__(self, console: Console) -> None:
        self._console, self._is_shown = console, False

    def show(self, left_bytes: int) -> None:
        if left_bytes and not self._is_shown:
            self._is_shown = True
            line = f"the command returned; {format_size(left_bytes)} is being written to the device"
            print_lines([line], self._console)


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._total_bytes: int | None = None

    def show(self, left_bytes: int) -> None:
        if self._total_bytes is None:
            self._total_bytes = left_bytes
            self._task = self._progress.add_task("writing to the device", total=left_bytes)
            self._progress.start()
        done_bytes = max(0, self._total_bytes - left_bytes)
        self._progress.update(self._task, completed=done_bytes, refresh=True)

    def end(self) -> None:
        if self._total_bytes is not None:
            self._progress.stop()
