# SPDX-License-Identifier: Apache-2.0
"""Profiles: what `writewise profile --json` prints, once or repeatedly."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.compare.checked import CheckedObject
from profiler.compare.measured import (
    figure,
    findings,
    measured_at,
    same,
    same_circumstances,
    same_settings,
    seconds,
)
from profiler.compare.subject import Figure, Kind, Subject, Unit
from profiler.recording.scope import restrictions

#: What was profiled. The time of a command is an outcome; that of a look was chosen.
_TARGETS = {"command": "a command", "process": "a process", "host": "the host"}


def profile_subject(documents: Sequence[CheckedObject]) -> Subject:
    """Return what the profiles say. Raises UsageError."""
    target, scope = same(documents, "scopes", _scope)
    of_command = target == "command"
    return Subject(
        file=documents[0].file,
        kind=Kind.PROFILE,
        runs=len(documents),
        scope=scope,
        settings=same_settings(documents),
        circumstances={
            **same_circumstances(documents),
            "contract": same(documents, "contracts", lambda each: each.text("contract")),
        },
        figures=(
            *_time(documents, is_outcome=of_command),
            *_waits(documents, is_verdict=not of_command),
            *findings(documents, with_latencies=True),
        ),
        answers=_answers(documents[-1]),
        failures=tuple(f for each in documents for f in _losses(each)),
        measured_at=measured_at(documents),
    )


def _scope(document: CheckedObject) -> tuple[str, str]:
    """Return the target, and in words whose calls were counted: which process does not matter."""
    scope = document.child_or_none("scope")
    if scope is None:  # of an earlier version, which had only this
        is_command = bool(document.text_or_none("command_user"))
        return ("command", "a command") if is_command else ("host", "the host or a process")
    target = scope.text("target")
    if target not in _TARGETS:
        raise scope.damaged("target", f"one of {', '.join(_TARGETS)}")
    only = restrictions(scope.text_or_none("comm"), scope.text_or_none("cgroup"))
    return target, _TARGETS[target] + (f" (only {', '.join(only)})" if only else "")


def _time(documents: Sequence[CheckedObject], *, is_outcome: bool) -> list[Figure]:
    name = "time of the command" if is_outcome else "time profiled"
    values = (seconds(each.number("elapsed_ns")) for each in documents)
    return figure(name, Unit.SECONDS, values, is_verdict=is_outcome)


def _waits(documents: Sequence[CheckedObject], *, is_verdict: bool) -> list[Figure]:
    """Return the waits for write-back in relation to the time, which may differ."""
    per_s = [
        _ratio(each.child("stall").number("total_ns"), each.number("elapsed_ns"))
        for each in documents
    ]
    verdicts = [each.child("verdict") for each in documents]
    shares = [
        _ratio(each.number_or_none("waited_ns"), each.number_or_none("in_calls_ns"))
        for each in verdicts
    ]
    return [
        *figure("throttled, s per s (all threads)", Unit.RATIO, per_s, is_verdict=is_verdict),
        *figure("share of the calls' time waited", Unit.SHARE, shares),
    ]


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _answers(document: CheckedObject) -> dict[str, str]:
    found = {
        "is it write-back": document.child("verdict").text_or_none("answer"),
        "main cause of slow writes": document.child("why").text_or_none("cause"),
    }
    return {name: text for name, text in found.items() if text}


def _losses(document: CheckedObject) -> list[str]:
    lost = document.child("losses").whole("total")
    return [f"{lost} events of a profile were lost"] if lost else []
