# SPDX-License-Identifier: Apache-2.0
"""`writewise govern` among hostile neighbours: each has a defined answer, on the real kernel.

Memory pressure is in tests/unit/sysctl/govern/test_policy.py, a clock that jumps and a program that
writes at every moment in tests/unit/profiler/govern/test_loop.py: there the truth can be simulated.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.shared import exit_codes
from profiler.lab import lab
from sysctl.host.sysctls import read_available_bytes, read_sysctl, sysctl_path
from tests.root.governing import (
    BOUNDED,
    RATE_MIB_PER_S,
    REST,
    SIZE_MIB,
    Outside,
    burst,
    governor,
    in_force,
    start_burst,
    throttled_lab,
    without_dirty_pages,
)
from tests.root.labs import (
    MIB,
    SYSTEM,
    command,
    endpoint_arguments,
    sweep_elsewhere,
    volume,
    wait_until,
    writewise,
)
from tests.root.mount_namespaces import FULL_STATE_DIRECTORY, apart
from tests.root.volumes import failing_volume, run, unmount

HUGE_PAGE_BYTES = 2 * MIB


@pytest.fixture(scope="module")
def host_at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A capped volume, on a host whose own thresholds are small."""
    with throttled_lab(tmp_path_factory.mktemp("hostile")) as present:
        yield present


@pytest.fixture
def present(host_at_rest: lab.Lab) -> Iterator[lab.Lab]:
    """The same, without dirty pages before and after the test."""
    with without_dirty_pages(host_at_rest) as present:
        yield present


def is_raised() -> bool:
    return in_force() != REST


def ended(process: subprocess.Popen[str]) -> str:
    """Wait until a governor that ends by itself has ended; return what it printed."""
    text, errors = process.communicate(timeout=20)
    assert "Traceback" not in errors
    return text + errors


# --- volumes that go away -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["unmounted by force", "the device fails"])
def test_a_volume_that_goes_away_while_raised(present, tmp_path, how) -> None:
    """The thresholds are lowered, the governor goes on, and a burst elsewhere is still raised."""
    with (
        failing_volume(tmp_path / "goes") as goes,
        governor(goes.target, present.destination, *BOUNDED) as process,
    ):
        writer = start_burst(goes.target / "burst", 250, 2000)
        assert wait_until(is_raised, 10)
        if how == "the device fails":
            goes.fail()
        else:
            run("umount", "--lazy", goes.target)
            goes.disappear()
        writer.kill()
        writer.communicate()
        if how == "the device fails":
            unmount(goes.target)
        else:
            assert wait_until(lambda: not goes.is_attached(), 30)
        assert wait_until(lambda: not is_raised(), 10)
        assert process.poll() is None
        second = start_burst(Path(present.destination, "burst"), SIZE_MIB, RATE_MIB_PER_S)
        assert wait_until(is_raised, 10)
        second.communicate(timeout=60)
        assert wait_until(lambda: not is_raised(), 20)
        process.terminate()
        assert " bursts in " in ended(process)


def test_the_only_volume_goes_away_while_raised(present, tmp_path) -> None:
    with failing_volume(tmp_path / "goes") as goes, governor(goes.target, *BOUNDED) as process:
        writer = start_burst(goes.target / "burst", 250, 2000)
        assert wait_until(is_raised, 10)
        run("umount", "--lazy", goes.target)
        goes.disappear()
        writer.kill()
        writer.communicate()
        assert wait_until(lambda: not goes.is_attached(), 30)
        assert wait_until(lambda: not is_raised(), 3)
        time.sleep(1.5)
        assert process.poll() is None and not is_raised()
        process.terminate()
        assert "1 burst in" in ended(process)
    assert process.returncode == 0


# --- memory ---------------------------------------------------------------------------------


@contextlib.contextmanager
def taken(size_bytes: int) -> Iterator[None]:
    """Take memory away with huge pages, as the lab does; the kernel may need several attempts."""
    path = sysctl_path("vm.nr_hugepages")
    before = read_sysctl(SYSTEM, "vm.nr_hugepages")
    wanted = before + size_bytes // HUGE_PAGE_BYTES

    def has_all() -> bool:
        SYSTEM.write(sysctl_path("vm.compact_memory"), "1")
        SYSTEM.write(path, str(wanted))
        return read_sysctl(SYSTEM, "vm.nr_hugepages") == wanted

    try:
        wait_until(has_all, 2)
        yield
    finally:
        SYSTEM.write(path, str(before))


