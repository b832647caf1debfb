# SPDX-License-Identifier: Apache-2.0
"""`writewise govern` on the real kernel: bursts onto a capped volume, kills, other programs.

The host's own thresholds are small here, so that bursts of 300 MiB are throttled at rest.
WRITEWISE_GOVERN_KILLS=200 makes 200 kills.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.shared import exit_codes
from profiler.govern.dirty_events import opened_dirty_events
from profiler.lab import lab
from sysctl.host.sysctls import sysctl_path
from sysctl.knobs.writeback import Thresholds
from tests.root.governing import (
    BOUND,
    BOUNDED,
    RATE_MIB_PER_S,
    REST,
    SIZE_MIB,
    Outside,
    at_rest_after_s,
    burst,
    capped,
    file_on,
    governor,
    in_force,
    remove_files,
    small_thresholds,
    start_burst,
    wait_until_drained,
    without_dirty_pages,
)
from tests.root.hosts import SLOWNESS, is_emulated
from tests.root.labs import (
    MIB,
    SYSTEM,
    volume,
    wait_until,
    writewise,
)

KILLS = int(os.environ.get("WRITEWISE_GOVERN_KILLS", "5"))
SEED = int(os.environ.get("WRITEWISE_KILL_SEED", "5"))


#: Looks in a second at rest, each with some waits for a CPU; 20 looks if it polled.
LOOKS_PER_S, WAITS_OF_A_LOOK = 2, 3


@pytest.fixture(scope="module")
def host_at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A capped volume, on a host whose own thresholds are small."""
    with small_thresholds(tmp_path_factory.mktemp("govern")) as present:
        yield present


@pytest.fixture
def present(host_at_rest: lab.Lab) -> Iterator[lab.Lab]:
    """The same, without dirty pages before and after the test."""
    with without_dirty_pages(host_at_rest) as present:
        yield present


def test_a_burst_returns_fast_and_the_host_is_soon_at_rest(present: lab.Lab) -> None:
    at_rest_s = burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))["return_s"]
    remove_files(present)
    with governor(present.destination, *BOUNDED) as process, Outside().looking() as outside:
        assert in_force() == REST
        governed_s = burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))["return_s"]
        wait_until_drained(REST["vm.dirty_background_bytes"])
        assert wait_until(lambda: in_force() == REST, 3)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        text, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert governed_s < at_rest_s / 2
    assert any(each.values != REST for each in outside.seen)
    assert max(each.dirty_bytes for each in outside.seen) <= BOUND
    assert all(each.background_bytes < each.dirty_bytes for each in outside.seen)
    assert at_rest_after_s(outside.seen, REST, REST["vm.dirty_background_bytes"]) <= 3
    lines = text.splitlines()
    size = re.search(r" burst of (\d+) MiB ", lines[0])
    assert size, lines
    assert SIZE_MIB - 10 <= int(size[1]) <= SIZE_MIB + 10  # less what came before the first look
    assert "saved about" in lines[0] or is_emulated()  # there it has too few looks at a burst
    assert lines[1].startswith("1 burst in ")


def test_a_dry_run_changes_nothing_and_predicts_the_gain(present: lab.Lab) -> None:
    with (
        governor(present.destination, *BOUNDED, "--dry-run") as process,
        Outside().looking() as outside,
    ):
        took_s = burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))["return_s"]
        wait_until_drained(REST["vm.dirty_background_bytes"])
        time.sleep(1)
        assert writewise("rollback").returncode == 0  # it holds no lock
        process.terminate()
        text, _ = process.communicate(timeout=20)
    assert {tuple(each.values.items()) for each in outside.seen} == {tuple(REST.items())}
    assert "would have saved about" in text
    assert took_s > 2


def test_a_burst_onto_another_volume_raises_nothing(present: lab.Lab, tmp_path: Path) -> None:
    with (
        volume(tmp_path / "named") as named,
        governor(named, *BOUNDED) as process,
        Outside().looking() as outside,
    ):
        took_s = burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))["return_s"]
        process.terminate()
        text, _ = process.communicate(timeout=20)
    assert all(each.values == REST for each in outside.seen)
    assert took_s > 2
    assert "no burst" in text


def test_it_yields_to_a_program_that_sets_the_same_sysctl(present: lab.Lab) -> None:
    try:
        with governor(present.destination, *BOUNDED) as process:
            writer = start_burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))
            assert wait_until(lambda: in_force() != REST, 10)
            SYSTEM.write(sysctl_path("vm.dirty_bytes"), str(100 * MIB))
            text, _ = process.communicate(timeout=20)
            writer.communicate(timeout=60)
        assert process.returncode == exit_codes.STOOD_DOWN
        assert f"to vm.dirty_bytes = {100 * MIB}: standing down for good" in text
        assert in_force() == {**REST, "vm.dirty_bytes": 100 * MIB}
    finally:
        SYSTEM.write(sysctl_path("vm.dirty_bytes"), str(REST["vm.dirty_bytes"]))
    assert in_force() == REST


def test_other_writers_are_refused_and_learn_its_name(present: lab.Lab) -> None:
    with governor(present.destination, *BOUNDED):
        for words in (("rollback",), ("govern", present.destination)):
            refused = writewise(*words)
            assert refused.returncode != 0
            assert f"govern of {present.destination}, process" in refused.stderr


def test_killed_at_any_moment_the_rollback_restores_the_host(present: lab.Lab) -> None:
    random_times = random.Random(SEED)
    raised = 0
    for _ in range(KILLS):
        with governor(present.destination, *BOUNDED) as process:
            writer = start_burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))
            time.sleep(random_times.uniform(0.1, 1.2) * SLOWNESS)
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        raised += in_force() != REST
        assert writewise("rollback", "--interrupted").returncode == 0
        assert in_force() == REST
        writer.kill()
        writer.communicate()
        remove_files(present)
    assert raised


def test_it_sleeps_until_pages_become_dirty(present: lab.Lab) -> None:
    """At rest it does not poll. Other programs of the host may dirty pages in one of the looks."""
    with governor(present.destination, *BOUNDED) as process:
        time.sleep(1)
        assert wait_until(
            lambda: waits_in_a_second(process.pid) <= LOOKS_PER_S * WAITS_OF_A_LOOK, 30
        )
        writer = start_burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))
        assert wait_until(lambda: in_force() != REST, 5)
        writer.communicate(timeout=60)


def test_events_come_from_writers_and_end_with_them(present: lab.Lab) -> None:
    at_rest = Thresholds(1024 * MIB, 2048 * MIB)  # more than 25.6 MiB wakes
    with opened_dirty_events(at_rest) as events:
        assert events is not None
        assert wait_until(lambda: not events.wait(0.5), 20)
        writer = start_burst(file_on(present), SIZE_MIB, RATE_MIB_PER_S, capped(present))
        assert events.wait(10 * SLOWNESS)
        writer.communicate(timeout=60 * SLOWNESS)
        wait_until_drained(MIB)
        assert wait_until(lambda: not events.wait(0.5), 20)


def waits_in_a_second(pid: int) -> int:
    """Return how often a process gave its CPU up by itself within a second."""
    before = voluntary_waits(pid)
    time.sleep(1)
    return voluntary_waits(pid) - before


def voluntary_waits(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
