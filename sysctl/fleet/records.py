# SPDX-License-Identifier: Apache-2.0
"""Claims as plain data, which are read without trusting them: other nodes write them, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sysctl.fleet.claims import MAX_FINALISTS, Claim, ClaimKind, ClaimState, Record
from sysctl.fleet.spec import MAX_BLOCKS
from sysctl.fleet.summary import RunSummary, runs_from_json
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import BY_NAME

_NODE = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_MOST_ATTEMPTS = 10**6


def is_node_name(text: object) -> bool:
    """Return whether a text can be the name of a node: part of a result's name."""
    return isinstance(text, str) and _NODE.fullmatch(text) is not None


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """Return the claim as plain data for the ledger and for the result."""
    return {
        "kind": claim.kind.value,
        "settings": [setting.values for setting in claim.settings],
        "node": claim.node,
        "replicate": claim.replicate,
        "attempt": claim.attempt,
    }


def claim_from_json(data: object) -> Claim:
    """Return the claim of a document of `claim_to_json`. Raises ValueError."""
    if not isinstance(data, dict) or data.keys() != _FIELDS:
        raise ValueError(f"a claim has the fields {', '.join(sorted(_FIELDS))}")
    settings = data["settings"]
    if not isinstance(settings, list) or not 0 < len(settings) <= MAX_FINALISTS:
        raise ValueError(f"a claim has 1 to {MAX_FINALISTS} settings")
    if not is_node_name(data["node"]):
        raise ValueError(f"invalid node {data['node']!r:.60}")
    return Claim(
        kind=ClaimKind(data["kind"]),
        settings=tuple(map(_setting, settings)),
        node=data["node"],
        replicate=_number(data["replicate"], 0, MAX_BLOCKS - 1),
        attempt=_number(data["attempt"], 1, _MOST_ATTEMPTS),
    )


_FIELDS = {"kind", "settings", "node", "replicate", "attempt"}


def _number(value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r:.40} is not a number from {low} to {high}")
    return value


def _setting(data: object) -> Setting:
    """Return a setting of sysctls; the node's own limits are checked before it is applied."""
    if not isinstance(data, dict) or not 0 < len(data) <= len(BY_NAME):
        raise ValueError("a setting is an object with values of sysctls")
    for name, value in data.items():
        knob = BY_NAME.get(name)
        if knob is None or type(value) is not int or not knob.minimum <= value <= knob.maximum:
            raise ValueError(f"invalid value of a sysctl: {name!r:.60}={value!r:.40}")
    return Setting(tuple(data.items()))


def record_of(claim: object, state: ClaimState, runs: object, is_late: object = False) -> Record:
    """Return the record of plain data. Raises ValueError or TypeError."""
    parsed = claim_from_json(claim)
    found: tuple[RunSummary, ...] = ()
    if state is ClaimState.TOLD:
        found = runs_from_json(runs, len(parsed.settings))
    return Record(parsed, state, found, bool(is_late))


def runs_to_json(runs: Sequence[RunSummary]) -> list[Any]:
    """Return the runs as plain data for the ledger."""
    return [run.to_json() for run in runs]
