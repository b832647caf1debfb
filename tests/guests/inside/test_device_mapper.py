# SPDX-License-Identifier: Apache-2.0
"""Device mapper below the destination: LVM, a slow disk, a disk that begins to fail."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profiler.lab import lab
from sysctl.evidence.results import load
from sysctl.host.sysctls import read_writeback
from tests.guests.inside.volumes import (
    MIB,
    NVME,
    TIMEOUT_S,
    formatted,
    recommended_knobs,
    run,
    sweep,
)
from tests.root.labs import (
    SMALL,
    SYSTEM,
    assert_as,
    command,
    endpoint_arguments,
    guarded,
    host_state,
    lab_elsewhere,
    writewise,
)

NAME = "writewise-test"
SECTOR_BYTES = 512
VOLUME_SECTORS = 512 * MIB // SECTOR_BYTES


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    with lab_elsewhere(tmp_path_factory.mktemp("lab"), SMALL) as made:
        yield made


@pytest.fixture(autouse=True)
def state(tmp_path: Path) -> Iterator[Path]:
    with guarded(tmp_path) as state:
        yield state


@contextlib.contextmanager
def mapped(table: str) -> Iterator[str]:
    """Make a mapped device on the NVMe disk."""
    run("dmsetup", "create", NAME, "--table", table)
    try:
        yield f"/dev/mapper/{NAME}"
    finally:
        run("dmsetup", "remove", "--retry", NAME)


@contextlib.contextmanager
def logical_volume() -> Iterator[str]:
    run("pvcreate", "--yes", "--force", NVME)
    try:
        run("vgcreate", NAME, NVME)
        run("lvcreate", "--yes", "--size", "512M", "--name", "data", NAME)
        yield f"/dev/{NAME}/data"
    finally:
        run("vgremove", "--yes", "--force", NAME, check=False)
        run("pvremove", "--yes", NVME)


def linear() -> str:
    return f"0 {VOLUME_SECTORS} linear {NVME} 0"


def slow(delay_ms: int) -> str:
    """Return the table of a disk whose writes each take that much longer."""
    return f"0 {VOLUME_SECTORS} delay {NVME} 0 0 {NVME} 0 {delay_ms}"


def flaky(down_s: int = 1) -> str:
    """Return the table of a disk that in turns works for 1 s and fails writes for `down_s`."""
    return f"0 {VOLUME_SECTORS} flakey {NVME} 0 1 {down_s} 1 error_writes"


def failing() -> str:
    return f"0 {VOLUME_SECTORS} error"


def become(table: str) -> None:
    """Replace the table of a device whose file system is mounted, without a flush."""
    run("dmsetup", "suspend", "--noflush", "--nolockfs", NAME)
    run("dmsetup", "load", NAME, "--table", table)
    run("dmsetup", "resume", NAME)


def profiled(target: Path, requests: int) -> dict[str, Any]:
    writer = ("dd", "if=/dev/zero", f"of={target}/file", "bs=4096", f"count={requests}")
    done = writewise("profile", "--json", "--", *writer, "oflag=direct", timeout=TIMEOUT_S)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_writes_to_a_logical_volume_are_counted_once(tmp_path: Path) -> None:
    requests = 50
    with logical_volume() as device, formatted(device, tmp_path / "volume") as target:
        document = profiled(target, requests)
        [figure] = [line for line in document["why"]["figures"] if " requests, " in line]
    assert f"wrote {requests * 4} KiB in {requests} requests" in figure


def test_a_sweep_onto_a_slow_device(source: lab.Lab, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    with mapped(linear()), formatted(f"/dev/mapper/{NAME}", tmp_path / "volume") as target:
        become(slow(5))
        before = host_state()
        done = sweep(source, target, output, "--dirty-ratio", "30")
        assert done.returncode == 0, done.stderr
        assert_as(before)
    assert any(not trial.problem for trial in load(output).trials)


def test_a_sweep_onto_a_logical_volume(source: lab.Lab, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    with logical_volume() as device, formatted(device, tmp_path / "volume") as target:
        before = host_state()
        mounts = (
            *("--mount-options", "defaults", "--mount-options", "noatime,logbsize=256k"),
            *("--budget", 12),
        )
        done = sweep(source, target, output, "--dirty-ratio", "30", *mounts)
        assert done.returncode == 0, done.stderr
        assert_as(before)
    assert {"defaults", "noatime,logbsize=256k"} & {
        trial.setting.mount_options for trial in load(output).trials if not trial.problem
    }


def test_time_for_a_slow_device_is_found(tmp_path: Path) -> None:
    delay_ms, requests = 20, 50
    with mapped(linear()), formatted(f"/dev/mapper/{NAME}", tmp_path / "volume") as target:
        become(slow(delay_ms))
        document = profiled(target, requests)
    assert document["why"]["cause"] == "waiting for the device"
    waited_ns = next(
        each["time_ns"] for each in document["why"]["split"] if "device" in each["cause"]
    )
    assert waited_ns >= 0.9 * requests * delay_ms * 1e6


def test_writes_that_a_flaky_device_fails_are_counted_as_failed(tmp_path: Path) -> None:
    """O_DIRECT writes into allocated blocks, over several of its periods up and down."""
    script = """
