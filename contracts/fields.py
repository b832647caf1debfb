# SPDX-License-Identifier: Apache-2.0
"""Parsing and validation of every field of a contract, for both syntaxes.

A syntax module splits its file into `Written` values and passes them to `build_contract`, so both
syntaxes accept the same contracts. All errors are collected before one is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from contracts.model import (
    MAX_RULES,
    MAX_SLOTS,
    MOVES_BYTES,
    OF_SOCKETS,
    CallType,
    Contract,
    Measurement,
    Quantity,
    Rule,
    SizeRange,
    Slot,
)
from contracts.shared.errors import InvalidFileError
from contracts.shared.text import is_unprintable, printable, quoted
from contracts.shared.units import Grammar, exact_count, exact_latency, exact_size
from contracts.vocabulary import NO_CALLS, call_types_text, parse_call_types, parse_measurement

MAX_LABEL_CHARACTERS = 128
#: PATH_MAX and NAME_MAX of include/uapi/linux/limits.h; PATH_MAX counts the ending NUL.
MAX_PATH_BYTES, MAX_NAME_BYTES = 4095, 255
#: A file that is not a contract has an error in every line; nobody reads more than these.
MAX_PROBLEMS = 100

_THRESHOLD_PRINTERS = {
    Quantity.SIZE: exact_size,
    Quantity.LATENCY: exact_latency,
    Quantity.COUNT: exact_count,
}
_MOVERS = " and ".join(", ".join(call_type.value for call_type in MOVES_BYTES).rsplit(", ", 1))
_Value = TypeVar("_Value")


class Problems:
    """The errors of one file in the order found, each with its position.

    `add` raises the InvalidFileError itself when there are `MAX_PROBLEMS` of them.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._found: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Add one error; `where` is `line 3` or `rules[1].threshold`."""
        self._found.append(f"{where}: {what}")
        if len(self._found) == MAX_PROBLEMS:
            self._found[-1] += "\n  too many errors; the rest of the file was not read"
            raise self.error()

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> InvalidFileError:
        """Return all errors as one exception to raise."""
        return InvalidFileError(printable(self._source), self._found)


@dataclass(frozen=True)
class Written:
    """A value as written in the file, and its position there."""

    text: str
    where: str


@dataclass(frozen=True)
class WrittenRule:
    """The six fields of a rule; None is a missing field that is already reported."""

    where: str
    label: Written | None
    path: Written | None
    call_types: Written | None
    size_range: Written | None
    measurement: Written | None
    threshold: Written | None


def build_contract(
    timeframe: Written | None,
    rules: Iterable[WrittenRule],
    source: str,
    problems: Problems,
    figures: Grammar,
) -> Contract:
    """Return the contract made of the written values; `figures` is the grammar of its syntax.

    `rules` may be an iterator that adds its own problems while it is read, so that all problems
    are in the file's order. Raises InvalidFileError with everything in `problems`.
    """
    timeframe_ns = _parsed(timeframe, figures.timeframe_ns, problems)
    built = _build_rules(rules, problems, figures)
    if not built and not problems:
        problems.add("rules", "is empty; a contract needs at least one rule")
    if problems or timeframe_ns is None:
        raise problems.error()
    return Contract(timeframe_ns, tuple(built), source)


def _build_rules(rules: Iterable[WrittenRule], problems: Problems, figures: Grammar) -> list[Rule]:
    """Return the valid rules; add the problems of the others."""
    built: list[Rule] = []
    places_of_labels: dict[str, str] = {}
    slots: set[Slot] = set()
    for number, written in enumerate(rules):
        if number == MAX_RULES:
            problems.add(written.where, f"a contract has at most {MAX_RULES} rules")
            break
        _check_label_is_new(written, places_of_labels, problems)
        rule = _build_rule(written, problems, figures)
        if rule is not None:
            built.append(rule)
            _check_slot(rule, written.where, slots, problems)
    return built


def _parsed(
    written: Written | None, parse: Callable[[str], _Value], problems: Problems
) -> _Value | None:
    """Return the parsed value; add a problem and return None if it is invalid."""
    if written is None:
        return None
    try:
        return parse(written.text)
    except ValueError as error:
        problems.add(written.where, str(error))
        return None


def _build_rule(written: WrittenRule, problems: Problems, figures: Grammar) -> Rule | None:
    label = _parsed(written.label, parse_label, problems)
    path = _parsed(written.path, parse_path, problems)
    call_types = _parsed(written.call_types, parse_call_types, problems)
    size_range = _parsed(written.size_range, partial(parse_size_range, figures=figures), problems)
    measurement = _parsed(written.measurement, parse_measurement, problems)
    if measurement is None:
        return None  # the measurement decides which units the threshold takes
    threshold = _parsed(written.threshold, threshold_parser(measurement, figures), problems)
    if path is None or call_types is None or size_range is None:
        return None
    mismatches = _mismatches_of_calls if measurement.is_of_calls else _mismatches_of_resources
    for field, what in mismatches(written, Slot(path, call_types, size_range), measurement):
        problems.add(field.where if field else written.where, what)
    if label is None or threshold is None:
        return None
    return Rule(label, path, call_types, size_range, measurement, threshold)


def _mismatches_of_calls(
    written: WrittenRule, slot: Slot, measurement: Measurement
) -> Iterator[tuple[Written | None, str]]:
    """Yield each field of a rule on calls that does not fit the others, and why."""
    word, calls = measurement.value, call_types_text(slot.call_types)
    if not slot.call_types:
        yield written.call_types, f"{word} measures calls; name their types instead of {NO_CALLS}"
        return
    if measurement is Measurement.SEEK_DISTANCE and slot.call_types != (CallType.SEEK,):
        yield written.measurement, f"{word} applies only to seek calls, not to {calls}"
    if measurement is Measurement.BANDWIDTH and not slot.moves_bytes:
        yield written.measurement, f"{word} applies only to {_MOVERS} calls, not to {calls}"
    if not slot.size_range.is_all and not slot.moves_bytes:
        yield written.size_range, f"only {_MOVERS} calls have a size, not {calls}; use all"
    if slot.path != "/" and set(OF_SOCKETS).intersection(slot.call_types):
        yield written.path, f"sockets have no path; use '/' for {calls}"


def _mismatches_of_resources(
    written: WrittenRule, slot: Slot, measurement: Measurement
) -> Iterator[tuple[Written | None, str]]:
    """Yield the same for a rule on memory or CPU time."""
    word = measurement.value
    if slot.call_types:
        what = f"{word} measures processes or the host, not calls; use {NO_CALLS}"
        yield written.call_types, what
    if not slot.size_range.is_all:
        yield written.size_range, f"{word} does not depend on the size of calls; use all"
    if slot.path != "/":
        yield written.path, f"{word} does not depend on a path; use '/'"


def _check_label_is_new(written: WrittenRule, places: dict[str, str], problems: Problems) -> None:
    """Add a problem if another rule has this label: labels identify findings."""
    if written.label is None:
        return
    text, where = written.label.text, written.label.where
    first = places.setdefault(text, where)
    if first != where:
        problems.add(where, f"the label {quoted(text)} is already used at {first}")


def _check_slot(rule: Rule, where: str, slots: set[Slot], problems: Problems) -> None:
    slot = rule.slot
    if slot is None or slot in slots:
        return
    slots.add(slot)
    if len(slots) == MAX_SLOTS + 1:  # reported once, not for every rule that follows
        problems.add(
            where, f"more than {MAX_SLOTS} distinct combinations of path, call types and size range"
        )


def _check_text(text: str, noun: str) -> None:
    """Raise ValueError for text that neither a label nor a path may be."""
    if not text:
        raise ValueError(f"the {noun} is empty")
    if any(map(is_unprintable, text)):
        raise ValueError(f"the {noun} {quoted(text)} has a control character")
    if text != text.strip(" "):
        raise ValueError(f"the {noun} {quoted(text)} begins or ends with a space")


def parse_label(text: str) -> str:
    """A label: any printable text of at most 128 characters. Raises ValueError."""
    _check_text(text, "label")
    if len(text) > MAX_LABEL_CHARACTERS:
        limit = f"{MAX_LABEL_CHARACTERS} characters"
        raise ValueError(f"the label {quoted(text)} is longer than {limit}")
    if text.startswith("#"):
        raise ValueError(f"the label {quoted(text)} begins with '#', as Mistral's comments do")
    return text


def parse_path(text: str) -> str:
    """An absolute path without `.`, doubled and trailing slashes. Raises ValueError."""
    _check_text(text, "path")
    if not text.startswith("/"):
        raise ValueError(f"the path {quoted(text)} is not absolute; begin it with '/'")
    names = [name for name in text.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ValueError(f"the path {quoted(text)} contains '..'; name the directory itself")
    path = "/" + "/".join(names)
    longest = max((len(name.encode()) for name in names), default=0)
    if longest > MAX_NAME_BYTES or len(path.encode()) > MAX_PATH_BYTES:
        raise ValueError(f"the path {quoted(text)} is longer than the kernel accepts")
    return path


def parse_size_range(text: str, figures: Grammar) -> SizeRange:
    """`all`, `1KiB-1MiB`, `-1MiB` or `1KiB-`: both ends included. Raises ValueError."""
    if text == "all":
        return SizeRange()
    low, dash, high = (part.strip(" \t") for part in text.partition("-"))
    if not dash:
        raise ValueError(f"invalid size range {quoted(text)}; use all or a range such as 1KiB-1MiB")
    size_range = SizeRange(
        figures.size_bytes(low) if low else 0, figures.size_bytes(high) if high else None
    )
    if size_range.max_bytes is not None and size_range.min_bytes > size_range.max_bytes:
        raise ValueError(f"invalid size range {quoted(text)}: it begins above its end")
    return size_range


def size_range_text(size_range: SizeRange) -> str:
    """The text that `parse_size_range` parses to the same range."""
    if size_range.is_all:
        return "all"
    low = exact_size(size_range.min_bytes) if size_range.min_bytes else ""
    high = "" if size_range.max_bytes is None else exact_size(size_range.max_bytes)
    return f"{low}-{high}"


def threshold_parser(measurement: Measurement, figures: Grammar) -> Callable[[str], int]:
    """The parser of a measurement's thresholds."""
    parsers = {
        Quantity.SIZE: figures.size_bytes,
        Quantity.LATENCY: figures.latency_ns,
        Quantity.COUNT: figures.count,
    }
    return parsers[measurement.quantity]


def threshold_text(rule: Rule) -> str:
    """The text that is parsed to the rule's threshold."""
    return _THRESHOLD_PRINTERS[rule.measurement.quantity](rule.threshold)
