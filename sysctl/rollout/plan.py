# SPDX-License-Identifier: Apache-2.0
"""A roll-out as data: what is rolled out, to which shares of the nodes, and when it must stop.

The id is a hash of everything else in the plan. So a plan that was edited has another id, its file
is refused, and no node can have settings of one plan under the id of another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from sysctl.change.class_text import ANY_CLASS, is_class_text
from sysctl.change.recommendation import RecommendedChange
from sysctl.rollout import guardrails
from sysctl.rollout.group_sequential import margin_for, votes_needed

FORMAT = "writewise-rollout"
#: Of a plan for nodes of all classes, and of one for a single class, which earlier versions of
#: Writewise must not read: they would judge it by all nodes.
VERSION_OF_ALL, VERSION_OF_CLASS = 1, 2
FILE_NAME, CLASS_FIELD = "rollout.json", "class"
ID_DIGITS = 12
#: Shares of the nodes. The last stage gets all nodes but those of the control arm.
DEFAULT_SHARES = (0.001, 0.01, 0.1, 0.5)
#: The probability that a harmless change is reverted, over all stages and guardrails, and that a
#: stage promotes a change that is slower than its margin.
ALPHA = 0.05
POWER = 0.99
#: The relative deviation between nodes that sizes are computed with, and the rise of the time to
#: return that a stage excludes if it is large enough.
DEVIATION, MARGIN = 0.2, 0.05
#: Each stage is looked at when it has these shares of its votes.
LOOKS = (1 / 3, 2 / 3, 1.0)
#: Of the expected nodes so many have to vote: some are off or have nothing to pull.
_TURNOUT = 0.8
_SMALLEST_STAGE, _LARGEST_CONTROL, _CONTROL_NODES = 5, 0.2, 100
_DEFAULT_CONTROL = 0.05
_SILENT_AFTER_S = 2 * 86_400


@dataclass(frozen=True)
class Stage:
    """One stage: the share of nodes that is treated by its end, and what promotes it.

    `votes` are pairs of votes (`anytime.ArmDifference.votes`). With them a rise of the time to
    return by `margin` is excluded with a power of 99 % if there is none.
    """

    share: float
    votes: int
    margin: float


@dataclass(frozen=True)
class RolloutPlan:
    """The plan. `control` is the share that is never treated; `nodes` how many there are.

    `class_key` is the class of nodes that it is for, None for nodes of all classes. `limits` are
    those of the guardrails by name. A node without a record for `silent_after_s` counts as harmed.
    """

    id: str
    created_at: str
    change: RecommendedChange
    nodes: int
    control: float
    stages: tuple[Stage, ...]
    limits: Mapping[str, float]
    looks: tuple[float, ...] = LOOKS
    silent_after_s: float = _SILENT_AFTER_S
    class_key: str | None = None

    @property
    def created_s(self) -> float:
        """When it was made, in seconds since 1970."""
        return datetime.fromisoformat(self.created_at).timestamp()

    @property
    def alpha_of_each(self) -> float:
        """The probability of a false alarm that each test of a stage may have."""
        return ALPHA / (len(self.stages) * guardrails.HARM_TESTS)

    def stage(self, number: int) -> Stage:
        """Return a stage by its number, from 1. Raises UsageError."""
        if not 1 <= number <= len(self.stages):
            raise UsageError(
                f"the plan has no stage {number}", f"use a number from 1 to {len(self.stages)}"
            )
        return self.stages[number - 1]

    def to_json(self) -> dict[str, Any]:
        """Return the document of the plan's file."""
        version = VERSION_OF_ALL if self.class_key is None else VERSION_OF_CLASS
        return {"format": FORMAT, "version": version, "id": self.id, **self._content()}

    def _content(self) -> dict[str, Any]:
        stages = [vars(stage) for stage in self.stages]
        of_class = {} if self.class_key is None else {CLASS_FIELD: self.class_key}
        return {
            "created_at": self.created_at,
            **of_class,
            "nodes": self.nodes,
            "control": self.control,
            "stages": stages,
            "looks": list(self.looks),
            "limits": dict(self.limits),
            "silent_after_s": self.silent_after_s,
            "recommendation": self.change.to_json(),
        }

    def with_id(self) -> RolloutPlan:
        """Return the plan with the id of its content."""
        return replace(self, id=digest(self._content()))