import mmap, os, sys, time
block, failed, path = mmap.mmap(-1, 4096), 0, sys.argv[1]
descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
for at in range(60):
    try:
        os.pwrite(descriptor, block, 4096 * at)
    except OSError:
        failed += 1
    time.sleep(0.1)
print(failed)
"""
    with mapped(linear()), formatted(f"/dev/mapper/{NAME}", tmp_path / "volume") as target:
        file = target / "file"
        file.write_bytes(bytes(60 * 4096))
        run("sync")
        become(flaky())
        writer = (sys.executable, "-c", script, file)
        done = writewise("profile", "--json", "--output", tmp_path / "report", "--", *writer)
        become(linear())
    assert 0 < int(done.stdout) < 60, done.stderr
    [counted] = [
        each
        for each in json.loads((tmp_path / "report").read_text())["findings"]
        if each["label"] == "num_write"
    ]
    assert counted["failed"] == int(done.stdout)


@contextlib.contextmanager
def used(table: str, target: Path) -> Iterator[str]:
    """Make a file system on a device that can begin to fail, and works again at the end."""
    with mapped(linear()) as device, formatted(device, target):
        become(table)
        try:
            yield device
        finally:
            become(linear())


@contextlib.contextmanager
def used_logical_volume(target: Path) -> Iterator[str]:
    with logical_volume() as device, formatted(device, target):
        yield device


@pytest.mark.parametrize("kind", ["logical volume", "slow", "flaky"])
def test_knobs_of_a_mapped_device_are_applied_and_rolled_back(tmp_path: Path, kind: str) -> None:
    """It has its own read-ahead; the scheduler belongs to the disks below, and is left out."""
    target = tmp_path / "volume"
    tables = {"slow": slow(20), "flaky": flaky()}
    is_mapped = kind in tables
    with used(tables[kind], target) if is_mapped else used_logical_volume(target) as device:
        node = Path(device).resolve()
        queue = Path(f"/sys/block/{node.name}/queue/read_ahead_kb")
        before = queue.read_text()
        knobs = {"queue/read_ahead_kb": "256", "queue/scheduler": "mq-deadline"}
        present = {"queue/read_ahead_kb": before.strip(), "queue/scheduler": "none"}
        names = {"device": str(node), "name": node.name, "serial": "", "wwid": ""}
        file = recommended_knobs(target, knobs, present, tmp_path, **names)
        done = writewise("apply", file, "--yes", timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        assert queue.read_text() == "256\n"
        assert "scheduler" in done.stdout + done.stderr
        assert writewise("verify", "--applied", timeout=TIMEOUT_S).returncode == 0
        assert writewise("rollback", timeout=TIMEOUT_S).returncode == 0
        assert queue.read_text() == before


@pytest.mark.parametrize("table", [failing(), flaky(down_s=30)], ids=["error", "flakey"])
def test_a_device_that_begins_to_fail_ends_the_sweep_and_the_host_is_restored(
    source: lab.Lab, tmp_path: Path, table: str
) -> None:
    """Like an EBS volume in the middle of a trial: detached by force, or down for half a minute."""
    before, output = read_writeback(SYSTEM), tmp_path / "results.json"
    with mapped(linear()) as device, formatted(device, tmp_path / "volume", "ext4") as target:
        with subprocess.Popen(
            command(
                *("sweep", source.source, target, *endpoint_arguments(source)),
                *("--output", output, "--dirty-ratio", "30,40"),
            ),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            wait_for_change(process, before)
            become(table)
            said = process.communicate(timeout=TIMEOUT_S)[1]
        assert process.returncode == 1
        assert "Traceback" not in said
        assert read_writeback(SYSTEM) == before
        become(linear())
        run("umount", target)
        run("mount", device, target)
        taken_back = writewise("rollback", timeout=TIMEOUT_S)
        assert taken_back.returncode == 0, taken_back.stderr
        assert not list(target.glob(".writewise-*")), said + taken_back.stdout


def wait_for_change(process: subprocess.Popen[str], before: object) -> None:
    """Wait until a trial has changed the host's sysctls."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while read_writeback(SYSTEM) == before:
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.05)
