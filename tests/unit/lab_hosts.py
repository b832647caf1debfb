# SPDX-License-Identifier: Apache-2.0
"""A host of files with control groups, and a systemd that makes slices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sysctl.host.host import Host
from sysctl.host.system import System

V1 = "31 1 0:27 / /cg/blkio rw - cgroup cgroup rw,blkio\n"
V2 = "30 1 0:26 / /cg rw - cgroup2 cgroup2 rw\n"
UNIT = "writewise_lab_7_3.slice"


class FakeSystem(System):
    """A host of files; its systemd makes the slices that it is asked for, and stops them."""

    def __init__(self, root: Path, mounts: str, *, booted: bool = False) -> None:
        super().__init__(root, run=self.answer)
        self.commands: list[list[str]] = []
        self.enables = "io memory"
        self.put("/proc/self/mountinfo", mounts)
        self.put("/proc/sys/kernel/random/boot_id", "a boot")
        self.put("/cg/cgroup.controllers", "cpu io memory")
        self.put("/cg/cgroup.subtree_control", "memory")
        self.put("/cg/cgroup.procs", "")
        if booted:
            self.path("/run/systemd/system").mkdir(parents=True)

    def put(self, absolute: str, text: str) -> None:
        self.path(absolute).parent.mkdir(parents=True, exist_ok=True)
        self.path(absolute).write_text(text)

    def write(self, absolute: str, text: str) -> None:
        if absolute.endswith("cgroup.subtree_control"):  # the kernel takes `+io` and `-io`
            enabled = {*self.read(absolute).split()} ^ {text[1:]}
            self.put(absolute, " ".join(sorted(enabled)))
        elif "throttle" in absolute or absolute.endswith("/io.max"):
            self.put(absolute, self._with_line(absolute, text))
        else:
            super().write(absolute, text)

    def _with_line(self, absolute: str, text: str) -> str:
        """Return the file with another line of the device: none for `0` and for all `max`."""
        device, _, limits = text.partition(" ")
        others = [each for each in self.read(absolute).splitlines() if each.split()[0] != device]
        is_clear = all(word.endswith("=max") or word == "0" for word in limits.split())
        return "\n".join(others if is_clear else [*others, text])

    def answer(self, argv: Sequence[str]) -> str:
        self.commands.append([*argv])
        if argv[0] == "busctl":
            self.put(f"/cg/{UNIT}/cgroup.controllers", self.enables)
            self.put(f"/cg/{UNIT}/cgroup.procs", "12\n13\n")
            self.put(f"/run/systemd/transient/{UNIT}", "")
        return ""

    def sleep(self, seconds: float) -> None:
        pass


def make(folder: Path, mounts: str, *, booted: bool = False) -> tuple[FakeSystem, Host]:
    system = FakeSystem(folder / "root", mounts, booted=booted)
    return system, Host(folder / "state", "lab", system)
