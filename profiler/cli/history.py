# SPDX-License-Identifier: Apache-2.0
"""Print what was measured, recommended, applied, governed and restored on this host.

Each entry says when, by whom (the user who called sudo) and with which outcome, the newest last.
The history is a record: what is in force, and what can be restored, is what `writewise status`
reads from the journals. As root it is that of the host; for other users it is their own.
"""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta, timezone

from contracts.shared.text import quoted
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.json_documents import emit

NAME = "history"
HELP = "print what was measured and changed on this host"
NEEDS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how far back."""
    parser.add_argument(
        "--since",
        metavar="WHEN",
        type=types.typed(_since),
        help="only entries since: 7d, 12h, 2026-11-23 or 2026-11-23T14:00",
    )
    options.add_json(parser)


def _since(text: str) -> datetime:
    """Return the time that a duration before now, or a date in local time, means."""
    from contracts.shared.units import parse_duration_ns

    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.now(timezone.utc) - timedelta(seconds=parse_duration_ns(text) / 10**9)
    except (ValueError, OverflowError):
        raise ValueError(
            f"invalid time {quoted(text)}; use a duration or a date, such as 7d or 2026-11-23"
        ) from None


def run(arguments: argparse.Namespace) -> int:
    """Print the entries; return 0 also if there are none."""
    from profiler.history.file import Kept, history_path, read_entries
    from profiler.report.console import plain_console
    from profiler.report.history import history_document, print_history

    path = history_path()
    kept = read_entries(path) if path else Kept((), 0)
    if arguments.since is not None:
        recent = tuple(each for each in kept.entries if each.began >= arguments.since)
        kept = kept._replace(entries=recent)
    if arguments.json:
        emit(NAME, history_document(path, kept))
    else:
        print_history(path, kept, plain_console())
    return 0
