# SPDX-License-Identifier: Apache-2.0
"""Is it write-back? From figures made up for each reason to wait."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from contracts.model import CallType, SizeRange, Slot
from contracts.stats import CallStats
from profiler.bpf.probes.waits import StalledWriter, StallStats, decode_stalled
from profiler.report.verdict import print_verdict, sentence
from profiler.watch.causes import WhyInputs
from profiler.watch.verdict import Answer, verdict_of, volume_name
from profiler.watch.write_calls import fsyncs_of
from sysctl.host.mount_table import Mount

S = 10**9
MOUNTS = (
    Mount("259:1", "/", "/", ("rw",), "ext4", "/dev/nvme0n1p1", ("rw",)),
    Mount("259:3", "/", "/data", ("rw",), "xfs", "/dev/nvme1n1", ("rw",)),
    Mount("259:3", "/sub", "/data/again", ("rw",), "xfs", "/dev/nvme1n1", ("rw",)),
)
STALLED = (
    StalledWriter("aws", "259:3", 30 * S),
    StalledWriter("aws", "259:0", 6 * S),
    StalledWriter("tar", "259:3", 4 * S),
)
NOTHING = WhyInputs(CallStats(), 60 * S, StallStats(), writers=0)


def calls(seconds: float, **waits: float) -> CallStats:
    times: Any = {f"{name}_ns": int(value * S) for name, value in waits.items()}
    return CallStats(count=100, bytes=2**30, latency_total_ns=int(seconds * S), **times)


THROTTLED = replace(
    NOTHING,
    calls=calls(46, throttled=40),
    stall=StallStats(pauses=400, total_ns=40 * S),
    writers=4,
    stalled=STALLED,
)


@pytest.fixture
def sysfs(tmp_path):
    """A partition 259:1 on the disk 259:0, and a disk 259:3."""
    for disk, number in (("nvme0n1", "259:0"), ("nvme1n1", "259:3")):
        folder = tmp_path / "block" / disk
        folder.mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
    partition = tmp_path / "block/nvme0n1/nvme0n1p1"
    partition.mkdir()
    (partition / "partition").write_text("1\n")
    (tmp_path / "dev/block").mkdir(parents=True)
    (tmp_path / "dev/block/259:1").symlink_to(partition)
    (tmp_path / "dev/block/259:3").symlink_to(tmp_path / "block/nvme1n1")
    return tmp_path


@pytest.mark.parametrize(
    ("why", "answer", "waited_s"),
    [
        (THROTTLED, Answer.WRITE_BACK, 40),
        (
            replace(NOTHING, stall=StallStats(pauses=9, total_ns=20 * S), stalled=STALLED),
            Answer.WRITE_BACK,  # of stores to mapped files
            20,
        ),
        (replace(NOTHING, calls=calls(30, device_wait=25)), Answer.DEVICE, 25),
        (replace(NOTHING, calls=calls(1), fsyncs=calls(50, device_wait=50)), Answer.FSYNC, 50),
        (replace(THROTTLED, fsyncs=calls(50)), Answer.FSYNC, 50),
        (replace(THROTTLED, fsyncs=calls(30)), Answer.WRITE_BACK, 40),
        (replace(NOTHING, calls=calls(30, sleeping=25)), Answer.OTHER, 25),
        (replace(NOTHING, calls=calls(30, queued=25)), Answer.OTHER, 25),
        (replace(NOTHING, calls=calls(1, throttled=0.5)), Answer.NOTHING_WAITED, 0),
        (replace(NOTHING, calls=calls(30)), Answer.NOTHING_WAITED, 0),  # copying
        (replace(NOTHING, fsyncs=calls(2)), Answer.NOT_WRITING, 0),
        (NOTHING, Answer.NOT_WRITING, 0),
    ],
)
def test_the_answer_is_what_writers_waited_for_longest(why, answer, waited_s, sysfs):
    found = verdict_of(why, MOUNTS, sysfs)
    assert (found.answer, found.waited_ns) == (answer, waited_s * S)
    assert bool(found.volumes) is (answer is Answer.WRITE_BACK)


def test_volumes_and_commands_have_their_shares_of_the_sleeps(sysfs):
    found = verdict_of(THROTTLED, MOUNTS, sysfs)
    assert [(each.name, each.share) for each in found.volumes] == [
        ("/data", pytest.approx(0.85)),
        ("/", pytest.approx(0.15)),
    ]
    assert [(each.name, each.share) for each in found.commands] == [("aws", 0.9), ("tar", 0.1)]


def test_a_device_without_a_mount_goes_by_its_own_name(sysfs):
    assert volume_name("btrfs-1", MOUNTS, sysfs) == "btrfs-1"


def test_a_contract_without_writes_has_no_verdict(sysfs):
    assert verdict_of(replace(NOTHING, call_types=(CallType.READ,)), MOUNTS, sysfs) is None


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (THROTTLED, "yes, it is write-back. In 60.0 s, 4 writers slept 40.0 s in all"),
        (THROTTLED, "87% of their time in write calls."),
        (replace(NOTHING, calls=calls(1), writers=1), "1 writer wrote 1.00 GiB and spent 1.00 s"),
        (replace(NOTHING, fsyncs=calls(50)), "no, it is fsync. In 60.0 s, threads spent 50.0 s"),
        (replace(NOTHING, calls=calls(30, queued=25), writers=9), "waited 25.0 s in all for a CPU"),
        (NOTHING, "no, nothing was written in 60.0 s."),
    ],
)
def test_the_sentence_has_the_figures(why, words, sysfs):
    assert words in sentence(verdict_of(why, MOUNTS, sysfs), why)


@pytest.mark.parametrize(
    ("why", "next_line"),
    [
        (THROTTLED, "writewise sweep s3://BUCKET/PREFIX /data"),
        (replace(THROTTLED, stalled=()), "writewise sweep s3://BUCKET/PREFIX DEST"),
        (NOTHING, "writewise profile"),
        (replace(NOTHING, calls=calls(30, sleeping=25)), "writewise profile --pid PID"),
    ],
)
def test_it_ends_with_a_command(why, next_line, sysfs):
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured:
        print_verdict(verdict_of(why, MOUNTS, sysfs), why, console)
    (line,) = (each for each in captured.get().splitlines() if each.startswith("Next: "))
    assert line.startswith("Next: sudo ") and line.endswith(next_line)


def test_the_map_of_the_kernel_is_read():
    key = b"aws\0garbage\0\0\0\0\0" + b"259:3".ljust(32, b"\0")
    assert decode_stalled({key: (5).to_bytes(8, "little")}) == {("aws", "259:3"): 5}


def test_fsyncs_are_those_of_a_rule_of_them_alone():
    fsyncs = Slot("/", (CallType.FSYNC,), SizeRange())
    both = Slot("/", (CallType.WRITE, CallType.FSYNC), SizeRange())
    assert fsyncs_of({both: calls(9)}) is None
    assert fsyncs_of({both: calls(9), fsyncs: calls(2)}) == calls(2)
