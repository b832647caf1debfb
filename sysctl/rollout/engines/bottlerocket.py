# SPDX-License-Identifier: Apache-2.0
"""A plan for Bottlerocket: the settings of a treated node group, and those that revert it.

Bottlerocket's user data has no conditions and its host no shell, so a node cannot compute its arm.
The operator gives the settings to a node group of the stage's size; the nodes' records have the
arm only if the container that writes them has the marker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sysctl.render.checked import sysctl_lines
from sysctl.render.comments import comment
from sysctl.render.snippet import InexpressibleError, Snippet
from sysctl.rollout.arms import TREATED
from sysctl.rollout.engines.format import STEM, EngineFormat, head
from sysctl.rollout.marker import MARKER, STATE, marker_text
from sysctl.rollout.plan import RolloutPlan

FILE_NAME, REVERT_NAME = f"{STEM}.bottlerocket.toml", f"{STEM}-revert.bottlerocket.toml"
_GROUPS = (
    "Bottlerocket's user data has no conditions: give these settings to a node group that has the",
    f"stage's share of the nodes. The gate knows its nodes if {STATE}/{MARKER}",
    "of the container that writes their records has this line, with the present stage and the arm:",
)


def render(plan: RolloutPlan) -> tuple[Snippet, ...]:
    """Return both files. Raises InexpressibleError."""
    if not plan.change.changes_sysctls:
        raise InexpressibleError("the recommendation changes no sysctl, so there is nothing to set")
    change = plan.change
    return (
        _file(plan, FILE_NAME, "settings of a treated node group.", change.sysctl_values),
        _file(plan, REVERT_NAME, "settings that revert a node group.", change.undo_values),
    )


def _file(plan: RolloutPlan, name: str, what: str, values: Mapping[str, int]) -> Snippet:
    sysctl_lines(values)  # raises for an unknown sysctl
    settings = {"kernel": {"sysctl": {key: str(value) for key, value in values.items()}}}
    use = (
        *_GROUPS,
        marker_text(plan, 1, TREATED).strip(),
        "",
        "To use:   add it to the node group's user data, or on a running node:",
        f"          apiclient set --json '{json.dumps(settings)}'",
        *(("These are the values of the measured host.",) if name == REVERT_NAME else ()),
    )
    lines = "".join(f'"{key}" = "{value}"\n' for key, value in values.items())
    text = comment(head(plan, what, use)) + f"\n[settings.kernel.sysctl]\n{lines}"
    return Snippet(name, text)


FORMAT = EngineFormat("bottlerocket", render)
