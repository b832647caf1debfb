# SPDX-License-Identifier: Apache-2.0
"""What the engines share: the format of one, the head of its files, the settings' file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.shared.units import counted
from sysctl.render.comments import bytes_warning, evidence_lines, wrapped
from sysctl.render.installed import (
    InstalledFile,
    all_but_sysctls_left_out,
    installed_files,
)
from sysctl.render.snippet import TITLE, InexpressibleError, Snippet
from sysctl.render.sysctl_d import PATH
from sysctl.rollout.plan import RolloutPlan

STEM = "rollout"
_BEGINNING = 100


@dataclass(frozen=True)
class EngineFormat:
    """An engine by name; `render` returns its files. Raises InexpressibleError."""

    name: str
    render: Callable[[RolloutPlan], tuple[Snippet, ...]]


def is_of_an_engine(content: bytes) -> bool:
    """Return whether a file is one of ours, by the title in one of its first lines."""
    return TITLE.encode() in content[:_BEGINNING]


def settings_file(plan: RolloutPlan) -> InstalledFile:
    """Return the sysctl.d file of a treated node. Raises InexpressibleError."""
    for file in installed_files(plan.change):
        if file.path == PATH:
            return file
    raise InexpressibleError(
        "the recommendation changes no sysctl, so there is nothing to roll out"
    )


def head(plan: RolloutPlan, what: str, use: Sequence[str]) -> list[str]:
    """Return the comment lines of an engine's file."""
    shares = ", ".join(
        f"{number}: {stage.share:.4g}" for number, stage in enumerate(plan.stages, 1)
    )
    return [
        f"{TITLE}{what}",
        "",
        *wrapped(
            f"Roll-out {plan.id} of {plan.created_at}, {counted(plan.nodes, 'node')}.",
            f"Treated shares by stage: {shares}. Control arm: {plan.control:.4g}.",
        ),
        *_class_lines(plan),
        *bytes_warning(plan.change.sysctl_values),
        "",
        *evidence_lines(plan.change),
        *all_but_sysctls_left_out(plan.change),
        "",
        *use,
    ]


def _class_lines(plan: RolloutPlan) -> list[str]:
    """Return for which nodes it is, if it is not for all."""
    if plan.class_key is None:
        return []
    return wrapped(
        f"Only for nodes of the class {plan.class_key}:",
        "no other node may get this file. The gate judges the roll-out by this class alone.",
    )
