# SPDX-License-Identifier: Apache-2.0
"""Reading a plan's file without trusting it: every problem at once, with its path.

The plan decides what is written as root on every node. The id must be the hash of the content, and
the content what a plan of `writewise rollout plan` may have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from contracts.shared.errors import InvalidFileError, UsageError
from contracts.shared.text import printable, quoted
from sysctl.change.class_text import ANY_CLASS, is_class_text
from sysctl.change.recommendation import RecommendedChange
from sysctl.change.recommendation_file import from_json
from sysctl.rollout import guardrails
from sysctl.rollout.plan import (
    CLASS_FIELD,
    FORMAT,
    VERSION_OF_ALL,
    VERSION_OF_CLASS,
    RolloutPlan,
    Stage,
    digest,
)

_HINT = "use the rollout.json that `writewise rollout plan` wrote"
_MAX_STAGES, _MAX_LOOKS, _MAX_NODES, _MAX_VOTES = 20, 10, 10**9, 10**9
_MAX_SILENCE_S = 366 * 86_400
_OF_ALL = frozenset(
    {
        *("created_at", "nodes", "control", "stages", "looks", "limits", "silent_after_s"),
        "recommendation",
    }
)
#: The fields by the version of the file.
_FIELDS = {VERSION_OF_ALL: _OF_ALL, VERSION_OF_CLASS: _OF_ALL | {CLASS_FIELD}}


def parse_plan(text: str, name: str) -> RolloutPlan:
    """Return the plan in `text`; `name` is for messages. Raises UsageError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a plan, or it is truncated: {error}", _HINT) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{name} is not a plan of `writewise rollout plan`", _HINT)
    version = document.get("version")
    if type(version) is not int or version not in _FIELDS:
        raise UsageError(
            f"{name} has version {quoted(str(version))}; this version of Writewise reads "
            f"{VERSION_OF_ALL} and {VERSION_OF_CLASS}",
            "use the version that wrote it",
        )
    content = {k: v for k, v in document.items() if k not in ("format", "version", "id")}
    problems = _problems(content, _FIELDS[version])
    if problems:
        raise InvalidFileError(name, problems)
    change = from_json(content["recommendation"], f"{name}: recommendation")
    _require_own_id(document.get("id"), content, name)
    return _plan(content, change, document["id"])


def _require_own_id(found: object, content: Mapping[str, Any], name: str) -> None:
    if found != digest(content):
        raise UsageError(
            f"{name} was changed after `writewise rollout plan` wrote it: its id does not fit",
            "make a new plan; nodes must not get other settings under the same id",
        )


def _plan(content: Mapping[str, Any], change: RecommendedChange, name: str) -> RolloutPlan:
    stages = (Stage(each["share"], each["votes"], each["margin"]) for each in content["stages"])
    return RolloutPlan(
        id=name,
        created_at=content["created_at"],
        change=change,
        nodes=content["nodes"],
        control=content["control"],
        stages=tuple(stages),
        limits=dict(content["limits"]),
        looks=tuple(content["looks"]),
        silent_after_s=content["silent_after_s"],
        class_key=content.get(CLASS_FIELD),
    )


def _problems(content: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Return every problem of the fields, apart from the recommendation."""
    unknown = [f"{printable(str(key))[:40]}: is unknown" for key in content if key not in known]
    missing = [f"{key}: is missing" for key in sorted(known - content.keys())]
    if unknown or missing:
        return [*unknown[:_MAX_STAGES], *missing]
    checks = {
        "created_at": (_is_time, "a time with its zone, such as 2026-11-24T08:00:00+00:00"),
        CLASS_FIELD: (_is_one_class, "the name of a class"),
        "nodes": (_is_whole(_MAX_NODES), f"a whole number from 1 to {_MAX_NODES}"),
        "control": (_is_share, "a number above 0 and below 1"),
        "stages": (_are_stages, "a list of stages: share, votes and margin"),
        "looks": (_are_looks, "a short list of increasing numbers up to 1"),
        "limits": (_are_limits, "the limit of each guardrail, and of no other"),
        "silent_after_s": (_is_between(60, _MAX_SILENCE_S), "a number of seconds from a minute on"),
    }
    found = [
        f"{name}: is not {what}"
        for name, (is_right, what) in checks.items()
        if name in known and not is_right(content[name])
    ]
    return found or _contradictions(content)


def _contradictions(content: Mapping[str, Any]) -> list[str]:
    shares = [stage["share"] for stage in content["stages"]]
    found = []
    if any(later <= earlier for earlier, later in zip(shares, shares[1:])):
        found.append("stages: the shares do not increase")
    if shares[-1] > 1 - content["control"] + 1e-12:
        found.append("stages: the last stage includes the control arm")
    return found


def _is_number(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]


def _is_between(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and low <= value <= high


def _is_whole(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 1 <= value <= most


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 < value < 1


def _is_one_class(value: object) -> bool:
    return is_class_text(value) and value != ANY_CLASS


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _are_stages(value: object) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= _MAX_STAGES and all(map(_is_stage, value))


def _is_stage(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"share", "votes", "margin"}
        and _is_share(value["share"])
        and _is_whole(_MAX_VOTES)(value["votes"])
        and _is_between(1e-6, 100)(value["margin"])
    )


def _are_looks(value: object) -> bool:
    return (
        isinstance(value, list)
        and 1 <= len(value) <= _MAX_LOOKS
        and all(_is_between(0.01, 1)(each) for each in value)
        and all(earlier < later for earlier, later in zip(value, value[1:]))
        and value[-1] == 1
    )


def _are_limits(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == set(guardrails.NAMES)
        and all(_is_between(0, 2.0**62)(each) for each in value.values())
        and all(value[each.name] >= 1 for each in guardrails.TIMES)
        and all(0 < value[name] < 1 for name in guardrails.SHARES)
    )
