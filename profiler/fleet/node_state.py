# SPDX-License-Identifier: Apache-2.0
"""What every record says of its node: the host's counters, the roll-out, and what is in force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from contracts.shared.errors import WritewiseError
from contracts.shared.files import FileKind
from profiler.fleet.record import CHANGED, CONTROL, IN_FORCE, NOT_APPLIED, TREATED, RolloutArm
from profiler.watch.pressure import read_pressure
from sysctl.apply.compliance import check_compliance, wanted_by_applied
from sysctl.apply.history import read_history
from sysctl.host.host import state_directory
from sysctl.host.sysctls import read_sysctl, read_vmstat, whole_number
from sysctl.host.system import HostError, System
from sysctl.knobs.vm import BY_NAME
from sysctl.rollout.marker import MARKER

_ROLLOUT_FILE = FileKind("roll-out", 4096, "the roll-out's engine writes it")
_NS_PER_US = 1000


@dataclass(frozen=True)
class HostCounts:
    """What the host has counted since it booted; None if it does not count it."""

    oom_kills: int | None
    memory_psi_full_us: int | None

    def since(self, before: HostCounts) -> HostCounts:
        """Return the increase since an earlier reading."""
        return HostCounts(
            _increase(before.oom_kills, self.oom_kills),
            _increase(before.memory_psi_full_us, self.memory_psi_full_us),
        )


def counts_now(system: System) -> HostCounts:
    """Return the host's counters."""
    try:
        oom_kills = whole_number(read_vmstat(system)["oom_kill"], "oom_kill of /proc/vmstat")
    except (HostError, KeyError):
        oom_kills = None
    _, full_ns = read_pressure(Path(system.path("/proc/pressure/memory")))
    return HostCounts(oom_kills, None if full_ns is None else full_ns // _NS_PER_US)


def _increase(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


def start_text(start: datetime) -> str:
    """Return the time of a record's start as the record has it."""
    return start.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class RolloutHere:
    """The roll-out that this node takes part in, and the sysctls that its engine set."""

    arm: RolloutArm
    settings: Mapping[str, int]


def rollout_here() -> RolloutHere | None:
    """Return the roll-out that this node takes part in; None without one.

    The engine of the roll-out writes it. Raises WritewiseError for a file that others could have
    written, or an invalid one.
    """
    path = state_directory() / MARKER
    if not path.exists():
        return None
    try:
        data = json.loads(_ROLLOUT_FILE.read_text(str(path), trusted=True))
        arm = RolloutArm(str(data["id"]), int(data["stage"]), str(data["arm"]))
        settings = {_known(name): int(value) for name, value in data.get("settings", {}).items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise WritewiseError(f"{path} is not a valid roll-out", _ROLLOUT_FILE.hint) from None
    return RolloutHere(arm, settings)


def _known(name: str) -> str:
    """Return the name of a sysctl that Writewise knows. Raises LookupError."""
    return BY_NAME[name].name


def verify_here(system: System, rollout: RolloutHere | None) -> str | None:
    """Return whether what the roll-out or `apply` set is in force; None if nothing was, or unknown.

    On a node of the control arm only the roll-out's settings count: it may have others of `apply`.
    Raises HostError.
    """
    if rollout and rollout.settings:
        are_set = [read_sysctl(system, name) == at for name, at in rollout.settings.items()]
        answer = IN_FORCE if all(are_set) else CHANGED if any(are_set) else NOT_APPLIED
        return answer if rollout.arm.arm == TREATED or all(are_set) else None
    if rollout and rollout.arm.arm == CONTROL:
        return None
    history = read_history(system)
    if history.problem:
        return None
    if not history.changes:
        return NOT_APPLIED if rollout and rollout.arm.arm == TREATED else None
    checks = check_compliance(system, wanted_by_applied(system, history.changes), history.changes)
    return IN_FORCE if all(check.is_compliant for check in checks) else CHANGED
