# SPDX-License-Identifier: Apache-2.0
"""The host at the start of a pull, and what other programs did during the pull."""

from __future__ import annotations

from typing import Any

from profiler.study.hypervisor import Hypervisor
from sysctl.host.sysctls import dirtyable_bytes, read_dirtied_bytes, read_thresholds
from sysctl.host.system import System


class HostAtStart:
    """The host's state when this object is made; `thresholds` are in bytes."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.thresholds = read_thresholds(system)
        self._dirtyable_bytes = dirtyable_bytes(system)
        self._dirtied_bytes = read_dirtied_bytes(system)
        self._hypervisor = Hypervisor(system)

    def observed(self, own_bytes: int) -> dict[str, Any]:
        """Return fields of `Observation`; `own_bytes` are the bytes that the trial dirtied."""
        dirtied_bytes = read_dirtied_bytes(self._system) - self._dirtied_bytes
        stolen_share, ballooned_bytes = self._hypervisor.since()
        return {
            "thresholds": self.thresholds,
            "dirtyable_bytes": self._dirtyable_bytes,
            "others_dirtied_bytes": max(0, dirtied_bytes - own_bytes),
            "stolen_share": stolen_share,
            "ballooned_bytes": ballooned_bytes,
        }
