# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the YAML syntax, for editors; `schema.json` in this folder is its text.

It is generated from the model, so it has the same words, units and limits. `yaml_file.parse` also
checks what a schema cannot express (a figure above 2^64 - 1, a path longer than the kernel accepts,
a label used twice). It refuses whatever the schema refuses, except unusual spellings of `/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from contracts.fields import MAX_LABEL_CHARACTERS, MAX_PATH_BYTES
from contracts.model import (
    MAX_RULES,
    MOVES_BYTES,
    OF_SOCKETS,
    RESOURCES,
    CallType,
    Measurement,
    Quantity,
)
from contracts.shared import units
from contracts.vocabulary import NO_CALLS

_Schema = dict[str, Any]


def _any_of(words: Iterable[str]) -> str:
    return f"({'|'.join(words)})"


_SIZE_UNIT = _any_of((*units.BYTES_PER_UNIT, *units.BYTES_PER_SHORT_UNIT))
_NUMBER, _ZERO = r"[0-9]{1,20}(\.[0-9]{1,9})?", r"0+(\.0+)?"
_SIZE = f"{_NUMBER}{_SIZE_UNIT}"
_LATENCY = f"{_NUMBER}{_any_of(units.NS_PER_UNIT)}"
_TIMEFRAME = f"{_NUMBER}{_any_of((*units.NS_PER_UNIT, *units.NS_PER_LONG_UNIT))}"
_COUNT = f"[0-9]{{1,20}}{_any_of(units.COUNT_PER_UNIT)}"
_SIZES = rf"^(all|({_SIZE})?[ \t]*-[ \t]*({_SIZE})?)$"
_ALL_SIZES = rf"^(all|({_ZERO}{_SIZE_UNIT})?[ \t]*-)$"
_NOT_CONTROL, _NOT_CONTROL_OR_BLANK = r"[^\x00-\x1f\x7f]", r"[^ \x00-\x1f\x7f]"
_LABEL = f"^(?!#){_NOT_CONTROL_OR_BLANK}({_NOT_CONTROL}*{_NOT_CONTROL_OR_BLANK})?$"
_PATH = rf"^/(?!(.*/)?\.\.(/|$))({_NOT_CONTROL}*{_NOT_CONTROL_OR_BLANK})?$"
_TYPE = _any_of(call_type.value for call_type in CallType)
_MOVER = _any_of(call_type.value for call_type in MOVES_BYTES)
#: Two or more types, none of them repeated.
_JOINED = rf"^(?!(.*\+)?(\w+)(\+.*)?\+\2(\+|$)){_TYPE}(\+{_TYPE})+$"
_MOVING = rf"^{_MOVER}(\+{_MOVER})*$"
_WITH_SOCKETS = rf"(^|\+){_any_of(call_type.value for call_type in OF_SOCKETS)}(\+|$)"


def contract_schema() -> _Schema:
    """The schema (JSON Schema draft 2020-12) as plain data."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Writewise contract",
        "description": "What to measure and which values are too large.",
        "type": "object",
        "required": ["timeframe", "rules"],
        "additionalProperties": False,
        "properties": {
            "timeframe": {
                "description": "The time that one value covers, such as 10s.",
                "type": "string",
                "pattern": f"^(?!{_ZERO}[a-z]){_TIMEFRAME}$",
            },
            "rules": {
                "description": "Each rule limits one value.",
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_RULES,
                "items": _rule(),
            },
        },
    }


def schema_text() -> str:
    """The schema as JSON text: the content of `schema.json`, printed by `contract schema`."""
    return json.dumps(contract_schema(), indent=2) + "\n"


def _rule() -> _Schema:
    properties = {
        "label": _label(),
        "path": _path(),
        "calls": _calls(),
        "sizes": _sizes(),
        "measure": _measure(),
        "threshold": _threshold(),
    }
    return {
        "type": "object",
        "required": [name for name in properties if name != "sizes"],
        "additionalProperties": False,
        "properties": properties,
        "allOf": [*_units_of_thresholds(), *_matches()],
    }


def _label() -> _Schema:
    return {
        "description": "The name of the rule in reports; different in every rule.",
        "type": ["string", "number", "boolean"],
        "maxLength": MAX_LABEL_CHARACTERS,
        "pattern": _LABEL,
    }


def _path() -> _Schema:
    return {
        "description": "The directory or file to measure; / is every mounted file system.",
        "type": "string",
        "maxLength": MAX_PATH_BYTES,
        "pattern": _PATH,
    }


def _calls() -> _Schema:
    return {
        "description": (
            "A type of calls or several joined with +, such as read+write; "
            f"{NO_CALLS} if the rule measures memory or CPU time."
        ),
        "anyOf": [
            {"enum": [*(call_type.value for call_type in CallType), NO_CALLS]},
            {"type": "string", "pattern": _JOINED},
        ],
    }


def _sizes() -> _Schema:
    return {
        "description": "all, or the bytes moved by a call, both ends included: 1KiB-1MiB, -4KiB.",
        "type": "string",
        "default": "all",
        "pattern": _SIZES,
    }


def _measure() -> _Schema:
    return {
        "description": "The value that is compared with the threshold.",
        "enum": [measurement.value for measurement in Measurement],
    }


def _threshold() -> _Schema:
    return {
        "description": (
            "The largest value that does not violate the rule, a whole number with a unit: "
            "a size such as 10MiB, a time such as 30ms, a count such as 10k."
        ),
        "type": ["string", "integer"],
    }


def _units_of_thresholds() -> list[_Schema]:
    """The unit of the threshold for each kind of measurement."""
    thresholds: dict[Quantity, _Schema] = {
        Quantity.SIZE: {"type": "string", "pattern": f"^{_SIZE}$"},
        Quantity.LATENCY: {"type": "string", "pattern": f"^{_LATENCY}$"},
        Quantity.COUNT: {"pattern": f"^{_COUNT}$", "minimum": 0, "maximum": units.MAX_VALUE},
    }
    return [
        _if(_is_one_of(_of(quantity)), {"threshold": threshold})
        for quantity, threshold in thresholds.items()
    ]


def _matches() -> list[_Schema]:
    """Which fields may be combined, as `fields` checks it."""
    moving = {"calls": {"pattern": _MOVING}}
    some_sizes = {"sizes": {"not": {"pattern": _ALL_SIZES}}}
    nothing = {
        "calls": {"const": NO_CALLS},
        "sizes": {"pattern": _ALL_SIZES},
        "path": {"const": "/"},
    }
    of_calls = [word for word in Measurement if word.is_of_calls]
    return [
        _if(_is_one_of(RESOURCES), nothing),
        _if(_is_one_of(of_calls), {"calls": {"not": {"const": NO_CALLS}}}),
        _if(_is_one_of([Measurement.SEEK_DISTANCE]), {"calls": {"const": CallType.SEEK.value}}),
        _if(_is_one_of([Measurement.BANDWIDTH]), moving),
        _if({**_is_one_of(of_calls), **some_sizes}, moving),
        _if({"calls": {"pattern": _WITH_SOCKETS}}, {"path": {"const": "/"}}),
    ]


def _if(condition: _Schema, consequence: _Schema) -> _Schema:
    """Require `consequence` of a rule whose properties are present and match `condition`."""
    return {
        "if": {"required": list(condition), "properties": condition},
        "then": {"properties": consequence},
    }


def _of(quantity: Quantity) -> list[Measurement]:
    return [measurement for measurement in Measurement if measurement.quantity is quantity]


def _is_one_of(measurements: Iterable[Measurement]) -> _Schema:
    return {"measure": {"enum": [measurement.value for measurement in measurements]}}
