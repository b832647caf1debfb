# SPDX-License-Identifier: Apache-2.0
"""The lab's cap: which control group has it on which host, and how its loss is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.lab.cap import Cap, CapLimits, plan_cap
from sysctl.host.changes import NewSlice
from sysctl.host.host import Host
from sysctl.host.system import HostError
from tests.unit.lab_hosts import UNIT, V1, V2, FakeSystem, make

LIMITS = "rbps=1000 wbps=1000 riops=30 wiops=30"


def test_with_systemd_a_slice_of_its_own_asks_for_the_controllers(tmp_path: Path) -> None:
    system, host = make(tmp_path, V2, booted=True)
    cap = plan_cap(host, "7:3", CapLimits(1000, 30))
    assert cap.group == f"/cg/{UNIT}"
    assert cap.lines[0][:2] == (f"/cg/{UNIT}/io.max", f"7:3 {LIMITS}")
    (command,) = system.commands
    assert command[5:] == [
        *("StartTransientUnit", "ssa(sv)a(sa(sv))", UNIT, "fail", "2"),
        *("IOAccounting", "b", "true", "MemoryAccounting", "b", "true", "0"),
    ]
    assert system.read("/cg/cgroup.subtree_control") == "memory", "it is systemd's to write"


def test_a_slice_is_journaled_before_it_is_made_and_stopped_by_a_restore(tmp_path: Path) -> None:
    system, host = make(tmp_path, V2, booted=True)
    journaled: list[bool] = []
    answer = system.answer
    system.run = lambda argv: (journaled.append(host.has_pending()), answer(list(argv)))[1]
    plan_cap(host, "7:3", CapLimits(1000, 30))
    moved: list[str] = []
    system.write = lambda absolute, text: moved.append(f"{absolute} {text}")
    assert Host(tmp_path / "state", "lab", system).restore() == [f"no control group {UNIT}"]
    assert journaled[0]
    assert moved == ["/cg/cgroup.procs 12", "/cg/cgroup.procs 13"]
    assert system.commands[-1] == ["systemctl", "stop", UNIT]


def test_a_process_that_has_ended_does_not_stop_a_restore(tmp_path: Path) -> None:
    """As a worker between the look at the group and the move out of it."""
    system, host = make(tmp_path, V2, booted=True)
    plan_cap(host, "7:3", CapLimits(1000, 30))
    system.put("/proc/13/stat", "")
    tried: list[str] = []

    def write(absolute: str, text: str) -> None:
        tried.append(text)
        if text == "12":
            raise HostError("No such process", "")

    system.write = write
    assert Host(tmp_path / "state", "lab", system).restore() == [f"no control group {UNIT}"]
    assert tried == ["12", "13"]


def test_a_slice_that_was_never_made_is_ignored(tmp_path: Path) -> None:
    system, _ = make(tmp_path, V2, booted=True)
    NewSlice(UNIT, f"/cg/{UNIT}").undo(system)
    assert system.commands == []


def test_a_slice_without_its_controller_is_an_error_and_taken_back(tmp_path: Path) -> None:
    system, host = make(tmp_path, V2, booted=True)
    system.enables = "memory"
    with pytest.raises(HostError, match=f"systemd enables only memory for /cg/{UNIT}"):
        plan_cap(host, "7:3", CapLimits(1000, 30))
    host.restore()
    assert system.commands[-1] == ["systemctl", "stop", UNIT]


def test_without_systemd_the_controllers_are_enabled_and_disabled_again(tmp_path: Path) -> None:
    system, host = make(tmp_path, V2)
    cap = plan_cap(host, "7:3", CapLimits(1000, 30))
    assert cap.group == "/cg/writewise-lab"
    assert system.commands == []
    assert system.read("/cg/cgroup.subtree_control") == "io memory"
    system.path(cap.group).rmdir()
    host.restore()
    assert system.read("/cg/cgroup.subtree_control") == "memory"


@pytest.mark.parametrize("booted", [False, True])
def test_version_1_is_the_root_groups_whatever_starts_the_host(
    tmp_path: Path, booted: bool
) -> None:
    system, host = make(tmp_path, V1 + V2, booted=booted)
    system.put("/cg/blkio/blkio.throttle.write_bps_device", "")
    cap = plan_cap(host, "7:3", CapLimits(1000, 30))
    assert cap.group is None
    assert cap.lines[0] == ("/cg/blkio/blkio.throttle.write_bps_device", "7:3 1000", "7:3 0")
    assert system.commands == []


class TestLost:
    CAP = Cap((("/cg/g/io.max", f"7:3 {LIMITS}", "7:3 cleared"),), "/cg/g")

    def of(self, folder: Path, limits: str | None) -> str | None:
        system = FakeSystem(folder, V2)
        if limits is not None:
            system.put("/cg/g/io.max", limits)
        return self.CAP.lost(system)

    def test_not_while_its_line_is_there(self, tmp_path: Path) -> None:
        assert self.of(tmp_path, f"8:0 rbps=1\n7:3 {LIMITS}\n") is None

    def test_with_the_controller(self, tmp_path: Path) -> None:
        assert self.of(tmp_path, None) == "/cg/g/io.max no longer exists"

    @pytest.mark.parametrize("limits", ["", f"8:0 {LIMITS}", "7:3 rbps=1000 wbps=max"])
    def test_by_a_write(self, limits: str, tmp_path: Path) -> None:
        said = f"/cg/g/io.max no longer has the line '7:3 {LIMITS}'"
        assert self.of(tmp_path, limits) == said
