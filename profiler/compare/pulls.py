# SPDX-License-Identifier: Apache-2.0
"""Pulls: what `writewise pull --json` prints, once or repeatedly."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.compare.checked import CheckedObject
from profiler.compare.measured import (
    figure_of,
    findings,
    measured_at,
    same,
    same_circumstances,
    same_settings,
    verdict_of,
)
from profiler.compare.subject import Kind, Size, Subject, Unit


def pull_subject(documents: Sequence[CheckedObject]) -> Subject:
    """Return what the pulls say. Raises UsageError."""
    evidence = [document.child("evidence") for document in documents]
    return Subject(
        file=documents[0].file,
        kind=Kind.PULL,
        runs=len(documents),
        size=same(
            documents, "sizes", lambda each: Size(each.whole("objects"), each.whole("bytes"))
        ),
        settings=same_settings(documents),
        circumstances={
            **same_circumstances(documents),
            "workers": same(documents, "workers", lambda each: each.whole("workers")),
        },
        figures=(
            *verdict_of(documents, "return_s", "time to return", Unit.SECONDS),
            *figure_of(documents, "durable_s", "time to durable", Unit.SECONDS),
            *figure_of(documents, "stalled_share", "writers waited", Unit.SHARE),
            *figure_of(evidence, "mean_first_byte_s", "mean time to first byte", Unit.SECONDS),
            *figure_of(evidence, "cpu_share", "CPU use of the workers", Unit.SHARE),
            *findings(documents, with_latencies=False),
        ),
        answers=_answers(documents[-1]),
        failures=tuple(failure for each in documents for failure in _failures(each)),
        measured_at=measured_at(documents),
    )


def _answers(document: CheckedObject) -> dict[str, str]:
    evidence, why = document.child("evidence"), document.child("why")
    limit = evidence.text_or_none("limited_by") or evidence.text_or_none("limit")
    found = {"held up by": limit, "main cause of slow writes": why.text_or_none("cause")}
    return {name: text for name, text in found.items() if text}


def _failures(document: CheckedObject) -> list[str]:
    failed = sum(1 for _ in document.children("failures"))
    ended_by = document.text_or_none("ended_by")
    kept = document.whole("kept_objects")
    return [
        *([f"a pull ended early: {ended_by}"] if ended_by else []),
        *([f"{failed} objects of a pull are missing or damaged"] if failed else []),
        *([f"a pull left out {kept} objects that were there already"] if kept else []),
    ]
