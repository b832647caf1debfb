"""A sweep on a host that fails under it: a full disk, a volume in use or gone, Ctrl-C twice.

After each the host is as before, at once or as soon as the cause is mended, and what is said names
the cause.
"""

from __future__ import annotations

import contextlib
import random
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from profiler.lab import lab
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import read_writeback
from tests.root.kills import Phase, Watcher
from tests.root.labs import (
    MIB,
    SMALL,
    SYSTEM,
    assert_as,
    command,
    endpoint_arguments,
    guarded,
    host_state,
    wait_until,
    writewise,
)
from tests.root.volumes import FailingVolume, failing_volume, run

QUICK = replace(SMALL, object_count=4, object_bytes=MIB)
SYSCTLS = ("--dirty-ratio", "55,58,61,64")
REMOUNTS = (*SYSCTLS, "--mount-options", "noatime", "logbsize=256k")


@pytest.fixture(scope="module")
def present(tmp_path_factory) -> Iterator[lab.Lab]:
    """One lab for all tests, for its S3 endpoint, in a state directory that sweeps do not see."""
    place = str(tmp_path_factory.mktemp("lab") / "state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRITEWISE_STATE_DIRECTORY", place)
        made = lab.up(QUICK)
    yield made
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRITEWISE_STATE_DIRECTORY", place)
        lab.down()


@pytest.fixture
def failing(tmp_path) -> Iterator[FailingVolume]:
    with failing_volume(tmp_path / "failing") as made:
        yield made


@pytest.fixture(autouse=True)
def state(tmp_path, failing):
    """Taken back before the volume goes."""
    with guarded(tmp_path) as state:
        yield state


def sweep(present, volume, output, *options):
    source = (present.source, volume.target, *endpoint_arguments(present), "--workers", 1)
    return command("sweep", *source, "--output", output, *options)


@contextlib.contextmanager
def reached(words, watcher, *phases) -> Iterator[subprocess.Popen[str]]:
    """The sweep, when it is in one of `phases`; ended when the block is."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **pipes) as process:
        try:
            is_there = wait_until(lambda: watcher.phase() in phases or process.poll(), 30)
            assert is_there and process.poll() is None, process.stdout.read()
            yield process
        finally:
            process.kill()


def mounted(volume):
    return mount_at(SYSTEM.mounts(), str(volume.target))


def is_told(said):
    """In a sentence, and not as a fault of our own."""
    return "Traceback" not in said and "this is a bug" not in said


@pytest.mark.parametrize("options", [SYSCTLS, REMOUNTS], ids=["sysctls", "remounts"])
@pytest.mark.parametrize("phase", [Phase.PULL, Phase.SETTLE, Phase.BETWEEN], ids=lambda p: p.name)
def test_every_request_of_the_device_fails(present, failing, tmp_path, state, options, phase):
    before, output = host_state(), tmp_path / "r.json"
    watcher = Watcher(state, output)
    with reached(sweep(present, failing, output, *options), watcher, Phase.BETWEEN) as process:
        wait_until(lambda: watcher.phase() is phase, 10)
        failing.fail()
        said, _ = process.communicate(timeout=60)
    print(process.returncode, said)
    again = writewise("rollback")
    print("again:", again.returncode, again.stdout, again.stderr, mounted(failing))
    assert read_writeback(SYSTEM) == before["sysctls"]
    failing.come_back()
    if options is SYSCTLS:
        run("mount", failing.device, failing.target)
    done = writewise("rollback")
    print("then:", done.returncode, done.stdout, done.stderr, mounted(failing))
    assert is_told(said) and done.returncode == 0
    assert_as(before)
    assert 0


def test_the_device_disappears_at_an_unmount(present, failing, tmp_path, state):
    before, output = host_state(), tmp_path / "r.json"
    watcher = Watcher(state, output)
    with reached(
        sweep(present, failing, output, *REMOUNTS), watcher, Phase.KNOB, Phase.BETWEEN
    ) as process:
        failing.disappear()
        said, _ = process.communicate(timeout=60)
    print(process.returncode, said)
    again = writewise("rollback")
    print("again:", again.returncode, again.stdout, again.stderr, mounted(failing))
    assert read_writeback(SYSTEM) == before["sysctls"]
    failing.come_back()
    done = writewise("rollback")
    print("then:", done.returncode, done.stdout, done.stderr, mounted(failing))
    assert is_told(said) and done.returncode == 0
    assert_as(before)
    assert 0


def test_the_volume_is_busy_at_every_unmount(present, failing, tmp_path, state):
    before, output = host_state(), tmp_path / "r.json"
    watcher = Watcher(state, output)
    with reached(sweep(present, failing, output, *REMOUNTS), watcher, Phase.REMOUNT) as process:
        wait_until(lambda: watcher.phase() is Phase.PULL, 10)
        with open(failing.target / "file", "w"):
            said, _ = process.communicate(timeout=90)
            print(process.returncode, said)
            again = writewise("rollback")
            print("again:", again.returncode, again.stdout, again.stderr, mounted(failing))
            assert read_writeback(SYSTEM) == before["sysctls"]
    (failing.target / "file").unlink()
    done = writewise("rollback")
    print("then:", done.returncode, done.stdout, done.stderr, mounted(failing))
    assert is_told(said) and done.returncode == 0
    assert_as(before)
    assert 0


def test_the_disk_under_the_journal_fills_up(present, failing, tmp_path, state):
    before, output = host_state(), tmp_path / "r.json"
    state.mkdir(mode=0o700, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", state)
    try:
        watcher = Watcher(state, output)
        with reached(sweep(present, failing, output, *SYSCTLS), watcher, Phase.PULL) as process:
            fill(state / "filler")
            said, _ = process.communicate(timeout=60)
        print(process.returncode, said)
        assert read_writeback(SYSTEM) == before["sysctls"]
        (state / "filler").unlink()
        done = writewise("rollback")
        print("then:", done.returncode, done.stdout, done.stderr, mounted(failing))
    finally:
        run("umount", state)
    assert_as(before)
    assert 0


def fill(path):
    with contextlib.suppress(OSError), open(path, "wb", 0) as file:
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize(
    "phase", [Phase.PROBE, Phase.ATTACH, Phase.REMOUNT, Phase.PULL], ids=lambda p: p.name
)
def test_ctrl_c_twice_on_a_terminal(present, failing, tmp_path, state, phase):
    """The second one comes while the first is still taking everything back."""
    before, output = host_state(), tmp_path / "r.json"
    words = shlex.join(sweep(present, failing, output, *REMOUNTS))
    terminal = ["script", "--quiet", "--return", "--command", words, "/dev/null"]
    with reached(terminal, Watcher(state, output), phase) as process:
        for pause_s in (random.uniform(0, 0.3), 0):
            process.stdin.write("\x03")
            process.stdin.flush()
            time.sleep(pause_s)
        said, _ = process.communicate(timeout=20)
    assert (process.returncode, is_told(said)) == (130, True), said
    assert_as(before)
    assert list(failing.target.iterdir()) == []
    assert not (state / "sweep.journal").exists()
