# SPDX-License-Identifier: Apache-2.0
"""Runs a command, and adds what it measured or changed to the history, however it ends.

A command with `IS_REMEMBERED` calls `remember` with each outcome. A failure to write the history is
one sentence on standard error and changes nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence

from contracts.shared import exit_codes
from contracts.shared.errors import RequirementError, UsageError, WritewiseError

_OUTCOME = "outcome"
#: Set to this, WRITEWISE_HISTORY keeps every command from writing the history.
_OFF = "off"


def remember(arguments: argparse.Namespace, *sentences: str) -> None:
    """Note what the command measured or changed, for its entry in the history."""
    setattr(arguments, _OUTCOME, (*_outcome(arguments), *sentences))


def run_remembered(arguments: argparse.Namespace, words: Sequence[str]) -> int:
    """Run the command and return its exit code; its exceptions are raised unchanged."""
    command = arguments.command
    is_off = os.environ.get("WRITEWISE_HISTORY") == _OFF
    if is_off or not getattr(command, "IS_REMEMBERED", False):
        return int(command.run(arguments))
    began_s, began_monotonic_s = time.time(), time.monotonic()
    exit_code, error = exit_codes.FAILURE, None
    try:
        exit_code = int(command.run(arguments))
    except BaseException as raised:
        exit_code, error = _exit_code(raised), raised
        raise
    finally:
        if _did_something(arguments, error):
            elapsed_s = time.monotonic() - began_monotonic_s
            _add(arguments, words, (began_s, elapsed_s), exit_code, error)
    return exit_code


def _outcome(arguments: argparse.Namespace) -> tuple[str, ...]:
    return getattr(arguments, _OUTCOME, ())


def _did_something(arguments: argparse.Namespace, error: BaseException | None) -> bool:
    """Return whether there is an outcome, or a failure other than a refusal to begin."""
    if getattr(arguments, "dry_run", False):
        return False
    is_refused = error is None or isinstance(error, (UsageError, RequirementError))
    return bool(_outcome(arguments)) or not is_refused


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    if isinstance(error, SystemExit) and isinstance(error.code, int):  # SIGTERM and SIGHUP
        return error.code
    return error.exit_code if isinstance(error, WritewiseError) else exit_codes.FAILURE


def _words_of(error: BaseException | None) -> str | None:
    if error is None:
        return None
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "ended by a signal"
    return getattr(error, "message", None) or str(error) or type(error).__name__


def _add(
    arguments: argparse.Namespace,
    words: Sequence[str],
    when_s: tuple[float, float],
    exit_code: int,
    error: BaseException | None,
) -> None:
    """Write the entry; `when_s` is the time of its begin and how long it took."""
    from datetime import datetime, timezone

    from profiler.history.entry import HistoryEntry
    from profiler.history.file import add_entry, history_path
    from profiler.recording.log_origin import without_secrets

    began_s, elapsed_s = when_s
    entry = HistoryEntry(
        at=datetime.fromtimestamp(began_s, timezone.utc).isoformat(timespec="seconds"),
        elapsed_s=round(elapsed_s, 3),
        command=arguments.command.NAME,
        user=_caller(),
        arguments=tuple(without_secrets(words)),
        outcome=_outcome(arguments),
        exit_code=exit_code,
        error=_words_of(error),
    )
    try:
        path = history_path()
        if path is not None:
            add_entry(path, entry)
    except (OSError, ValueError, WritewiseError) as problem:
        if not getattr(arguments, "quiet", False):
            print(f"writewise: not added to the history: {_words_of(problem)}", file=sys.stderr)


def _caller(environment: Mapping[str, str] = os.environ) -> str:
    """Return the user who called sudo, else the one whose process this is."""
    import pwd

    from contracts.shared.trust import id_of

    uid = id_of(environment.get("SUDO_UID", "")) if os.geteuid() == 0 else None
    uid = os.geteuid() if uid is None else uid
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except (KeyError, OverflowError):
        return f"uid {uid}"
