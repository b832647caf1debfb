# SPDX-License-Identifier: Apache-2.0
"""Journals that commit 4ca1b0e wrote before it was killed: this version reverts them.

tests/unit/data/journals says how they were recorded. A host of files is as that one was then.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from sysctl.host.applied_host import AppliedHost
from sysctl.host.changes import KINDS, NewSlice, StackedLoopDevice
from sysctl.host.host import Host
from sysctl.host.mount_table import parse_mountinfo
from sysctl.host.raised import RaisedThresholds
from tests.places import DATA
from tests.unit.applied_hosts import FilesHost

JOURNALS = DATA / "journals" / "4ca1b0e"
#: By what the sweep was in the middle of.
SWEEPS = sorted(path.parent.name for path in JOURNALS.glob("*/sweep.journal"))
STATE = "/tmp/recorded/state"
MOUNTINFO = "/proc/self/mountinfo"


class RecordedHost(FilesHost):
    """The host as it was when a program was killed, with `mount`, `umount` and `losetup`.

    The lab's server is not there: it has ended.
    """

    def __init__(self, root: Path, moment: str) -> None:
        recorded = json.loads((JOURNALS / moment / "host.json").read_text())
        self.before: dict[str, str] = recorded["before"]
        self.before_lab: dict[str, str] = recorded.get("before_lab", {})
        self._files = {path for path in recorded["then"] if path.startswith("/etc/")}
        self._device: str = recorded.get("device", "")
        self._uuid: str = recorded.get("uuid", "")
        super().__init__(root, recorded["boot_id"])
        self.put(MOUNTINFO, "")
        for path, text in recorded["then"].items():
            self.put(path, text)
        for name in recorded["files"]:
            self._make(name)
        self.put_thresholds()

    def _make(self, name: str) -> None:
        path = self.path(name.rstrip("/"))
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()

    def changed(self, before: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
        """What is otherwise than before but for mounts: how it is and was (empty: not there)."""
        wanted = {path: text.strip() for path, text in (before or self.before).items()}
        wanted.update(dict.fromkeys(self._files - wanted.keys(), ""))
        del wanted[MOUNTINFO]
        present = {path: self.read(path) if self.exists(path) else "" for path in wanted}
        return {
            path: (present[path], wanted[path]) for path in wanted if present[path] != wanted[path]
        }

    def write(self, absolute: str, text: str) -> None:
        lines = self.read(absolute).splitlines()
        super().write(absolute, text)
        device, _, limit = text.partition(" ")
        if ".throttle." in absolute:
            kept = [line for line in lines if line.split()[0] != device]
            self.put(absolute, "\n".join(kept if limit == "0" else [*kept, text]))
        elif absolute.endswith("cgroup.subtree_control"):
            self.put(absolute, text[1:] if text.startswith("+") else "")

    def run_command(self, argv: Sequence[str]) -> str:
        self.commands.append(list(argv))
        if argv[0] == "mount":
            options = [word for word in argv[argv.index("-o") + 1].split(",") if word != "remount"]
            line = f"50 22 7:0 / {argv[-1]} {','.join(options)} - {argv[2]} {argv[-2]} rw"
            self._mount(argv[-1], line)
        elif argv[0] == "umount":
            self._mount(argv[-1], "")
        elif argv[0] == "systemctl":
            self.path(f"/run/systemd/transient/{argv[2]}").unlink()
        elif argv[:2] == ["losetup", "--detach"]:
            self._device = ""
        elif argv[0] == "losetup":
            return f"{self._device} {STATE}/lab/volume.img\n" if self._device else ""
        return f"{self._uuid}\n" if argv[0] == "blkid" else ""

    def _mount(self, target: str, line: str) -> None:
        lines = [each for each in self.read(MOUNTINFO).splitlines() if f" {target} " not in each]
        self.put(MOUNTINFO, "\n".join([*lines, line]))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def recorded(moment: str, state: Path, tmp_path: Path) -> RecordedHost:
    for journal in (JOURNALS / moment).glob("*.journal"):
        shutil.copyfile(journal, state / journal.name)
    return RecordedHost(tmp_path / "root", moment)


def mounted(host: RecordedHost, table: str | None = None) -> dict[str, set[str]]:
    """The options of all that is mounted, by mount point."""
    mounts = host.mounts() if table is None else parse_mountinfo(table)
    return {mount.target: set(mount.all_options) for mount in mounts}


def left(host: RecordedHost) -> list[object]:
    """What the killed program had made or changed, and is so still."""
    trials = host.path(f"{STATE}/lab/volume").glob(".writewise-*")
    before, now = mounted(host, host.before[MOUNTINFO]), mounted(host)
    return [*host.changed(), *trials, *host.path(STATE).glob("probe-*"), *[now] * (now != before)]


def test_the_journals_have_every_kind_of_change() -> None:
    text = "".join(path.read_text() for path in JOURNALS.glob("*/*.journal"))
    recorded = {json.loads(line).get("change", {}).get("kind") for line in text.splitlines()}
    later = {NewSlice.kind, RaisedThresholds.kind, StackedLoopDevice.kind}
    assert {kind.kind for kind in KINDS} - later == recorded - {None}


@pytest.mark.parametrize("moment", SWEEPS)
def test_a_killed_sweep_and_its_lab_are_reverted(moment: str, state: Path, tmp_path: Path) -> None:
    host = recorded(moment, state, tmp_path)
    assert left(host) or moment == "remount", "there it had not begun to mount"
    Host(state, "sweep", host).restore()
    assert left(host) == [] and host.invalid == []
    Host(state, "lab", host).restore()
    assert host.changed(host.before_lab) == {} and mounted(host) == {}
    assert not host.exists(f"{STATE}/lab")
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("moment", ["applied", "apply-killed"])
def test_changes_of_apply_are_reverted(moment: str, state: Path, tmp_path: Path) -> None:
    host = recorded(moment, state, tmp_path)
    assert left(host)
    applied = AppliedHost(state, host)
    applied.recover() if moment == "apply-killed" else applied.restore()
    assert left(host) == [] and host.invalid == [] and not applied.left
    assert list(state.iterdir()) == []


def test_kept_values_of_apply_are_reported(state: Path, tmp_path: Path) -> None:
    applied = AppliedHost(state, recorded("applied", state, tmp_path))
    assert applied.recover() == [] and applied.interrupted() == []
    kinds = [change.kind for change in applied.applied()]
    assert kinds == ["applied-sysctls", "written-file", "applied-knobs", "applied-mount"]


def test_groups_and_a_trial_period_are_reverted(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = recorded("groups", state, tmp_path)
    host.put("/run/systemd/transient/writewise-revert.timer", "")
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)  # the files of a group go with it
    AppliedHost(state, host).restore()
    Host(state, "lab", host).restore()
    assert ["systemctl", "stop", "writewise-revert.timer"] in host.commands
    assert host.changed() == {}
    assert not host.exists("/sys/fs/cgroup/unified/writewise-lab")
    assert list(state.iterdir()) == []
