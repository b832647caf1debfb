# SPDX-License-Identifier: Apache-2.0
"""Whose calls a profile counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ProfileTarget(Enum):
    """What was named: a command, a process with all that it starts, or nothing."""

    COMMAND = "command"
    PROCESS = "process"
    HOST = "host"


@dataclass(frozen=True)
class ProfileScope:
    """A target, and the name and control group that its threads must have; None if any."""

    target: ProfileTarget = ProfileTarget.HOST
    comm: str | None = None
    cgroup: str | None = None


def restrictions(comm: str | None, cgroup: str | None) -> list[str]:
    """Return in words which threads of the target count alone; none if all do."""
    named = {"threads named": comm, "in control group": cgroup}
    return [f"{what} {name}" for what, name in named.items() if name]