def test_memory_that_shrinks_by_half_during_a_burst(present) -> None:
    """It lowers while the burst still arrives, and the host ends at rest."""
    ballast = max(0, read_available_bytes(SYSTEM) - 3 * 1024 * MIB)
    with taken(ballast), governor(present.destination, "--max-at-risk", "1GiB") as process:
        writer = start_burst(Path(present.destination, "burst"), 900, RATE_MIB_PER_S)
        try:
            assert wait_until(is_raised, 10)
            with taken(read_available_bytes(SYSTEM) * 6 // 10):
                assert wait_until(lambda: not is_raised(), 5), in_force()
                assert writer.poll() is None
        finally:
            writer.kill()
            writer.communicate()
        assert wait_until(lambda: not is_raised(), 60)
        process.terminate()
        text = ended(process)
    assert "lowered: memory pressure" in text or "lowered: less memory" in text, text


# --- other programs -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vm.dirty_bytes", "vm.dirty_background_bytes"])
def test_a_program_that_writes_the_same_sysctl_every_100_ms(present, name) -> None:
    """It yields within a moment, says so once, and touches nothing more."""
    stop = threading.Event()
    value = REST[name] + 4 * MIB

    def write() -> None:
        while not stop.wait(0.1):
            SYSTEM.write(sysctl_path(name), str(value))

    other = threading.Thread(target=write)
    try:
        with governor(present.destination, *BOUNDED) as process:
            writer = start_burst(Path(present.destination, "burst"), SIZE_MIB, RATE_MIB_PER_S)
            assert wait_until(is_raised, 10)
            other.start()
            text = ended(process)
            assert wait_until(lambda: in_force()[name] == value, 1)
            with Outside().looking() as outside:
                writer.communicate(timeout=60)
    finally:
        stop.set()
        if other.ident:
            other.join()
        SYSTEM.write(sysctl_path(name), str(REST[name]))
    assert process.returncode == exit_codes.STOOD_DOWN
    assert text.count("standing down") == 1
    assert {tuple(each.values.items()) for each in outside.seen} == {
        tuple({**REST, name: value}.items())
    }
    assert in_force() == REST


def test_two_governors_and_a_governor_beside_a_sweep(present) -> None:
    with governor(present.destination, *BOUNDED) as process:
        for words in (
            ("govern", "/"),
            ("run", "--dirty-ratio", 30, "--", "true"),
            ("sweep", present.source, present.destination, *endpoint_arguments(present)),
        ):
            refused = writewise(*words)
            assert refused.returncode in (1, 125), words
            named = f"govern of {present.destination}, process {process.pid}"
            assert named in refused.stderr, (words, refused.stderr)
    with sweep_elsewhere() as pid:
        refused = writewise("govern", present.destination)
        assert refused.returncode == 1
        assert f"sweep of /data, process {pid}" in refused.stderr
    assert in_force() == REST


# --- places ---------------------------------------------------------------------------------


def test_a_journal_that_cannot_be_written_raises_nothing(present, tmp_path) -> None:
    with volume(tmp_path / "volume") as named:
        words = [*apart(FULL_STATE_DIRECTORY), *command("govern", named, *BOUNDED)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(words, **pipes) as process, Outside().looking() as outside:  # type: ignore[call-overload]
            writer = start_burst(named / "burst", 250, RATE_MIB_PER_S)
            text, errors = process.communicate(timeout=20)
            writer.communicate(timeout=60)
    assert process.returncode == 1, text
    assert "No space left on device" in errors
    assert "Traceback" not in errors
    assert all(each.values == REST for each in outside.seen)


def test_a_full_var_beside_a_run_directory_with_room(present, tmp_path) -> None:
    """As installed: the state directory is in /var and full, the journal is in /run."""
    script = """
mkdir -p "$1/run" "$1/var"
mount --bind "$1/run" /run
mount -t tmpfs -o size=8k,mode=755 tmpfs /var/lib
mkdir -m 700 /var/lib/writewise
mkdir -p "$2"
mount --bind "$1/there" "$2"
head -c 8192 /dev/zero > /var/lib/full || true
"""
    there = tmp_path / "there"
    there.mkdir()
    run("mount", "--bind", present.destination, there)
    environment = {k: v for k, v in os.environ.items() if k != "WRITEWISE_STATE_DIRECTORY"}
    named = tmp_path / "named"
    named.mkdir()
    words = [
        *apart(script, tmp_path, named, propagation="private"),
        *command("govern", named, *BOUNDED, "--json"),
    ]
    try:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(words, env=environment, **pipes) as process:  # type: ignore[call-overload]
            time.sleep(1.5)
            assert process.poll() is None, process.communicate()[1]
            writer = start_burst(Path(present.destination, "burst"), SIZE_MIB, RATE_MIB_PER_S)
            saw = wait_until(is_raised, 10)
            writer.kill()
            writer.communicate()
            process.terminate()
            text, errors = process.communicate(timeout=20)
    finally:
        run("umount", there)
    assert saw, errors
    assert json.loads(text)["bursts"] == 1
    assert in_force() == REST


def test_the_destination_may_be_the_root_file_system(present) -> None:
    """A burst onto / is raised; one onto another volume is not."""
    place = Path("/var/tmp", f"writewise-test-{os.getpid()}")
    with governor("/", *BOUNDED) as process:
        try:
            with Outside().looking() as elsewhere:
                burst(Path(present.destination, "burst"), 150, RATE_MIB_PER_S)
            with Outside().looking() as on_root:
                burst(place, 400, 2000)
        finally:
            place.unlink(missing_ok=True)
        process.terminate()
        text = ended(process)
    assert all(each.values == REST for each in elsewhere.seen)
    assert any(each.values != REST for each in on_root.seen)
    assert process.returncode == 0
    assert " onto / in " in text
    assert in_force() == REST


def test_a_volume_that_nobody_can_govern_is_refused(present, tmp_path) -> None:
    run("mount", "-t", "tmpfs", "tmpfs", tmp_path)
    try:
        refused = writewise("govern", tmp_path)
    finally:
        run("umount", tmp_path)
    assert refused.returncode != 0
    assert "tmpfs" in refused.stderr
    with volume(tmp_path / "volume") as there:
        missing = writewise("govern", there / "nothing")
    assert missing.returncode != 0
    assert "is not a directory" in missing.stderr
