# SPDX-License-Identifier: Apache-2.0
"""The YAML syntax of contracts.

    timeframe: 1000s
    rules:
    - label: mean_lat_write
      path: /
      calls: write
      sizes: all
      measure: mean-latency
      threshold: 1us

Values are read as text (`010` is ten, `yes` is a label): YAML's implicit types do not apply and no
object is constructed. `sizes` is optional; the default is `all`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from contracts.fields import (
    Problems,
    Written,
    WrittenRule,
    build_contract,
    size_range_text,
    threshold_text,
)
from contracts.model import Contract, Rule
from contracts.shared.text import printable, quoted, suggestion
from contracts.shared.units import YAML, exact_latency
from contracts.vocabulary import call_types_text

_TOP_KEYS = ("timeframe", "rules")
_RULE_KEYS = ("label", "path", "calls", "sizes", "measure", "threshold")
_OPTIONAL_KEYS = {"sizes": "all"}
#: Four times the largest contract's: a contract with too many rules must get that message instead.
_MAX_EVENTS = 4096
#: A contract has three levels; this limits the recursion of PyYAML's composer.
_MAX_DEPTH = 8


def parse(text: str, source: str) -> Contract:
    """Return the contract in `text`. Raises InvalidFileError with every error and its path."""
    problems = Problems(source)
    top = _mapping(_compose(text, problems), "", _TOP_KEYS, problems)
    if top is None:
        raise problems.error()
    timeframe = _text(top, "timeframe", "", problems)
    return build_contract(timeframe, _rules(top, problems), source, problems, YAML)


def render(contract: Contract) -> str:
    """Return the text that `parse` parses to the same contract.

    Raises ValueError for a figure that the language cannot express (a fraction of a microsecond).
    """
    document = {
        "timeframe": exact_latency(contract.timeframe_ns),
        "rules": [_rule_document(rule) for rule in contract.rules],
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1 << 20)


def _rule_document(rule: Rule) -> dict[str, object]:
    threshold = threshold_text(rule)
    return {
        "label": rule.label,
        "path": rule.path,
        "calls": call_types_text(rule.call_types),
        "sizes": size_range_text(rule.size_range),
        "measure": rule.measurement.value,
        # a number is written without quotes
        "threshold": int(threshold) if threshold.isdigit() else threshold,
    }


def _compose(text: str, problems: Problems) -> yaml.Node | None:
    """Return the document's root node, None if it is empty. Raises InvalidFileError.

    The events are checked first, to refuse what could make the composer recurse or expand without
    limit.
    """
    try:
        for where, what in _refused_events(text):
            problems.add(where, what)
        if not problems:
            return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        what = ", ".join(filter(None, (error.context, error.problem)))
        problems.add(_line(error.problem_mark), f"invalid YAML: {printable(what)}")
    except yaml.reader.ReaderError as error:
        where = f"line {text.count(chr(10), 0, error.position) + 1}"
        problems.add(where, f"invalid character, code {error.character}")
    except (ValueError, OverflowError):  # PyYAML does not catch them: chr() of "\UFFFFFFFF"
        problems.add("the file", "invalid YAML: an escape or a version number is out of range")
    raise problems.error()


def _refused_events(text: str) -> Iterator[tuple[str, str]]:
    """Yield the position of everything that no contract needs, and a message; stop at a limit."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        where = _line(event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            yield where, "nested too deeply for a contract"
            return
        if number == _MAX_EVENTS:
            yield where, "too many entries for a contract"
            return
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            yield where, f"{quoted(event.anchor)}: anchors and aliases are not supported"
        tag = getattr(event, "tag", None)
        if tag is not None:
            yield where, f"{quoted(tag)}: tags are not supported"


def _mapping(
    node: yaml.Node | None, where: str, known: tuple[str, ...], problems: Problems
) -> dict[str, yaml.Node] | None:
    """Return the entries of a mapping; add a problem and return None for another kind of node."""
    place = where or "the file"
    if not isinstance(node, yaml.MappingNode):
        problems.add(place, f"must be a mapping of {', '.join(known)}, not {_kind(node)}")
        return None
    entries: dict[str, yaml.Node] = {}
    for key_node, value in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
        if key is None:
            problems.add(place, f"a key must be text, not {_kind(key_node)}")
        elif key not in known:
            remedy = suggestion(key, known) or f"use {', '.join(known)}"
            problems.add(place, f"unknown key {quoted(key)}; {remedy}")
        elif key in entries:
            problems.add(_join(where, key), "appears twice")
        else:
            entries[key] = value
    return entries


def _rules(top: dict[str, yaml.Node], problems: Problems) -> Iterator[WrittenRule]:
    node = top.get("rules")
    if node is None:
        problems.add("rules", "is missing")
    elif not isinstance(node, yaml.SequenceNode):
        problems.add("rules", f"must be a list of rules, not {_kind(node)}")
    else:
        for index, rule in enumerate(node.value):
            where = f"rules[{index}]"
            entries = _mapping(rule, where, _RULE_KEYS, problems)
            if entries is not None:
                yield _written_rule(entries, where, problems)


def _written_rule(entries: dict[str, yaml.Node], where: str, problems: Problems) -> WrittenRule:
    label, path, calls, sizes, measure, threshold = (
        _text(entries, key, where, problems) for key in _RULE_KEYS
    )
    return WrittenRule(
        where=where,
        label=label,
        path=path,
        call_types=calls,
        size_range=sizes,
        measurement=measure,
        threshold=threshold,
    )


def _text(
    entries: dict[str, yaml.Node], key: str, where: str, problems: Problems
) -> Written | None:
    """Return the text of a key as written; add a problem and return None if there is none."""
    place = _join(where, key)
    node = entries.get(key)
    if node is None and key in _OPTIONAL_KEYS:
        return Written(_OPTIONAL_KEYS[key], place)
    if node is None:
        problems.add(place, "is missing")
        return None
    if not isinstance(node, yaml.ScalarNode) or not node.value:
        problems.add(place, f"must be text, not {_kind(node)}")
        return None
    return Written(node.value, place)


def _line(mark: Any) -> str:
    """The line of a mark (PyYAML's own or libyaml's)."""
    return "the file" if mark is None else f"line {mark.line + 1}"


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _kind(node: yaml.Node | None) -> str:
    """The kind of a node, in words."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "text" if node is not None and node.value else "empty"
