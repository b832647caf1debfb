# SPDX-License-Identifier: Apache-2.0
"""The history of a host, for the terminal and JSON, and the sentences that commands add to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from contracts.shared.text import printable
from contracts.shared.units import counted, format_minutes, format_seconds, format_size
from profiler.history.entry import HistoryEntry
from profiler.history.file import Kept
from profiler.report.console import print_lines

if TYPE_CHECKING:
    from profiler.client_bench.client_comparison import ClientComparison
    from profiler.pull.measured import PullMeasurement
    from profiler.recording.recording import Profile
    from profiler.report.run import RunReport
    from sysctl.advice.advise import Recommendation
    from sysctl.apply.plan import ApplyPlan

_INDENT = "  "


def print_history(path: Path | None, kept: Kept, console: Console) -> None:
    """Print the entries, the oldest first, and what was skipped."""
    for entry in kept.entries:
        print_lines([_head(entry)], console, "bold", hanging=4)
        lines = [*entry.outcome, *([f"failed: {entry.error}"] if entry.error else [])]
        print_lines([_INDENT + line for line in lines], console, hanging=4)
    if not kept.entries:
        print_lines([f"no entries in {path}" if path else "no entries"], console)
    if kept.skipped:
        verb = "was" if kept.skipped == 1 else "were"
        lines_text = counted(kept.skipped, "line")
        why = "damaged, not written completely, or of another version"
        print_lines([f"{lines_text} of {path} {verb} skipped: {why}"], console, "yellow")


def _head(entry: HistoryEntry) -> str:
    """Return `2026-11-23 14:03:27  alice (uid 1000)  writewise apply … (12.3 s)`."""
    time = entry.began.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    ended = "" if entry.exit_code == 0 else f", exit code {entry.exit_code}"
    words = " ".join(entry.arguments)
    took = format_minutes(max(0.0, entry.elapsed_s))
    return f"{time}  {entry.user}  writewise {words} ({took}{ended})"


def history_document(path: Path | None, kept: Kept) -> dict[str, object]:
    """Return the same as plain data."""
    return {
        "file": None if path is None else printable(str(path)),
        "entries": [entry.to_json() for entry in kept.entries],
        "skipped": kept.skipped,
    }


def profile_outcome(profile: Profile) -> str:
    """Return the verdict of a profile; without one, what was counted."""
    from profiler.report.verdict import sentence, verdict_here
    from profiler.report.why import explain

    verdict = verdict_here(profile.why)
    return sentence(verdict, profile.why) if verdict else explain(profile.why).sentence


def pull_outcome(measured: PullMeasurement) -> str:
    """Return what was pulled and how long it took."""
    result = measured.result
    durable = measured.durable_s
    text = (
        f"pulled {counted(result.objects, 'object')}, {format_size(result.bytes)}, in "
        f"{format_seconds(measured.return_s)}"
    )
    if durable is not None:
        text += f", durable after {format_seconds(durable)}"
    if measured.stalled_share is not None:
        text += f"; writers waited {measured.stalled_share:.0%} of the time in dirty throttling"
    return text + (f"; {counted(len(measured.failures), 'failure')}" if measured.failures else "")


def advice_outcome(recommendation: Recommendation) -> str:
    """Return what a sweep recommends, and its verdict."""
    from profiler.report.conclusions import verdict_text
    from profiler.report.tradeoff import setting_text

    verdict, best = verdict_text(recommendation), recommendation.best
    if best is None:
        return f"no change recommended: {verdict}"
    baseline = recommendation.analysis.runs.baseline
    return f"recommended {setting_text(best.setting, baseline)}: {verdict}"


def bench_outcome(comparison: ClientComparison) -> list[str]:
    """Return the verdict of each row, and what failed."""
    from profiler.report.client_bench import verdict

    return [*map(verdict, comparison.rows), *comparison.problems]


def apply_outcome(plan: ApplyPlan, done: Sequence[str]) -> Iterator[str]:
    """Yield each setting that was changed, and what else was done."""
    changed = [each for each in (*plan.sysctls, *plan.knobs) if each.is_change]
    yield from (f"applied {each.name} {each.present} → {each.new}" for each in changed)
    yield from done
    if not changed and not done:
        yield "every value was in force already"


def run_outcome(report: RunReport) -> str:
    """Return the settings of a run, its exit code and its times."""
    from profiler.report.run import governor_words

    changes = [f"{name} {report.before[name]} → {new}" for name, new in report.during.items()]
    settings = ", ".join(changes) or "no setting had to be changed"
    run = report.run
    if report.governed:
        settings = f"--auto: {governor_words(report.governed, run.drained)}"
    durable = "" if run.durable_s is None else f", durable after {format_seconds(run.durable_s)}"
    return (
        f"{settings}; the command returned {run.exit_code} after "
        f"{format_seconds(run.return_s)}{durable}"
    )


def rollback_outcome(restored: Sequence[str], left: Sequence[str]) -> list[str]:
    """Return what was restored, and what was left."""
    return [*(f"restored: {each}" for each in restored), *(f"left: {each}" for each in left)]
