# SPDX-License-Identifier: Apache-2.0
"""Transient slices of systemd, started over D-Bus (org.freedesktop.systemd1(5))."""

from __future__ import annotations

from collections.abc import Sequence

from sysctl.host.system import HostError, System

#: The names of controllers in systemd.resource-control(5).
_ACCOUNTING = {"io": "IO", "memory": "Memory"}
#: systemd starts a slice shortly after the request.
_LOOKS, _LOOK_S = 100, 0.05


def start(system: System, unit: str, path: str, controllers: Sequence[str]) -> None:
    """Start a slice with accounting by `controllers`, and wait until its group at `path` has them.

    systemd keeps these controllers enabled for it, also after daemon-reload and daemon-reexec.
    Raises HostError if it does not enable them.
    """
    accounting = [f"{_ACCOUNTING[controller]}Accounting" for controller in controllers]
    properties = [word for name in accounting for word in (name, "b", "true")]
    system.run(
        [
            "busctl",
            *("call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
            *("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"),
            *(unit, "fail", str(len(accounting)), *properties, "0"),
        ]
    )
    enabled: list[str] = []
    for _ in range(_LOOKS):
        if system.exists(f"{path}/cgroup.controllers"):
            enabled = system.read(f"{path}/cgroup.controllers").split()
        if set(controllers) <= set(enabled):
            return
        system.sleep(_LOOK_S)
    raise HostError(f"systemd enables only {' '.join(enabled) or 'nothing'} for {path}")
