# SPDX-License-Identifier: Apache-2.0
"""Comparisons of pull clients: what `writewise bench-clients --json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contracts.shared.errors import UsageError
from profiler.compare.checked import CheckedObject
from profiler.compare.subject import Figure, Kind, Subject, Unit

#: More than all clients with all workloads.
_MAX_FIGURES = 500


def clients_subject(documents: Sequence[CheckedObject]) -> Subject:
    """Return what the comparison says. Raises UsageError."""
    document = documents[0]
    if len(documents) > 1:
        raise UsageError(
            f"{document.file} has several comparisons of clients",
            "keep one in a file: it has repeated pulls already (--pulls)",
        )
    figures = tuple(_figures(document))
    if len(figures) > _MAX_FIGURES:
        raise UsageError(f"{document.file} has more than {_MAX_FIGURES} pairs of row and client")
    context = document.values("context")
    context.pop("measured_at", None)
    context.pop("pulls", None)
    return Subject(
        file=document.file,
        kind=Kind.CLIENTS,
        runs=1,
        settings=document.child("context").values("writeback"),
        circumstances={
            **context,
            **{
                f"client {name}": version
                for name, version in document.child("context").values("clients").items()
            },
        },
        figures=figures,
        answers={
            f"{row.text('name')}: recommended client": row.text_or_none("recommended_client")
            or "the default"
            for row in document.children("rows")
        },
        failures=tuple(
            f"{row.text('name')}: {cell.text('client')}: {problem}"
            for row in document.children("rows")
            for cell in row.children("clients")
            for problem in [cell.text_or_none("problem")]
            if problem
        ),
        measured_at=document.child("context").text_or_none("measured_at"),
    )


def _figures(document: CheckedObject) -> Iterator[Figure]:
    """Yield the times of each row and client; a row of another size has another name."""
    for row in document.children("rows"):
        size = f"{row.whole('objects')} objects, {row.whole('bytes')} bytes"
        for cell in row.children("clients"):
            times = tuple(each.number("time_s") for each in cell.children("pulls"))
            if times and not cell.text_or_none("problem"):
                name = f"{row.text('name')} ({size}): {cell.text('client')}"
                yield Figure(name, Unit.SECONDS, times, is_verdict=True)
