# SPDX-License-Identifier: Apache-2.0
r"""Mistral's contract syntax: a header line, then one rule a line.

    2,monitortimeframe,1000s
    mean_lat_write, /, write, all, mean-latency, 1us

Spaces around a field, blank lines and lines that begin with `#` are ignored. A version 1 rule has
no size range. A comma or backslash inside a field is written `\,` and `\\`, as in Mistral's log;
that Mistral's contracts do the same is inferred, as is version 1's rule
(`docs/reference/contracts.md`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from contracts.fields import (
    Problems,
    Written,
    WrittenRule,
    build_contract,
    size_range_text,
    threshold_text,
)
from contracts.model import Contract, Rule
from contracts.shared.text import quoted
from contracts.shared.units import MISTRAL, exact_latency
from contracts.vocabulary import MONITOR, YAML_ONLY, call_types_text, check_timeframe_type

#: More than any line whose fields are within their limits, even with every character escaped.
_MAX_LINE_CHARACTERS = 16_384
_HEADER_FIELDS = ("VERSION", "TYPE", "TIMEFRAME")
_RULE_FIELDS = {
    "1": ("LABEL", "PATH", "CALL-TYPE", "MEASUREMENT", "THRESHOLD"),
    "2": ("LABEL", "PATH", "CALL-TYPE", "SIZE-RANGE", "MEASUREMENT", "THRESHOLD"),
}
_NEWEST = "2"
_PIECE = re.compile(r"\\.?|,|[^\\,]+")

_Line = tuple[str, list[str]]


def parse(text: str, source: str) -> Contract:
    """Return the contract in `text`. Raises InvalidFileError with every error and its line."""
    problems = Problems(source)
    lines = _lines(text, problems)
    first = next(lines, ("line 1", []))
    if len(first[1]) == len(_RULE_FIELDS[_NEWEST]):  # a rule: only the header is missing
        problems.add(first[0], f"missing header; begin with one such as {_NEWEST},{MONITOR},1000s")
        version, timeframe = _NEWEST, None
        lines = itertools.chain([first], lines)
    else:
        version, timeframe = _header(first, problems)
    return build_contract(timeframe, _rules(lines, version, problems), source, problems, MISTRAL)


def render(contract: Contract) -> str:
    """Return the text, in version 2, that `parse` parses to the same contract.

    Raises ValueError for what the syntax cannot express: words that only YAML has, fractions of a
    microsecond.
    """
    words = [word for rule in contract.rules for word in _words_of_yaml(rule)]
    if words:
        raise ValueError(f"Mistral has no word for {', '.join(dict.fromkeys(words))}")
    header = f"{_NEWEST},{MONITOR},{exact_latency(contract.timeframe_ns)}"
    return "\n".join([header, *map(_rule_text, contract.rules), ""])


def _words_of_yaml(rule: Rule) -> list[str]:
    words = (*(call_type.value for call_type in rule.call_types), rule.measurement.value)
    return [word for word in words if word in YAML_ONLY]


def _rule_text(rule: Rule) -> str:
    fields = (
        rule.label,
        rule.path,
        call_types_text(rule.call_types),
        size_range_text(rule.size_range),
        rule.measurement.value,
        threshold_text(rule),
    )
    return ",".join(re.sub(r"([\\,])", r"\\\1", field) for field in fields)


def _lines(text: str, problems: Problems) -> Iterator[_Line]:
    """Yield the position and the fields of each line with content; LF and CRLF end a line."""
    for number, line in enumerate(text.split("\n"), start=1):
        where, content = f"line {number}", line.strip(" \t\r")
        if not content or content.startswith("#"):
            continue
        try:
            yield where, _fields(content)
        except ValueError as error:
            problems.add(where, str(error))


def _fields(line: str) -> list[str]:
    """Return the line split at its commas and unescaped. Raises ValueError."""
    if len(line) > _MAX_LINE_CHARACTERS:
        raise ValueError(f"longer than {_MAX_LINE_CHARACTERS} characters")
    fields = [""]
    for piece in _PIECE.findall(line):
        if piece == ",":
            fields.append("")
        elif piece in ("\\,", "\\\\"):
            fields[-1] += piece[1]
        elif piece.startswith("\\"):
            raise ValueError(
                f"invalid escape {quoted(piece)}; a backslash may precede only ',' or '\\'"
            )
        else:
            fields[-1] += piece
    return [field.strip(" \t") for field in fields]


def _header(line: _Line, problems: Problems) -> tuple[str, Written | None]:
    """Return the version and the timeframe; an unknown version is read as the newest."""
    where, fields = line
    if len(fields) != len(_HEADER_FIELDS):
        form = ",".join(_HEADER_FIELDS)
        problems.add(where, f"invalid header; use {form}, such as {_NEWEST},{MONITOR},1000s")
        return _NEWEST, None
    version, timeframe_type, timeframe = fields
    if version not in _RULE_FIELDS:
        problems.add(where, f"unknown version {quoted(version)}; use {_NEWEST} or 1")
        version = _NEWEST
    try:
        check_timeframe_type(timeframe_type)
    except ValueError as error:
        problems.add(where, str(error))
    return version, Written(timeframe, where)


def _rules(lines: Iterator[_Line], version: str, problems: Problems) -> Iterator[WrittenRule]:
    names = _RULE_FIELDS[version]
    for where, fields in lines:
        if len(fields) != len(names):
            expected = f"a version {version} rule has {len(names)} fields ({', '.join(names)})"
            problems.add(where, f"{expected}, not {len(fields)}")
            continue
        written = {name: Written(field, where) for name, field in zip(names, fields)}
        yield WrittenRule(
            where=where,
            label=written["LABEL"],
            path=written["PATH"],
            call_types=_words_of_mistral(written["CALL-TYPE"], problems),
            size_range=written.get("SIZE-RANGE", Written("all", where)),
            measurement=_words_of_mistral(written["MEASUREMENT"], problems),
            threshold=written["THRESHOLD"],
        )


def _words_of_mistral(written: Written, problems: Problems) -> Written | None:
    """Return the field; add a problem and return None if it has a word that only YAML has."""
    for word in written.text.split("+"):
        if word in YAML_ONLY:
            what = f"{quoted(word)} does not exist in Mistral; write the contract as YAML"
            problems.add(written.where, what)
            return None
    return written
