# SPDX-License-Identifier: Apache-2.0
"""A sweep on a host that fails: a volume that breaks, disappears or is in use, Ctrl-C twice.

After each the host is as before, at once or as soon as the cause is fixed, and the message names
the cause. A full disk under the journal is in `test_sweep.py`, a read-only /etc in `test_apply.py`.
"""

from __future__ import annotations

import contextlib
import random
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from profiler.lab import lab
from sysctl.evidence.protocol import ATTEMPTS
from sysctl.host.changes import MountOriginal, WritebackOriginals
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
    lab_elsewhere,
    wait_until,
    writewise,
)
from tests.root.volumes import FailingVolume, failing_volume, run

QUICK = replace(SMALL, object_count=4, object_bytes=MIB)
SYSCTLS = ("--dirty-ratio", ",".join(map(str, range(50, 74))))
REMOUNTS = (
    *("--dirty-ratio", "55,64"),
    *("--mount-options", "noatime", "--mount-options", "logbsize=256k"),
)


@pytest.fixture(scope="module")
def present(tmp_path_factory) -> Iterator[lab.Lab]:
    """One lab for all tests; they use only its S3 endpoint."""
    with lab_elsewhere(tmp_path_factory.mktemp("lab"), QUICK) as made:
        yield made


@pytest.fixture
def failing(tmp_path) -> Iterator[FailingVolume]:
    with failing_volume(tmp_path / "failing") as made:
        yield made


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results.json"


@pytest.fixture(autouse=True)
def state(tmp_path, failing):
    """A state directory; its changes are restored before the volume goes."""
    with guarded(tmp_path) as state:
        yield state


def sweep(present, volume, output, *options):
    source = (present.source, volume.target, *endpoint_arguments(present), "--workers", 1)
    return command("sweep", *source, "--output", output, *options)


def is_changed(state, options):
    """Return whether the sweep has changed mount options or a sysctl for the first time."""
    kind = MountOriginal.kind if options is REMOUNTS else WritebackOriginals.kind
    return lambda: f'"{kind}"' in read_journal(state)


def read_journal(state):
    """Return the sweep's journal; empty if there is none, as between two trials."""
    try:
        return (state / "sweep.journal").read_text()
    except FileNotFoundError:
        return ""


@contextlib.contextmanager
def reached(words, is_there) -> Iterator[subprocess.Popen[str]]:
    """Yield the sweep once `is_there()` is true; end it with the block."""
    pipes: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "stdin": subprocess.PIPE,
    }
    with subprocess.Popen(words, text=True, **pipes) as process:
        try:
            wait_until(lambda: is_there() or process.poll() is not None, 30)
            assert process.poll() is None, process.stdout.read()
            yield process
        finally:
            process.kill()


def ended_by(process, seconds=60):
    """Return the rest of the sweep's output, checked to be sentences and no traceback."""
    said, _ = process.communicate(timeout=seconds)
    assert "Traceback" not in said and "this is a bug" not in said, said
    return said


def rolled_back():
    done = writewise("rollback")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "phase"),
    [
        (REMOUNTS, Phase.PULL),
        (SYSCTLS, Phase.PULL),
        (SYSCTLS, Phase.SETTLE),
        (REMOUNTS, Phase.BETWEEN),
    ],
    ids=["remounts-pull", "sysctls-pull", "sysctls-settle", "remounts-between"],
)
def test_every_request_of_the_device_fails(present, failing, state, output, options, phase):
    """The sweep ends and says why; files on the volume can be restored once it is back."""
    before = host_state()
    watcher, words = Watcher(state, output), sweep(present, failing, output, *options)
    with reached(words, is_changed(state, options)) as process:
        wait_until(lambda: watcher.phase() is phase, 10)
        failing.fail()
        said = ended_by(process)
    assert process.returncode == 1, said
    assert "Input/output error" in said or "superblock" in said, said
    assert (
        "continue with `writewise sweep --resume`" in said
        or "run `writewise rollback` again" in said
    ), said
    assert said.count("invalid: ") <= 2 * ATTEMPTS, said
    assert read_writeback(SYSTEM) == before["sysctls"]
    failing.come_back()
    writewise("rollback")
    if mount_at(SYSTEM.mounts(), str(failing.target)) is None:  # still unchanged then
        run("mount", failing.device, failing.target)
    rolled_back()
    assert_as(before)
    assert list(failing.target.iterdir()) == []


def test_the_device_disappears_at_an_unmount(present, failing, state, output):
    before = host_state()
    words = sweep(present, failing, output, *REMOUNTS)
    with reached(words, is_changed(state, REMOUNTS)) as process:
        failing.disappear()
        said = ended_by(process)
    assert process.returncode == 1, said
    assert "can't read superblock" in said and "run `writewise rollback` again" in said
    assert said.count("invalid: ") == ATTEMPTS, said
    assert read_writeback(SYSTEM) == before["sysctls"]
    assert writewise("rollback").returncode == 1
    failing.come_back()
    rolled_back()
    assert_as(before)
    assert list(failing.target.iterdir()) == []


def test_the_volume_is_in_use_at_every_unmount(present, failing, state, output):
    """Options that need a fresh mount cannot be tried, all others can; all is restored at once."""
    before = host_state()
    words = sweep(present, failing, output, *REMOUNTS)
    with (
        reached(words, is_changed(state, SYSCTLS)) as process,
        (failing.target / "file").open("w"),
    ):
        said = ended_by(process, 90)
    assert process.returncode == 0, said
    assert "logbsize=256k: umount -- … failed" in said and "target is busy" in said
    assert re.search(r"\d m?s  [^\n]*  again: [^\n]*mount=noatime", said)
    assert_as(before)
    assert [path.name for path in failing.target.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "phase", [Phase.PROBE, Phase.ATTACH, Phase.SETTLE, Phase.PULL], ids=lambda p: p.name
)
def test_ctrl_c_twice_on_a_terminal(present, failing, state, output, phase):
    """The second comes while the first still restores everything, or after that."""
    before, watcher = host_state(), Watcher(state, output)
    words = shlex.join(sweep(present, failing, output, *REMOUNTS))
    terminal = ["script", "--quiet", "--return", "--command", words, "/dev/null"]
    with reached(terminal, lambda: watcher.phase() is phase) as process:
        for pause_s in (random.uniform(0, 0.3), 0):
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("\x03")
                process.stdin.flush()
            time.sleep(pause_s)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        said = process.stdout.read()
    assert "Traceback" not in said and "this is a bug" not in said, said
    assert process.wait() == 130, said
    assert_as(before)
    assert list(failing.target.iterdir()) == []
    assert not (state / "sweep.journal").exists()
