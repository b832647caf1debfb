# SPDX-License-Identifier: Apache-2.0
"""From a file that nobody has checked to the side of a comparison. Every error is one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.text import printable, quoted
from profiler.compare import clients, plans, profiles, pulls, runs, sweeps
from profiler.compare.checked import CheckedObject
from profiler.compare.subject import Subject
from sysctl.change import recommendation
from sysctl.evidence import results

_FILE = FileKind(
    noun="measurement",
    max_bytes=32
    * 2**20,  # repeated profiles with their timelines; parsed, it takes 20 times as much
    hint="use what a --json of Writewise printed, results of a sweep, or a recommendation.json",
)
_MAX_DOCUMENTS = 1000


class DocumentKind(NamedTuple):
    """A kind of document: the version that can be read, and what makes a subject of it.

    Several documents in a file are repeats; `of` gets one or more.
    """

    version: int
    of: Callable[[Sequence[CheckedObject]], Subject]


#: By the `schema` of a document.
SCHEMAS: Mapping[str, DocumentKind] = {
    "writewise-pull": DocumentKind(1, pulls.pull_subject),
    "writewise-profile": DocumentKind(1, profiles.profile_subject),
    "writewise-run": DocumentKind(1, runs.run_subject),
    "writewise-sweep": DocumentKind(1, sweeps.advice_subject),
    "writewise-advise": DocumentKind(1, sweeps.advice_subject),
    "writewise-transfer-tune": DocumentKind(1, sweeps.advice_subject),
    "writewise-bench-clients": DocumentKind(1, clients.clients_subject),
    "writewise-plan": DocumentKind(1, plans.plan_subject),
}


#: Measurements that are not compared: what is in them, and what to compare instead.
_NOT_COMPARED = {
    "writewise-plan-cheapest": (
        "is a list of volumes (plan --cheapest), and a comparison is of one volume on each side",
        "plan each of the two volumes: `writewise plan … --volume-type TYPE --json`",
    ),
    "writewise-govern": (
        "is the work of one governor, and no other one meets the same bursts",
        "compare pulls with and without it: `writewise pull … --json >> FILE`",
    ),
}


def read_subject(path: Path) -> Subject:
    """Return what a file says. Raises UsageError."""
    text, name = _FILE.read_text(str(path)), printable(str(path))
    documents = [_object(each, name) for each in _documents(text, name)]
    first = documents[0]
    if first.get("format") in (results.FORMAT, recommendation.FORMAT):
        if len(documents) > 1:
            raise UsageError(f"{name} has more than one document", _FILE.hint)
        is_results = first["format"] == results.FORMAT
        return (sweeps.results_subject if is_results else sweeps.change_subject)(first, name)
    kind = _kind_of(first, name)
    for document in documents[1:]:
        if document.get("schema") != first["schema"]:
            raise UsageError(
                f"{name} has documents of different kinds",
                "keep repeated measurements of one kind in a file",
            )
        _kind_of(document, name)
    return kind.of([CheckedObject(document, name) for document in documents])


def _documents(text: str, name: str) -> list[Any]:
    """Return the documents of a file, one after the other."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    found, place = [], _after_space(text, 0)
    try:
        while place < len(text):
            document, end = decoder.raw_decode(text, place)
            found.append(document)
            place = _after_space(text, end)
            if len(found) > _MAX_DOCUMENTS:
                raise UsageError(f"{name} has more than {_MAX_DOCUMENTS} documents", _FILE.hint)
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"{name} is not a measurement, or it is truncated: {error}", _FILE.hint
        ) from None
    return found


def _after_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _refuse_constant(text: str) -> float:
    raise ValueError(f"invalid number: {text}")


def _object(document: object, name: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UsageError(f"{name} is not a measurement of Writewise", _FILE.hint)
    return document


def _kind_of(document: Mapping[str, Any], name: str) -> DocumentKind:
    schema, version = document.get("schema"), document.get("version")
    if not isinstance(schema, str) or not schema.startswith("writewise-"):
        raise UsageError(f"{name} is not a measurement of Writewise", _FILE.hint)
    if schema in _NOT_COMPARED:
        what, hint = _NOT_COMPARED[schema]
        raise UsageError(f"{name} {what}", hint)
    kind = SCHEMAS.get(schema)
    if kind is None:
        known = ", ".join(each.removeprefix("writewise-") for each in SCHEMAS)
        raise UsageError(
            f"{name} is a document {quoted(schema)}, which is not compared",
            f"compare the documents of {known}, results of a sweep, or recommendations",
        )
    if version != kind.version:
        raise UsageError(
            f"{name} has version {quoted(str(version))}; this version of Writewise reads "
            f"{kind.version}",
            "use the version that wrote it, or measure again",
        )
    return kind
