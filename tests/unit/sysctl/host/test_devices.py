# SPDX-License-Identifier: Apache-2.0
"""Knobs of a disk: each one that can be set is kept before, and restored after."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysctl.host.devices import Disk
from sysctl.host.host import Host
from sysctl.host.system import HostError, System
from sysctl.knobs.catalogue import DEVICE_KNOBS

DISK = Disk("nvme1n1", "259:0", "11")
#: A value of each knob that is neither its first nor that of the test's host.
OTHER = {"queue/scheduler": "mq-deadline"}


class DiskHost(System):
    """A host of files with every knob of one disk; a share is one value in two files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, run=lambda argv: "")
        self.put("/proc/sys/kernel/random/boot_id", "boot")
        self.put(f"/sys/block/{DISK.name}/dev", DISK.number)
        self.put(f"/sys/block/{DISK.name}/diskseq", DISK.sequence)
        self.put(f"/sys/block/{DISK.name}/mq/0/nr_tags", "128")
        for knob in DEVICE_KNOBS:
            for name in filter(None, (knob.name, knob.exact)):
                self.put(DISK.path(name), "1")
        self.put(DISK.path("queue/scheduler"), "[none] mq-deadline")

    def put(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)

    def write(self, absolute: str, text: str) -> None:
        for knob in DEVICE_KNOBS:
            same = {DISK.path(name) for name in (knob.name, knob.exact) if name}
            if absolute in same:
                for path in same:
                    self.put(path, text)

    def files(self) -> dict[str, str]:
        return {knob.name: self.read(DISK.path(knob.name)) for knob in DEVICE_KNOBS}


@pytest.mark.parametrize("knob", DEVICE_KNOBS, ids=lambda knob: knob.name)
def test_every_knob_that_is_set_is_restored(tmp_path: Path, knob) -> None:
    system = DiskHost(tmp_path / "host")
    before = system.files()
    host = Host(tmp_path / "state", "sweep", system)
    host.set_device(DISK, {knob.name: OTHER.get(knob.name, "0")})
    assert system.files() != before
    assert host.restore()
    after = {name: text.replace("[", "").split("]")[0] for name, text in system.files().items()}
    assert after == {name: text.replace("[", "").split("]")[0] for name, text in before.items()}


def test_a_knob_whose_value_cannot_be_read_is_not_set(tmp_path: Path) -> None:
    class Unreadable(DiskHost):
        def read(self, absolute: str) -> str:
            if absolute.endswith("wbt_lat_usec"):
                raise HostError("cannot read it: Invalid argument")
            return super().read(absolute)

    host = Host(tmp_path / "state", "sweep", Unreadable(tmp_path / "host"))
    with pytest.raises(HostError, match="wbt_lat_usec cannot be set, since its value cannot be"):
        host.set_device(DISK, {"queue/wbt_lat_usec": "0"})
    assert (tmp_path / "host" / DISK.path("queue/wbt_lat_usec")[1:]).read_text() == "1"
