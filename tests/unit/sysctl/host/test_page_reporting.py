# SPDX-License-Identifier: Apache-2.0
"""Whether a hypervisor takes back free memory, and the benchmarks' pause of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sysctl.host.page_reporting import ORDER_FILE, reported_block_bytes
from sysctl.host.system import System
from tests.bench.page_reporting import paused

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BALLOON = ("0x0005", "0110010100000000")


def host(root: Path, order: int | None, *devices: tuple[str, str]) -> System:
    system = System(root)
    for number, (kind, features) in enumerate(devices):
        folder = system.path(f"/sys/bus/virtio/devices/virtio{number}")
        folder.mkdir(parents=True)
        (folder / "device").write_text(f"{kind}\n")
        (folder / "features").write_text(f"{features}\n")
    if order is not None:
        system.path(ORDER_FILE).parent.mkdir(parents=True)
        system.path(ORDER_FILE).write_text(f"{order}\n")
    return system


@pytest.mark.parametrize(
    ("order", "devices", "blocks"),
    [
        (5, [("0x0001", "1" * 16), BALLOON], 32 * PAGE_BYTES),
        (0, [BALLOON], PAGE_BYTES),
        (11, [BALLOON], None),
        (-1, [BALLOON], None),
        (5, [("0x0005", "0110000000000000")], None),
        (5, [("0x0005", "")], None),
        (5, [("0x0002", "1" * 16)], None),
        (5, [], None),
        (None, [BALLOON], None),
    ],
)
def test_a_balloon_that_reports_free_pages_is_seen(
    tmp_path: Path, order: int | None, devices: list[tuple[str, str]], blocks: int | None
) -> None:
    assert reported_block_bytes(host(tmp_path, order, *devices)) == blocks


def test_a_benchmark_that_ends_leaves_it_as_it_was(tmp_path: Path) -> None:
    system = host(tmp_path, 5, BALLOON)
    with pytest.raises(KeyboardInterrupt), paused(system):
        assert reported_block_bytes(system) is None
        raise KeyboardInterrupt
    assert system.read(ORDER_FILE) == "5"


def test_a_benchmark_that_is_killed_leaves_it_as_it_was(tmp_path: Path) -> None:
    system = host(tmp_path, 5, BALLOON)
    code = (
        "import sys, time; from pathlib import Path; from sysctl.host.system import System;"
        "from tests.bench.page_reporting import paused\n"
        "with paused(System(Path(sys.argv[1]))): print('paused', flush=True); time.sleep(60)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    with killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"paused\n"
        assert system.read(ORDER_FILE) == "11"
        killed.send_signal(signal.SIGKILL)
    end_s = time.monotonic() + 10
    while system.read(ORDER_FILE) != "5" and time.monotonic() < end_s:
        time.sleep(0.01)
    assert system.read(ORDER_FILE) == "5"


def test_a_second_benchmark_at_the_same_time_is_refused(tmp_path: Path) -> None:
    system = host(tmp_path, 5, BALLOON)
    with paused(system):
        with pytest.raises(SystemExit, match="paused already"), paused(system):
            pass
        assert reported_block_bytes(system) is None
    assert system.read(ORDER_FILE) == "5"


def test_page_reporting_cannot_be_paused_if_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="cannot be paused"), paused(System(tmp_path)):
        pass
