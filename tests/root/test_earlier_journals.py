# SPDX-License-Identifier: Apache-2.0
"""A journal that commit 4ca1b0e left in the middle of a sweep is rolled back on this host.

The test replaces what is particular to a host: the boot, the volume, its disk and its originals.
The rest is as it was recorded (tests/unit/data/journals).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sysctl.host.devices import Disk, disk_of, kept_values
from sysctl.host.mount_table import Mount, mount_at
from sysctl.host.mounts import file_system_uuid
from sysctl.host.sysctls import read_writeback, write_writeback
from tests.places import DATA
from tests.root.labs import SYSTEM, guarded, volume, writewise

JOURNALS = DATA / "journals" / "4ca1b0e"
VOLUME = "/tmp/recorded/state/lab/volume"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    with guarded(tmp_path) as state:
        state.mkdir(mode=0o700)
        yield state


@pytest.mark.parametrize("moment", ["pull", "delete", "between", "restore"])
def test_it_is_rolled_back(moment: str, state: Path, tmp_path: Path) -> None:
    with volume(tmp_path / "volume") as target:
        mount = present_mount(target)
        disk = disk_of(SYSTEM, mount)
        before = (read_writeback(SYSTEM), mount.all_options, kept_values(SYSTEM, disk))
        recorded = (JOURNALS / moment / "sweep.journal").read_text().replace(VOLUME, str(target))
        lines = [of_this_host(json.loads(line), mount, disk) for line in recorded.splitlines()]
        (state / "sweep.journal").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for change in pending(lines):
            make(change, mount, disk)
        done = writewise("rollback")
        assert done.returncode == 0, done.stderr
        assert before[0] == read_writeback(SYSTEM)
        assert before[1:] == (present_mount(target).all_options, kept_values(SYSTEM, disk))
        assert not (state / "sweep.journal").exists()
        assert list(target.iterdir()) == []


def present_mount(target: Path) -> Mount:
    found = mount_at(SYSTEM.mounts(), str(target))
    assert found is not None
    return found


def of_this_host(line: dict[str, Any], mount: Mount, disk: Disk) -> dict[str, Any]:
    """Return the same line as that version would have written it here."""
    if "boot_id" in line:
        line["boot_id"] = SYSTEM.boot_id()
    change = line.get("change", {})
    if change.get("kind") == "writeback-sysctls":
        change["values"] = read_writeback(SYSTEM)
    elif change.get("kind") == "mount-options":
        uuid = file_system_uuid(SYSTEM, mount.source)
        change.update(source=mount.source, options=mount.all_options, uuid=uuid)
    elif change.get("kind") == "device-attributes":
        change.update(name=disk.name, number=disk.number, sequence=disk.sequence)
        change["values"] = kept_values(SYSTEM, disk)
    return line


def pending(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    undone = {line["undone"] for line in lines if "undone" in line}
    changes = [line for line in lines if "change" in line]
    return [line["change"] for line in changes if line["sequence"] not in undone]


def make(change: dict[str, Any], mount: Mount, disk: Disk) -> None:
    """Make the change that the sweep made after it had written this line."""
    kind = change["kind"]
    if kind == "writeback-sysctls":
        write_writeback(SYSTEM, {"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7})
    elif kind == "device-attributes":
        SYSTEM.write(disk.path("queue/nr_requests"), "64")
        SYSTEM.write(disk.path("queue/read_ahead_kb"), "4096")
    elif kind == "mount-options":
        SYSTEM.run(["mount", "-o", "remount,noatime", mount.target])
    elif kind == "new-path":
        Path(change["path"]).mkdir()
        (Path(change["path"]) / "0").write_text("x")
    else:  # the test does not own the capped device
        assert kind == "lifted-cap"
