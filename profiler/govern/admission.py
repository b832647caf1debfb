# SPDX-License-Identifier: Apache-2.0
"""Whose bursts count: the control groups and the program names of `--admit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.shared.errors import UsageError
from contracts.shared.text import is_unprintable, quoted

#: The kernel keeps so many bytes of a program's name (TASK_COMM_LEN less the end, sched.h).
COMM_BYTES = 15
_FORM = "use cgroup=/PATH or comm=NAME"


@dataclass(frozen=True)
class Admission:
    """Paths of control groups, and names of programs; both empty: every program counts."""

    cgroups: tuple[str, ...] = ()
    comms: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether only some programs count."""
        return bool(self.cgroups or self.comms)

    @property
    def words(self) -> tuple[str, ...]:
        """What the options were."""
        return (*(f"cgroup={each}" for each in self.cgroups), *(f"comm={c}" for c in self.comms))


def admission(words: Sequence[str]) -> Admission:
    """Return what the words of `--admit` admit. Raises UsageError."""
    found: dict[str, dict[str, None]] = {"cgroup": {}, "comm": {}}
    for word in words:
        kind, _, value = word.partition("=")
        if kind == "cgroup":
            found[kind][_path(value)] = None
        elif kind == "comm":
            found[kind][_name(value)] = None
        else:
            raise UsageError(f"--admit {quoted(word)} names no writers", _FORM)
    return Admission(tuple(found["cgroup"]), tuple(found["comm"]))


def _path(path: str) -> str:
    names = path.rstrip("/").split("/")
    if not path.startswith("/") or len(names) < 2:
        raise UsageError(
            f"--admit cgroup={quoted(path)} is not the path of a control group",
            "use the path as in /proc/PID/cgroup, such as /system.slice/pull.service",
        )
    if any(name in ("", ".", "..") for name in names[1:]) or any(map(is_unprintable, path)):
        raise UsageError(
            f"--admit cgroup={quoted(path)} has a part that is empty, `.`, `..` or unprintable",
            "use the path as in /proc/PID/cgroup",
        )
    return "/".join(names)


def _name(name: str) -> str:
    if not name or any(map(is_unprintable, name)):
        raise UsageError(f"--admit comm={quoted(name)} is not a program's name", _FORM)
    if len(name.encode()) > COMM_BYTES:
        kept = name.encode()[:COMM_BYTES].decode(errors="ignore")
        raise UsageError(
            f"--admit comm={quoted(name)} matches nothing: the kernel keeps {COMM_BYTES} bytes",
            f"use comm={kept}, which /proc/PID/comm has",
        )
    return name