def digest(content: Mapping[str, Any]) -> str:
    """Return the id of a document without its id, format and version."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def make_plan(
    change: RecommendedChange,
    nodes: int,
    shares: Sequence[float] | None = None,
    control: float | None = None,
    now: datetime | None = None,
    class_key: str | None = None,
) -> RolloutPlan:
    """Return a plan for that many nodes.

    Without `shares` they are `DEFAULT_SHARES` as far as a stage has a few nodes. Without a
    `class_key` it is for the class of the recommendation; `any` is for nodes of all classes. Raises
    UsageError.
    """
    of_class = _class_of(change, class_key)
    kept = _control_share(nodes) if control is None else control
    last = 1 - kept
    wanted = [share for share in DEFAULT_SHARES if share * nodes >= _SMALLEST_STAGE]
    all_shares = [*(wanted if shares is None else shares), last]
    _check_shares(all_shares, kept, nodes)
    created = (now or datetime.now(timezone.utc)).isoformat(timespec="seconds")
    stages = tuple(_stage(share, kept, nodes) for share in dict.fromkeys(all_shares))
    plan = RolloutPlan(
        "", created, change, nodes, kept, stages, _limits(change), class_key=of_class
    )
    return plan.with_id()


def _class_of(change: RecommendedChange, asked: str | None) -> str | None:
    """Return the class that a plan is for; None for all. Raises UsageError."""
    measured = change.evidence.class_key or ANY_CLASS
    wanted = measured if asked is None else asked
    if not is_class_text(wanted):
        raise UsageError(
            f"invalid class {quoted(wanted)}",
            "copy it from `writewise fleet report` or `writewise study status`",
        )
    if ANY_CLASS not in (measured, wanted) and measured != wanted:
        raise UsageError(
            f"the recommendation was measured for the class {measured}",
            f"omit --class, or use --class {ANY_CLASS} to roll it out to nodes of all classes",
        )
    return None if wanted == ANY_CLASS else wanted


def _control_share(nodes: int) -> float:
    """Return 5 %, and more in a small fleet so that the control arm has votes enough."""
    return min(_LARGEST_CONTROL, max(_DEFAULT_CONTROL, _CONTROL_NODES / max(1, nodes)))


def _check_shares(shares: Sequence[float], control: float, nodes: int) -> None:
    if not 0 < control < 1 or control * nodes < _SMALLEST_STAGE:
        raise UsageError(
            f"a control arm of {control:.2%} of {nodes} nodes has too few nodes to compare with",
            f"use a share with at least {_SMALLEST_STAGE} nodes",
        )
    if any(later < earlier for earlier, later in zip(shares, shares[1:])) or shares[0] <= 0:
        raise UsageError(
            "the shares of the stages do not increase up to all nodes but the control arm",
            "use shares such as 0.1%,1%,10%,50%",
        )
    if shares[0] * nodes < 2:
        raise UsageError(
            f"the first stage would have {shares[0] * nodes:.1f} nodes, and needs at least 2",
            "use a larger first stage, or the right number with --nodes",
        )


def _stage(share: float, control: float, nodes: int) -> Stage:
    """Return the stage with the smallest margin, from 5 %, that its nodes can exclude."""
    treated, kept = (_TURNOUT * part * nodes for part in (share, control))
    possible = 1 / (1 / treated + 1 / kept)
    wanted = votes_needed(DEVIATION, MARGIN, ALPHA, POWER)
    if possible >= wanted:
        return Stage(share, wanted, MARGIN)
    votes = max(1, int(possible))
    return Stage(share, votes, round(margin_for(DEVIATION, votes, ALPHA, POWER), 3))


def _limits(change: RecommendedChange) -> dict[str, float]:
    """Return the limits: those of the guardrails, and what was measured of this change."""
    limits = {each.name: each.limit for each in guardrails.BY_NAME.values()}
    limits.update(guardrails.SHARES)
    limits[guardrails.AT_RISK.name] = float(change.evidence.ceiling_bytes)
    before, after = change.evidence.present.durable_s, change.evidence.recommended.durable_s
    measured = after / before if before and after else 1.0  # later by so much is what was chosen
    # one host showed it, by a few runs: without a margin, each better figure of the fleet is harm
    limits["durable_time"] = round(max(1.0, measured) * (1 + MARGIN), 3)
    return limits
