# SPDX-License-Identifier: Apache-2.0
"""Commands under temporary settings: what `writewise run --json` prints, once or repeatedly."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.compare.checked import CheckedObject
from profiler.compare.measured import (
    figure_of,
    measured_at,
    same,
    same_circumstances,
    same_settings,
    verdict_of,
)
from profiler.compare.subject import Kind, Subject, Unit, Value


def run_subject(documents: Sequence[CheckedObject]) -> Subject:
    """Return what the runs say. Raises UsageError."""
    changed = same(documents, "settings", _during)
    return Subject(
        file=documents[0].file,
        kind=Kind.RUN,
        runs=len(documents),
        settings={**same_settings(documents), **changed},
        circumstances={
            **same_circumstances(documents),
            "command_user": same(documents, "users", lambda each: each.text("command_user")),
        },
        figures=(
            *verdict_of(documents, "return_s", "time of the command", Unit.SECONDS),
            *figure_of(documents, "durable_s", "time to durable", Unit.SECONDS),
            *figure_of(documents, "peak_at_risk_bytes", "most data at risk", Unit.BYTES),
            *figure_of(documents, "io_wait_s", "some program waited for I/O", Unit.SECONDS),
        ),
        failures=tuple(
            f"the command returned {code}"
            for code in (each.whole("exit_code") for each in documents)
            if code
        ),
        measured_at=measured_at(documents),
    )


def _during(document: CheckedObject) -> dict[str, Value]:
    changes = document.children("changes")
    return {each.text("name"): _value(each.text("during")) for each in changes}


def _value(text: str) -> Value:
    """Return a number as the sysctls in force have it, else the text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
