# SPDX-License-Identifier: Apache-2.0
"""A plan as cloud-init user data, one file a stage, for nodes that start during the roll-out.

A new node computes its arm at its first boot, so it is treated exactly if its stage is. The launch
template gets the file of the present stage, and after a revert none.
"""

from __future__ import annotations

from sysctl.render.cloud_init import MAGIC, checked_size
from sysctl.render.comments import comment
from sysctl.render.snippet import Snippet
from sysctl.render.yaml_text import Command, dump
from sysctl.rollout.engines.format import STEM, EngineFormat, head
from sysctl.rollout.engines.node_script import stage_script, sysctl_actions
from sysctl.rollout.plan import RolloutPlan

#: Removed by itself: /run does not outlive a boot.
_SCRIPT = "/run/writewise-rollout.sh"


def file_name(number: int) -> str:
    """Return the name of the file of a stage."""
    return f"{STEM}-stage-{number}.cloud-config.yaml"


def render(plan: RolloutPlan) -> tuple[Snippet, ...]:
    """Return a file for each stage. Raises InexpressibleError."""
    return tuple(_stage(plan, number) for number in range(1, len(plan.stages) + 1))


def _stage(plan: RolloutPlan, number: int) -> Snippet:
    use = (
        f"To use:   while stage {number} is the present one, as user data of new nodes:",
        f"          aws ec2 run-instances … --user-data file://{file_name(number)}",
        "To undo:  remove it from the launch template; running nodes are reverted by another",
        "          engine, such as the revert playbook.",
    )
    lines = head(plan, f"user data for nodes that start during stage {number}.", use)
    script = "".join(f"{line}\n" for line in stage_script(plan, number, sysctl_actions(plan)))
    document = {
        "write_files": [
            {"path": _SCRIPT, "owner": "root:root", "permissions": "0700", "content": script}
        ],
        "runcmd": [Command(("sh", _SCRIPT))],
    }
    text = MAGIC + comment(lines) + "\n" + dump(document)
    return Snippet(file_name(number), checked_size(text))


FORMAT = EngineFormat("cloud-init", render)
