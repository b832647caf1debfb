# SPDX-License-Identifier: Apache-2.0
"""What a shared study tries, as the ledger keeps it. Nothing in the ledger is trusted when read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from sysctl.change.class_text import is_class_text
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.search import Strategy
from sysctl.search.grid import build_grid
from sysctl.search.strategies import BAYES, GRID, RANDOM, make_strategy

FORMAT_VERSION = 1
#: The search of a shared study; edge search waits for each result, so it would keep nodes idle.
STRATEGIES = (GRID, RANDOM, BAYES)
MAX_VALUES, MAX_CANDIDATES = 100, 5000
MAX_NODES, MAX_BLOCKS = 1000, 12
#: Nodes of a recheck: with 8 the prediction is 28 % wider than with all nodes of the class.
DEFAULT_NODES, DEFAULT_BLOCKS = 8, 2
#: A setting under which this many nodes were lost is not tried again: it may be the cause.
MOST_LOST = 3
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True)
class StudySpec:
    """A study: its name, the text of its class (`ClassKey`), the values to combine, and how long.

    `present` are the current values of the sysctls with which settings are compared. A node with
    others is of another study. The recheck takes `nodes` nodes, each with `blocks` blocks of the
    order ABBA (two pairs). `seed` is that of the search. A setting is given up once `most_lost`
    claims of it were lost.
    """

    name: str
    class_key: str
    values: Mapping[str, tuple[int, ...]]
    present: Mapping[str, int]
    strategy: str = GRID
    seed: int = 0
    nodes: int = DEFAULT_NODES
    blocks: int = DEFAULT_BLOCKS
    most_lost: int = MOST_LOST

    @property
    def present_setting(self) -> Setting:
        """The current settings."""
        return Setting(tuple(sorted(self.present.items())))

    @cached_property
    def candidates(self) -> tuple[Setting, ...]:
        """The valid combinations of the values, without the current settings."""
        settings, _ = build_grid(self.values, self.present_setting, self._any_memory_bytes())
        return tuple(each for each in settings if not self._is_present(each))

    def _any_memory_bytes(self) -> int:
        """Return an amount of memory with which a ratio and bytes do not exclude each other.

        Each node checks that with its own memory.
        """
        named = self.values if set(DIRTY_PAIR) & set(self.values) else self.present
        return 1 if named.get(DIRTY_PAIR[1]) else 2**60

    def _is_present(self, setting: Setting) -> bool:
        return all(self.present.get(name) == value for name, value in setting.sysctls)

    def search(self) -> Strategy:
        """Return the search. Raises RequirementError if it needs a package that is missing."""
        return make_strategy(self.strategy, self.candidates, self.seed)

    def to_json(self) -> dict[str, Any]:
        """Return the document for the ledger."""
        values = {name: list(each) for name, each in self.values.items()}
        return {"version": FORMAT_VERSION, **asdict(self), "values": values}


def is_study_name(text: str) -> bool:
    """Return whether a text can be the name of a study: part of a path and of an object's key."""
    return _NAME.fullmatch(text) is not None


def kind_from(text: str) -> str:
    """Return a kind of nodes within a class. Raises ValueError."""
    if not _KIND.fullmatch(text):
        raise ValueError(f"invalid kind {text[:60]!r}; use lower-case letters, digits and hyphens")
    return text


def class_of_kind(class_key: str, kind: str | None) -> str:
    """Return the class of nodes of a kind, for a class that was split."""
    return f"{class_key}.{kind}" if kind else class_key


def spec_problems(data: object) -> Iterator[str]:
    """Yield every error of plain data that should be a study, each with its field."""
    if not isinstance(data, dict):
        yield "study: not an object"
        return
    known = {field.name for field in fields(StudySpec)} | {"version"}
    yield from (f"study: unknown field {name!r:.60}" for name in data if name not in known)
    missing = sorted(known - data.keys())
    yield from (f"study.{name}: missing" for name in missing)
    if missing:
        return
    if data["version"] != FORMAT_VERSION:
        yield f"study.version: {data['version']!r:.20} is not {FORMAT_VERSION}"
    if not (isinstance(data["name"], str) and is_study_name(data["name"])):
        yield f"study.name: invalid name {data['name']!r:.60}"
    if not is_class_text(data["class_key"]):
        yield f"study.class_key: invalid class {data['class_key']!r:.60}"
    if data["strategy"] not in STRATEGIES:
        yield f"study.strategy: not one of {', '.join(STRATEGIES)}"
    yield from _number_problems(data)
    yield from _value_problems(data["values"], data["present"])


_BOUNDS = {
    "seed": (0, 2**31 - 1),
    "nodes": (3, MAX_NODES),
    "blocks": (1, MAX_BLOCKS),
    "most_lost": (1, 10**6),
}


def _number_problems(data: Mapping[str, Any]) -> Iterator[str]:
    for name, (low, high) in _BOUNDS.items():
        value = data[name]
        if not (isinstance(value, int) and not isinstance(value, bool) and low <= value <= high):
            yield f"study.{name}: not a number from {low} to {high}"


def _value_problems(values: object, present: object) -> Iterator[str]:
    if not isinstance(values, dict) or not isinstance(present, dict) or not values or not present:
        yield "study.values, study.present: objects with values of sysctls are needed"
        return
    count = 1
    for name, chosen in values.items():
        if not isinstance(chosen, list) or not 0 < len(chosen) <= MAX_VALUES:
            yield f"study.values[{name!r:.60}]: not a list of 1 to {MAX_VALUES} numbers"
            continue
        count *= len(chosen)
        yield from (
            f"study.values[{name!r:.60}]: {why}" for each in chosen for why in _wrong(name, each)
        )
    for name, value in present.items():
        yield from (f"study.present[{name!r:.60}]: {why}" for why in _wrong(name, value))
    if count > MAX_CANDIDATES:
        yield f"study.values: {count} combinations, more than {MAX_CANDIDATES}"
    for pair in (DIRTY_PAIR, BACKGROUND_PAIR):
        if set(pair) <= values.keys():
            yield f"study.values: {pair[0]} and {pair[1]} set the same threshold"
        if set(pair) <= present.keys():
            yield f"study.present: {pair[0]} and {pair[1]} set the same threshold"


def _wrong(name: object, value: object) -> Iterator[str]:
    knob = BY_NAME.get(name) if isinstance(name, str) else None
    if knob is None:
        yield "not a write-back sysctl"
    elif type(value) is not int or not knob.minimum <= value <= knob.maximum:
        yield f"{value!r:.40} is not a number from {knob.minimum} to {knob.maximum}"


def spec_from_json(data: object) -> StudySpec:
    """Return the study of a document of `to_json`. Raises ValueError that names every error."""
    problems = list(spec_problems(data))
    if problems or not isinstance(data, dict):
        raise ValueError("; ".join(problems))
    known = {name: value for name, value in data.items() if name != "version"}
    values = {name: tuple(dict.fromkeys(each)) for name, each in data["values"].items()}
    spec = StudySpec(**{**known, "values": values})
    if not spec.candidates:
        raise ValueError("study.values: no valid combination differs from the current settings")
    return spec
