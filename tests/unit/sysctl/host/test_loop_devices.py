# SPDX-License-Identifier: Apache-2.0
"""Loop devices of ours, one on the other: only those that are on our file are detached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sysctl.host.changes import StackedLoopDevice
from sysctl.host.host import Host
from sysctl.host.system import System


class LoopHost(System):
    """A host whose `losetup` keeps its devices in a table of backing files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, run=self.losetup)
        self.backing: dict[str, str] = {"/dev/loop0": "/theirs", "/dev/loop1": "/dev/loop0"}
        boot = self.path("/proc/sys/kernel/random/boot_id")
        boot.parent.mkdir(parents=True)
        boot.write_text("a boot")

    def losetup(self, argv: Sequence[str]) -> str:
        if "--list" in argv:
            return "\n".join(f"{name} {file}" for name, file in self.backing.items())
        if "--detach" in argv:
            del self.backing[argv[-1]]
            return ""
        name = f"/dev/loop{len(self.backing)}"
        self.backing[name] = argv[-1]
        return f"{name}\n"


def test_a_restore_detaches_the_upper_one_first_and_leaves_others(tmp_path: Path) -> None:
    system = LoopHost(tmp_path / "root")
    theirs = dict(system.backing)
    host = Host(tmp_path / "state", "lab", system)
    lower = host.attach_loop_device(Path("/ours"))
    assert host.stack_loop_device(Path("/ours"), lower) == "/dev/loop3"
    assert system.backing["/dev/loop3"] == lower
    assert host.restore() == ["no loop device on that of /ours", "no loop device for /ours"]
    assert system.backing == theirs


def test_a_device_on_a_number_that_is_anothers_now_stays(tmp_path: Path) -> None:
    system = LoopHost(tmp_path / "root")
    change = StackedLoopDevice("/ours")
    before = dict(system.backing)
    for _ in range(2):
        change.undo(system)
    assert system.backing == before
