# SPDX-License-Identifier: Apache-2.0
"""What must not get worse on treated nodes, each as data.

A time is compared by the ratio of treated to control nodes, an event by how many nodes have it.
`limit` is what is harmless: of a time the ratio, of an event what one node may have without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sysctl.rollout.outcomes import NodeOutcome


@dataclass(frozen=True)
class TimeGuardrail:
    """A time of a node's pulls, in s; None if the node has none."""

    name: str
    what: str
    seconds: Callable[[NodeOutcome], float | None]
    limit: float = 1.0


@dataclass(frozen=True)
class EventGuardrail:
    """What a node has that it should not have; None if that is unknown."""

    name: str
    what: str
    value: Callable[[NodeOutcome], float | None]
    limit: float = 0.0


def _failed_share(outcome: NodeOutcome) -> float | None:
    tried = max(outcome.pulls, outcome.failed_pulls)
    return outcome.failed_pulls / tried if tried else None


def _pressure_share(outcome: NodeOutcome) -> float | None:
    if outcome.memory_psi_full_s is None or not (outcome.return_s and outcome.pulls):
        return None
    return outcome.memory_psi_full_s / (outcome.return_s * outcome.pulls)


RETURN_TIME = TimeGuardrail("return_time", "time to return", lambda each: each.return_s)
TIMES = (
    RETURN_TIME,
    TimeGuardrail("durable_time", "time to durable", lambda each: each.durable_s),
)
AT_RISK = EventGuardrail(
    "peak_at_risk",
    "more data at risk than the limit",
    lambda each: each.peak_at_risk_bytes,
)
EVENTS = (
    EventGuardrail("failed_pulls", "a share of failed pulls above the limit", _failed_share, 0.01),
    EventGuardrail("oom_kills", "OOM kills", lambda each: each.oom_kills),
    EventGuardrail(
        "memory_pressure",
        "a share of the pulls' time with all tasks waiting for memory above the limit",
        _pressure_share,
        0.01,
    ),
    AT_RISK,
    EventGuardrail("silent", "no record any more", lambda each: float(not each.reported)),
)
#: The share of treated nodes on which the settings may not be in force, and that of nodes whose
#: records contradict the plan.
NOT_IN_FORCE, CONTRADICTING = "not_in_force", "contradicting"
SHARES = {NOT_IN_FORCE: 0.05, CONTRADICTING: 0.05}
BY_NAME: dict[str, TimeGuardrail | EventGuardrail] = {each.name: each for each in (*TIMES, *EVENTS)}
NAMES = (*BY_NAME, *SHARES)
#: Tests of which each may raise a false alarm.
HARM_TESTS = len(BY_NAME)


def exceeds(guardrail: EventGuardrail, outcome: NodeOutcome, limit: float) -> bool | None:
    """Return whether the node had the event; None if that is unknown."""
    value = guardrail.value(outcome)
    return None if value is None else value > limit
