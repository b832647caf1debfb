# SPDX-License-Identifier: Apache-2.0
"""Plans: what `writewise plan --json` prints. Their figures are computed."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.shared.errors import UsageError
from profiler.compare.checked import CheckedObject
from profiler.compare.measured import figure
from profiler.compare.subject import Kind, Size, Subject, Unit

_FIGURES = (
    ("time to durable", Unit.SECONDS, "durable_s", True),
    ("time to return", Unit.SECONDS, "return_s", False),
    ("time to durable without credits", Unit.SECONDS, "empty_durable_s", False),
    ("time to durable in the long run", Unit.SECONDS, "steady_durable_s", False),
    ("pulls a day", Unit.COUNT, "pulls_per_day", False),
    ("price a month", Unit.USD, "monthly_usd", False),
)


def plan_subject(documents: Sequence[CheckedObject]) -> Subject:
    """Return what a plan says. Raises UsageError."""
    document = documents[0]
    if len(documents) > 1:
        raise UsageError(f"{document.file} has several plans", "keep one in a file")
    pull, source = document.child("pull"), document.child("source")
    circumstances = {
        "instance": document.text_or_none("instance"),
        "source": source.text_or_none("kind"),
        "source_bytes_per_s": source.number_or_none("bytes_per_s"),
        "idle_s": pull.number_or_none("idle_s"),
        "deadline_s": document.number_or_none("deadline_s"),
        **{f"table of {name}": text for name, text in document.values("tables").items()},
    }
    return Subject(
        file=document.file,
        kind=Kind.PLAN,
        runs=1,
        size=Size(bytes=pull.whole("size_bytes")),
        settings={f"volume {name}": value for name, value in document.values("volume").items()},
        circumstances={name: value for name, value in circumstances.items() if value is not None},
        figures=tuple(
            each
            for name, unit, key, is_verdict in _FIGURES
            for each in figure(name, unit, [document.number_or_none(key)], is_verdict=is_verdict)
        ),
        answers={"limited by": document.text("limited_by")},
        is_computed=True,
    )
