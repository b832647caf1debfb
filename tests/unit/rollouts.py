# SPDX-License-Identifier: Apache-2.0
"""Roll-outs for the tests: a plan, reports of nodes, and their outcomes."""

from __future__ import annotations

import math
import random
import subprocess
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from sysctl.rollout.arms import TREATED, WAITING, arm_of
from sysctl.rollout.engines.node_name import node_name_lines
from sysctl.rollout.gate import GateDecision, decide, tally, window_of
from sysctl.rollout.marker import NODE_FILE
from sysctl.rollout.outcomes import NodeReport, StageOutcomes, stage_outcomes
from sysctl.rollout.plan import RolloutPlan, make_plan
from tests.unit.changes import EVERYTHING

NOW = datetime(2026, 11, 24, 8, tzinfo=timezone.utc)
HOUR = 3600.0
#: Two classes of nodes of a fleet.
CLASS = "m5.large_gp3-3000-125_ext4-noatime_6.1_cgroup2_unlimited_direct_0123456789abcdef"
OTHER_CLASS = "m5.large_gp3-3000-125_ext4-noatime_6.12_cgroup2_unlimited_direct_fedcba9876543210"


def plan_for(nodes: int = 10_000, **rest) -> RolloutPlan:
    return make_plan(EVERYTHING, nodes, now=NOW, **rest)


def name_node(state: Path, node: str) -> None:
    """Give a node a name and tie it to this machine, as the first record would."""
    (state / NODE_FILE).write_text(f"{node}\n")
    text = "\n".join(["set -eu", 'state="$1"', *node_name_lines()])
    subprocess.run(["sh", "-c", text, "sh", str(state)], check=True)


def node_names(count: int, seed: int = 1) -> Iterator[str]:
    source = random.Random(seed)
    return (str(uuid.UUID(int=source.getrandbits(128), version=4)) for _ in range(count))


def report(node: str, plan: RolloutPlan, of_stage: int = 1, **rest) -> NodeReport:
    """Return what a healthy node of its own arm reports an hour after the plan was made."""
    arm = arm_of(node, plan.id, plan.stage(of_stage).share, plan.control)
    fields = {
        "node": node,
        "start_s": plan.created_s + HOUR,
        "rollout": None if arm == WAITING else plan.id,
        "stage": None if arm == WAITING else of_stage,
        "arm": None if arm == WAITING else arm,
        "pulls": 1,
        "failed_pulls": 0,
        "return_s": 60.0,
        "durable_s": 90.0,
        "peak_at_risk_bytes": 2**20,
        "oom_kills": 0,
        "memory_psi_full_s": 0.0,
        "verify": "in force" if arm == TREATED else "not applied",
        "class_key": CLASS,
    }
    return NodeReport(**{**fields, **rest})


def reports(
    plan: RolloutPlan, count: int, stage: int = 1, slower: float = 1.0, seed: int = 1, **treated
) -> list[NodeReport]:
    """Return reports with 20 % between nodes; `treated` are fields of treated nodes."""
    source = random.Random(seed)
    made = []
    for node in node_names(count, seed):
        each = report(node, plan, stage)
        factor = math.exp(source.gauss(0, 0.2)) * (slower if each.arm == TREATED else 1)
        rest = treated if each.arm == TREATED else {}
        start = plan.created_s + HOUR * source.random()
        made.append(report(node, plan, stage, start_s=start, return_s=60 * factor, **rest))
    return made


def outcomes_of(plan, listed, stage=1, later_s=2 * HOUR) -> StageOutcomes:
    return stage_outcomes(listed, window_of(plan, stage, plan.created_s + later_s))


def gate(plan, listed, stage=1, later_s=2 * HOUR) -> GateDecision:
    found = outcomes_of(plan, listed, stage, later_s)
    return decide(plan, stage, tally(found, plan, plan.stage(stage)))


def node_in(arm: str, plan: RolloutPlan, stage: int = 1) -> str:
    """Return a node of that arm."""
    share = plan.stage(stage).share
    return next(
        node for node in node_names(10_000, 7) if arm_of(node, plan.id, share, plan.control) == arm
    )
