# SPDX-License-Identifier: Apache-2.0
"""What `writewise status` prints of the governor: whether it runs, and its summary by day."""

from __future__ import annotations

from datetime import date

from rich.console import Console

from contracts.shared.text import printable
from profiler.report.console import print_lines
from profiler.report.govern import bound_words, day_line, values_words
from sysctl.host.governor_state import GovernorState


def print_governor(state: GovernorState, console: Console, *, is_running: bool) -> None:
    """Print whether it runs, what is in force, and why it ended."""
    if is_running:
        bound = bound_words(state.max_at_risk_bytes)
        now = f"raised since {state.changed_at}" if state.is_raised else "at rest"
        lines = [
            f"governor: {now}; {', '.join(state.volumes)}, {bound} at risk, process "
            f"{state.pid} since {state.since}"
        ]
    elif state.ended_at is None:
        lines = [
            f"governor: process {state.pid} was killed after {state.written_at}; the next start or "
            "`writewise rollback --interrupted` restores what it had raised"
        ]
    else:
        lines = [f"governor: {state.purpose} ended at {state.ended_at}"]
    if state.stood_down:
        change = state.stood_down
        lines.append(
            f"governor: it stood down at {change.at}, because another program changed "
            f"{values_words(change.before) or 'a threshold'} to "
            f"{values_words(change.after) or 'its counterpart'}"
        )
    print_lines([printable(line) for line in lines], console, hanging=2)


def print_days(
    state: GovernorState, console: Console, *, all_days: bool, today: date | None = None
) -> None:
    """Print today's summary, or that of all days that are known."""
    present = (today or date.today()).isoformat()
    days = state.days if all_days else [each for each in state.days if each.date == present]
    print_lines([f"governor: {day_line(each)}" for each in days], console, hanging=2)
