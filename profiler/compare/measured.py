# SPDX-License-Identifier: Apache-2.0
"""Where and how something was measured, from a document's `measured`, and of repeats together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.compare.checked import CheckedObject
from profiler.compare.subject import Figure, Unit, Value

T = TypeVar("T")

#: The circumstance that a user chooses as a setting.
TRANSFER = "transfer"
#: Names of `measured` that say when, not under which circumstances.
_WHEN = ("started_at", "sentence")
#: Circumstances that differ between repeats of the same measurement.
_VARYING = ("available_bytes", "dirtyable_bytes", "credits_percent", "endpoint_url")
_NS_PER_S = 1e9
#: How many names of what differs a message has, and how many characters of each.
_MOST_NAMED, _LONGEST_NAME = 4, 60


def settings_in_force(document: CheckedObject) -> dict[str, Value]:
    """Return the sysctls and the knobs of the disk in force, and the transfer settings."""
    measured = document.child("measured")
    transfer = measured.text_or_none(TRANSFER)
    return {
        **measured.values("sysctls"),
        **measured.values("knobs"),
        **({TRANSFER: transfer} if transfer else {}),
    }


def circumstances_of(document: CheckedObject) -> dict[str, Value]:
    """Return the other circumstances."""
    found = document.values("measured")
    return {name: value for name, value in found.items() if name not in (*_WHEN, TRANSFER)}


def same(documents: Sequence[CheckedObject], what: str, of: Callable[[CheckedObject], T]) -> T:
    """Return what is equal in all documents. Raises UsageError if it is not."""
    found = [of(document) for document in documents]
    for each in found[1:]:
        if each != found[0]:
            raise UsageError(
                f"{documents[0].file} has measurements with different {what}"
                f"{_names_of_differing(found[0], each)}",
                "keep repeated measurements of one setting in a file, and others in another",
            )
    return found[0]


def _names_of_differing(one: object, other: object) -> str:
    """Return ` (kernel, volume_type)` for two objects; "" for other values."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return ""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    more = [f"and {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    shown = (printable(str(name))[:_LONGEST_NAME] for name in names[:_MOST_NAMED])
    return f" ({', '.join([*shown, *more])})"


def same_settings(documents: Sequence[CheckedObject]) -> dict[str, Value]:
    """Return the settings in force, equal in all documents. Raises UsageError."""
    return same(documents, "settings", settings_in_force)


def same_circumstances(documents: Sequence[CheckedObject]) -> dict[str, Value]:
    """Return the circumstances of the first document; they are equal but for what varies.

    Raises UsageError.
    """
    same(documents, "circumstances", lambda each: _steady(circumstances_of(each)))
    return circumstances_of(documents[0])


def _steady(circumstances: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in circumstances.items() if name not in _VARYING}


def measured_at(documents: Sequence[CheckedObject]) -> str | None:
    """Return when the first measurement began."""
    return documents[0].child("measured").text_or_none("started_at")


def figure(
    name: str, unit: Unit, values: Iterable[float | None], *, is_verdict: bool = False
) -> list[Figure]:
    """Return the figure of all runs that have it; nothing if none has."""
    known = tuple(value for value in values if value is not None)
    return [Figure(name, unit, known, is_verdict)] if known else []


def figure_of(documents: Sequence[CheckedObject], key: str, name: str, unit: Unit) -> list[Figure]:
    """Return the figure that documents have under a key; nothing if none has it."""
    return figure(name, unit, (each.number_or_none(key) for each in documents))


def verdict_of(documents: Sequence[CheckedObject], key: str, name: str, unit: Unit) -> list[Figure]:
    """Return the figure that the verdict is about. Raises UsageError if a document has none."""
    return figure(name, unit, (each.number(key) for each in documents), is_verdict=True)


def seconds(time_ns: float | None) -> float | None:
    """Return a time in seconds."""
    return None if time_ns is None else time_ns / _NS_PER_S


_UNITS = {"ns": Unit.SECONDS, "bytes": Unit.BYTES, "calls": Unit.COUNT}


def findings(documents: Sequence[CheckedObject], *, with_latencies: bool) -> list[Figure]:
    """Return the values of the contract's rules that all documents have."""
    found = [_findings_of(document, with_latencies=with_latencies) for document in documents]
    common = [key for key in found[0] if all(key in each for each in found)]
    return [Figure(name, unit, tuple(each[name, unit] for each in found)) for name, unit in common]


def _findings_of(document: CheckedObject, *, with_latencies: bool) -> dict[tuple[str, Unit], float]:
    """Return the values of the rules; the latencies are of the calls, whatever the rule."""
    values: dict[tuple[str, Unit], float | None] = {}
    for finding in document.children("findings"):
        unit, value = _UNITS.get(finding.text("unit")), finding.number_or_none("value")
        if unit is None:
            raise finding.damaged("unit", "bytes, calls or ns")
        values[_rule_name(finding), unit] = seconds(value) if unit is Unit.SECONDS else value
        for percent in (50, 99) if with_latencies else ():
            latency_ns = finding.number_or_none(f"latency_p{percent}_ns")
            values[f"{_calls(finding)}: p{percent} latency", Unit.SECONDS] = seconds(latency_ns)
    return {key: value for key, value in values.items() if value is not None}


def _rule_name(finding: CheckedObject) -> str:
    return f"{finding.text('label')} ({finding.text('measurement')} of {_calls(finding)})"


def _calls(finding: CheckedObject) -> str:
    sizes = finding.text_or_none("size_range")
    size = f", {sizes}" if sizes not in (None, "all") else ""
    return f"{finding.text('call_types')} in {finding.text('path')}{size}"
