# SPDX-License-Identifier: Apache-2.0
"""The files with which a node knows its roll-out; every engine writes the same ones.

A record has what `MARKER` says; its settings are those of the plan, in both arms: on a treated node
they must be in force, and on one of the control arm they must not. `NODE_FILE` has the name by
which a node votes, so an engine that finds none makes one. What a revert needs is on the node: the
values it had, and the file that was replaced.
"""

from __future__ import annotations

import json

from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.rollout.plan import RolloutPlan

STATE = "/var/lib/writewise"
MARKER = "rollout.json"
#: The node's name in its records, and a hash that ties it to the machine.
NODE_FILE, NODE_MACHINE_FILE = "node-id", "node-id.machine"


def marker_text(plan: RolloutPlan, stage: int, arm: str) -> str:
    """Return the content of `MARKER`."""
    settings = plan.change.sysctl_values
    return json.dumps({"id": plan.id, "stage": stage, "arm": arm, "settings": settings}) + "\n"


def originals_name(plan: RolloutPlan) -> str:
    """Return the file with the values that the node had, in the format of sysctl.conf(5)."""
    return f"rollout-{plan.id}-originals.conf"


def previous_name(plan: RolloutPlan) -> str:
    """Return the copy of the file that the settings replaced, if there was one."""
    return f"rollout-{plan.id}-previous.conf"


def saved_sysctls(plan: RolloutPlan) -> list[tuple[str, ...]]:
    """Return what the node's values are kept of: pairs of ratio and bytes, and single names.

    Of a pair only the member that is in force can be written back: the kernel refuses a 0.
    """
    changed = set(plan.change.sysctl_values)
    pairs = [pair for pair in (DIRTY_PAIR, BACKGROUND_PAIR) if changed & set(pair)]
    paired = {name for pair in pairs for name in pair}
    return [*pairs, *((name,) for name in BY_NAME if name in changed - paired)]
