# SPDX-License-Identifier: Apache-2.0
"""If write-back settings do not help, or not enough, Writewise says so and why.

Each case is a sweep on a lab made for it, and `advise` on its results.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.lab import lab
from sysctl.evidence.results import CANDIDATE, load
from sysctl.evidence.runs import Runs
from sysctl.host.host import Host
from tests.root.labs import (
    MIB,
    SMALL,
    endpoint_arguments,
    guarded,
    wait_until_nobody_writes,
    writewise,
)

#: A node so small that the current settings, the kernel's defaults, make writers wait.
SMALL_NODE = replace(
    SMALL,
    memory_bytes=1536 * MIB,
    volume_bytes=4096 * MIB,
    rate_bytes_per_s=150 * MIB,
    object_count=160,
    object_bytes=16 * MIB,
)


#: The cases of a sweep that other programs on the host disturbed.
DISTURBED = ("too noisy to tell", "nothing else could be measured")


@pytest.fixture(autouse=True)
def state(tmp_path: Path) -> Iterator[Path]:
    with guarded(tmp_path) as state:
        yield state


def swept(made: lab.Lab, output: Path, *options: object) -> None:
    words = ("sweep", made.source, made.destination, *endpoint_arguments(made))
    for _ in range(4):  # a sweep gives up if other programs disturb it
        wait_until_nobody_writes()
        again = ["--resume"] if output.exists() else []
        done = writewise(*words, "--output", output, *options, *again, timeout=240)
        print(done.stdout, done.stderr)
        if "no valid pull" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr


def advised(output: Path, tmp_path: Path) -> tuple[str, dict[str, object]]:
    """Return what `advise` prints on a terminal, joined to one line, and its JSON document."""
    said = writewise("advise", output, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    document = json.loads(writewise("advise", output, "--json", cwd=tmp_path).stdout)
    return " ".join(said.stdout.split()), document


def undisturbed(
    made: lab.Lab, output: Path, tmp_path: Path, *options: object
) -> tuple[str, dict[str, object]]:
    """Sweep until the advice is about the settings, at most three times; see `advised`."""
    for _ in range(3):
        swept(made, output, *options)
        said, document = advised(output, tmp_path)
        if document["case"] not in DISTURBED:
            break
        output.unlink()
    return said, document


def test_a_device_faster_than_the_source_leaves_nothing_to_gain(tmp_path):
    """Both workers have one slow connection each; the device keeps up with them."""
    output = tmp_path / "results.json"
    slow_source = replace(SMALL, object_count=24, connection_bytes_per_s=20_000_000)
    with (
        lab.running(slow_source) as made,
        Host.exclusive("present", "test") as host,
    ):
        host.set_writeback({"vm.dirty_bytes": 96 * MIB, "vm.dirty_background_bytes": 2 * MIB})
        said, document = undisturbed(made, output, tmp_path, "--transfer", "use_threads=false")
    assert document["case"] == "writers do not wait"
    assert re.search(r"Why: Writers never waited: the source delivered \d", said)
    assert "it is as fast as the source" in said
    tried = [trial.setting.values for trial in Runs.of(load(output)).of_role(CANDIDATE)]
    ratios = {values.get("vm.dirty_ratio") for values in tried}
    assert ratios == set(), "no threshold can help, so none is tried"


def test_a_burst_far_larger_than_memory_names_the_volume_it_needs(tmp_path):
    """Both connections are slow enough for any host, so what is needed hangs on no CPU."""
    output = tmp_path / "results.json"
    device_bytes_per_s = 150 * MIB
    smaller = replace(
        SMALL_NODE,
        memory_bytes=1280 * MIB,
        object_count=128,
        rate_bytes_per_s=device_bytes_per_s,
        connection_bytes_per_s=175_000_000,
    )
    with lab.running(smaller) as made:
        options = ("--dirty-ratio", 21, "--transfer", "use_threads=false")
        said, document = undisturbed(made, output, tmp_path, *options)
    assert document["case"] == "burst beyond memory"
    assert "Why: The pull of 2.00 GiB does not fit this host's memory" in said
    rate = r"([\d.]+) ([MG]iB)/s"
    needed = re.search(rf"What would help: a volume that writes {rate}, ([\d.]+) times", said)
    device = re.search(rf"the device writes {rate}", said)
    assert bytes_of(device) == pytest.approx(device_bytes_per_s, rel=0.1)
    assert bytes_of(needed) > 1.1 * bytes_of(device)
    assert float(needed[3]) == pytest.approx(bytes_of(needed) / bytes_of(device), rel=0.05)


def bytes_of(rate: re.Match[str]) -> float:
    return float(rate[1]) * {"MiB": MIB, "GiB": 1024 * MIB}[rate[2]]


def test_small_files_on_a_volume_of_few_operations_are_no_matter_of_thresholds(tmp_path):
    output = tmp_path / "results.json"
    small_files = replace(SMALL, object_count=400, object_bytes=16 * 1024, iops=100)
    with lab.running(small_files) as made:
        said, document = undisturbed(made, output, tmp_path)
    assert document["case"] == "writers do not wait"
    assert "The 400 objects have 16.0 KiB each" in said
    assert "needs operations per second (IOPS) of a volume rather than throughput" in said


def test_a_neighbour_on_the_volume_is_not_taken_for_a_gain(tmp_path):
    """The candidate is as good as the current setting, but the volume's speed varies."""
    output = tmp_path / "results.json"
    spec = replace(SMALL_NODE, object_count=32)
    with lab.running(spec) as made, neighbour(Path(made.destination)):
        swept(made, output, "--dirty-ratio", 21, "--budget", "13")
    said, document = advised(output, tmp_path)
    assert document["case"] in ("too noisy to tell", "no difference", "burst beyond memory")
    assert "No change recommended" in said


@contextlib.contextmanager
def neighbour(folder: Path) -> Iterator[None]:
    """Write large amounts past the page cache to the same volume, now and then."""
    ended, data, busy = threading.Event(), mmap.mmap(-1, MIB), threading.Event()
    path = folder / "neighbour"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)

    def write(place: int) -> None:
        while not ended.is_set():
            if busy.wait(0.1):
                os.pwrite(file, data, place * MIB)

    def rest() -> None:
        for seconds in itertools.cycle((1.7, 0.4, 2.9, 0.8, 0.2, 2.1)):
            busy.clear() if busy.is_set() else busy.set()
            if ended.wait(seconds):
                return

    threads = [threading.Thread(target=write, args=(place,)) for place in range(16)]
    threads.append(threading.Thread(target=rest))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        os.close(file)
        path.unlink()
