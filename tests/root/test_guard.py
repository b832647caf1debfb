# SPDX-License-Identifier: Apache-2.0
"""The guard of root tests cleans up after a killed session and names what a test leaves."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysctl.host.sysctls import read_sysctl, read_writeback
from sysctl.host.system import System
from tests.root import groups
from tests.root.labs import volume, wait_until
from tests.root.leftovers import Owner, Record, record_of, restore_sysctls, take_back
from tests.root.sessions import Child, child

#: The time that it sleeps identifies the process.
NAP = f"6789.{os.getpid()}"
#: One of each kind, journaled or not, on a device that fails, made by processes that hide.
HOLDS_EVERYTHING = """
import os, signal, subprocess, tempfile
from pathlib import Path
from profiler.lab import lab
from sysctl.host.applied_host import AppliedHost
from sysctl.host.host import Host
from tests.root import groups
from tests.root.labs import SMALL
from tests.root.volumes import failing_volume

def test_holds_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    made = lab.up(SMALL)
    with (
        Host.exclusive("sweep", "test") as host,
        failing_volume(tmp_path / "failing") as failing,
        groups.capped(os.stat(made.destination).st_dev, 12345678),
    ):
        host.set_writeback({"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7})
        host.make_trial_directory(Path(made.destination), "left")
        failing.fail()
        pages = int(Path("/proc/sys/vm/nr_hugepages").read_text()) + 1
        values = ["vm.dirty_expire_centisecs=2999", f"vm.nr_hugepages={pages}"]
        subprocess.run(["sysctl", "--quiet", "--write", *values], check=True)
        hiding = ["setsid", "--fork", "unshare", "--mount", "sleep", "6789"]
        subprocess.run(hiding, env={"PATH": os.environ["PATH"]}, cwd="/", check=True)
        Path(tempfile.mkdtemp(prefix="writewise-objects-"), "0").touch()
        AppliedHost(host.directory).write_file("/etc/sysctl.d/98-writewise-test.conf", "#")
        print("ready", flush=True)
        signal.pause()
"""
LEAVES_SOMETHING = """
import os, subprocess
from pathlib import Path
from tests.root import guard, groups

guard.KERNEL_S, guard.PROGRAMS_S = 0.2, 1

def test_leaves_a_mount(tmp_path):
    (tmp_path / "left").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tmp_path / "left"], check=True)

def test_leaves_a_sysctl():
    subprocess.run(["sysctl", "-qw", "vm.dirty_expire_centisecs=2999"], check=True)

def test_leaves_a_group_and_fails():
    (next(iter(groups.tops().values())) / f"{groups.prefix(os.getpid())}left").mkdir()
    raise AssertionError("on purpose")

def test_leaves_a_process():
    subprocess.Popen(["sleep", "6789"], start_new_session=True, env={})

def test_leaves_nothing():
    pass
"""
PASSES = "def test_leaves_nothing():\n    pass\n"


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[list[str]]:
    """A volume with its loop device, and a process, which belong to no session and must stay."""
    folder = tmp_path / "foreign"
    with volume(folder, "ext4") as target, subprocess.Popen(["sleep", "6788"]) as process:
        yield [f"{target}", f"{folder}/image"]
        assert process.poll() is None
        process.kill()


def session_of(tmp_path: Path, text: str, *options: str) -> tuple[Path, list[str]]:
    """Return where such a session prints, and its arguments."""
    file = tmp_path / "test_of_a_session.py"
    file.write_text(text)
    return tmp_path / "log", ["-p", "tests.root.conftest", *options, str(file)]


def test_what_a_killed_session_held_goes_and_nothing_else(
    foreign: list[str], tmp_path: Path
) -> None:
    text = HOLDS_EVERYTHING.replace("6789", NAP)
    log, arguments = session_of(tmp_path, text, "-s")
    with child(log, *arguments) as session:
        wait_until(lambda: "ready" in session.said() or session.process.poll() is not None, 60)
        assert "ready" in session.said(), session.said()
        made = {each.partition(":")[0] for each in session.made()}
        wanted = {"sysctls", "mounts", "loop devices", "caps", "control groups", "files"}
        assert made == wanted
        assert processes_called(f"sleep\0{NAP}\0")
        session.process.kill()
        assert session.left() == [], session.said()
        assert not session.folder.exists()
    assert not processes_called(f"sleep\0{NAP}\0")
    table = "".join(mount.target for mount in System().mounts())
    assert foreign[0] in table and foreign[1] in System().run(["losetup", "--list"])


def processes_called(words: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [str(process)] * (process.read_text() == words)
        except OSError:
            continue
    return found


def ended(session: Child) -> tuple[int, str]:
    code = session.process.wait(60)
    assert session.left() == []
    return code, session.said()


def test_a_test_that_leaves_something_is_named_and_all_of_it_goes(tmp_path: Path) -> None:
    log, arguments = session_of(tmp_path, LEAVES_SOMETHING)
    with child(log, *arguments) as session:
        code, said = ended(session)
    assert code == 1
    named = re.findall(r"ERROR at teardown of (\w+)", said)
    assert named == [
        "test_leaves_a_mount",
        "test_leaves_a_sysctl",
        "test_leaves_a_group_and_fails",
        "test_leaves_nothing",
    ]
    assert re.search(r"this test left:\nmount \S+/left: tmpfs rw,", said)
    assert "this test left:\nvm.dirty_expire_centisecs: 2999, before " in said
    assert re.search(r"this test left:\ncontrol group \S+/writewise-test-\d+-left: there", said)
    left = said.partition("the root tests left:\n")[2]
    assert re.search(r"process \d+ \(sleep 6789\), first seen after \S+::test_leaves_a_proc", left)


def test_a_session_that_leaves_nothing_dismisses_its_guard(tmp_path: Path) -> None:
    log, arguments = session_of(tmp_path, PASSES)
    with child(log, *arguments) as session:
        assert ended(session)[0] == 0
        assert session.folder.exists(), "what pytest keeps is kept"


def test_a_group_that_cannot_be_removed_is_named_and_the_others_go(tmp_path: Path) -> None:
    top = next(iter(groups.tops().values()))
    owner = Owner(tmp_path, "uts:[0]", 2**30)  # no process has this number or this namespace
    busy, empty = (top / f"{groups.prefix(owner.pid)}{name}" for name in ("a-busy", "b-empty"))
    before = record_of(owner)
    busy.mkdir()
    empty.mkdir()
    with subprocess.Popen(["sleep", NAP]) as process:
        (busy / "cgroup.procs").write_text(str(process.pid))
        problems = take_back(owner, before)
        process.kill()
    wait_until(lambda: not (busy / "cgroup.procs").read_text(), 10)
    busy.rmdir()
    assert not empty.exists()
    assert [each for each in problems if f"{busy}" in each and "busy" in each.casefold()]


def test_huge_pages_are_restored_even_if_a_write_back_sysctl_is_not() -> None:
    system, name = System(), "vm.nr_hugepages"
    before = Record(read_writeback(system), read_sysctl(system, name), {})
    broken = {**before.writeback, "vm.dirty_expire_centisecs": -1}  # refused by the kernel
    subprocess.run(["sysctl", "-qw", f"{name}={before.huge_pages + 1}"], check=True)
    [problem] = restore_sysctls(Record(broken, before.huge_pages, {}))
    assert "dirty_expire_centisecs" in problem
    assert Record(read_writeback(system), read_sysctl(system, name), {}) == before
