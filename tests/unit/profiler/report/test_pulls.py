# SPDX-License-Identifier: Apache-2.0
"""A measured pull as text, as a document and as progress, from figures made up for the test."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from contracts.evaluate import evaluate
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.stats import CallStats
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.pull.measured import Phase, PullMeasurement
from profiler.pull.result import Failure, Progress, PullResult, RequestTimes, Verification
from profiler.pull.resume import Resumed
from profiler.pull.source import Location, PullPlan, RemoteObject
from profiler.report.progress import shown_progress
from profiler.report.pulls import print_pull, pull_document
from profiler.watch.causes import WhyInputs
from profiler.watch.timeline import Sample, Timeline
from sysctl.knobs.writeback import Thresholds

MIB = 2**20
RULE = Rule("count", "/", (CallType.WRITE,), SizeRange(), Measurement.COUNT, 1)
CONTRACT = Contract(10**9, (RULE,))
STATS = CallStats(count=2, bytes=300 * MIB)
MEASURED = PullMeasurement(
    result=PullResult(0, 2.0, 300 * MIB, (0, 1, 2), (Failure("lost", "is gone"),)),
    durable_s=6.0,
    verification=Verification({"MD5": 1, "size only": 1}, (Failure("[bold]bad", "differs"),), 0.1),
    snapshot=ProfileSnapshot((STATS,), Losses(), 0, StallStats(3, 2, 10**9), 2 * 10**9),
    worker_count=2,
    writers_at_most=20,
)


def printed(measured: PullMeasurement) -> str:
    console = Console(file=io.StringIO(), width=120)
    stats = measured.snapshot.stats if measured.snapshot else ()
    findings = evaluate(CONTRACT, stats) if stats else ()
    print_pull(measured, findings, CONTRACT.timeframe_ns, console)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_the_stalled_share_is_of_all_workers_time() -> None:
    assert MEASURED.stalled_share == 1 / (2 * 2)


def test_a_client_that_writes_in_many_threads_has_so_much_more_time() -> None:
    """One thread writes into a file at a time, and those that came one after the other are one."""
    assert MEASURED.snapshot is not None
    of_many = replace(MEASURED, snapshot=replace(MEASURED.snapshot, writers=40))
    many_files = replace(of_many, result=replace(MEASURED.result, arrived=tuple(range(100))))
    assert many_files.stalled_share == 1 / (2 * 20)
    three_files = replace(of_many, result=replace(MEASURED.result, arrived=(0, 1, 2)))
    assert three_files.stalled_share == 1 / (2 * 3)
    one_file = replace(of_many, result=replace(MEASURED.result, arrived=(0,)))
    assert one_file.stalled_share == 1 / (2 * 1)
    one_each = replace(many_files, writers_at_most=2)
    assert one_each.stalled_share == 1 / (2 * 2)
    assert one_each.writing_threads == 2


def test_a_program_s_threads_are_those_that_were_seen_whatever_the_workers() -> None:
    program = replace(MEASURED, worker_count=96, writers_at_most=None)
    assert program.writing_threads == 1
    assert MEASURED.snapshot is not None
    for writers, threads in ((1, 1), (2, 2), (50, 3)):
        seen = replace(program, snapshot=replace(MEASURED.snapshot, writers=writers))
        assert seen.writing_threads == threads
    assert replace(program, snapshot=None).writing_threads is None


def test_sizes_and_limit_of_a_pull() -> None:
    sizes_bytes = (10 * 2**10, 10 * 2**10, 5 * 2**30)
    requests = RequestTimes(3, 2.0, 1.0)
    result = replace(MEASURED.result, sizes_bytes=sizes_bytes, requests=requests)
    measured = replace(MEASURED, result=result, snapshot=None)
    text = printed(measured)
    assert "object sizes     2 below 16.0 KiB (20.0 KiB), 1 of 4.00 GiB or more (5.00 GiB)" in text
    assert "held up by       latency" in text
    evidence = pull_document(measured, ())["evidence"]
    assert isinstance(evidence, dict)
    assert [each["objects"] for each in evidence["object_sizes"]] == [0, 2, 0, 0, 0, 0, 0, 0, 1]
    assert evidence["limit"] == "latency"


def test_a_pull_for_reading() -> None:
    text = printed(MEASURED)
    for part in (
        "3 objects, 300 MiB, 2 workers",
        "time to return   2.00 s (150 MiB/s)",
        "time to durable  6.00 s (50.0 MiB/s)",
        "writers waited   25% of the time",
        "1 object by size and MD5, 1 object by size only (as requested, or S3 has no checksum of "
        "the whole)",
        "lost: is gone",
        "[bold]bad: differs",
        "Lost: nothing",
    ):
        assert part in text


def test_a_pull_as_a_document() -> None:
    document = pull_document(MEASURED, evaluate(CONTRACT, (STATS,)))
    assert document["return_s"] == 2.0
    assert document["durable_s"] == 6.0
    assert document["stalled_share"] == 0.25
    assert document["failures"] == [
        {"key": "lost", "reason": "is gone"},
        {"key": "[bold]bad", "reason": "differs"},
    ]


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    console = Console(file=io.StringIO(), width=120)
    now_s = [0.0]
    with shown_progress(console, lambda: now_s[0]) as show:
        for second in range(12):
            now_s[0] = float(second)
            show(Phase.PULL, Progress(second * MIB, second, 20 * MIB, 20, float(second)))
        show(Phase.SYNC, None)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "pulling: 5/20 objects, 5.00 MiB of 20.0 MiB, 1.00 MiB/s, 15.0 s left",
        "pulling: 10/20 objects, 10.0 MiB of 20.0 MiB, 1.00 MiB/s, 10.0 s left",
        "waiting for the device",
    ]


def test_on_a_terminal_progress_is_a_bar_of_objects_and_bytes() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with shown_progress(console) as show:
        show(Phase.PULL, Progress(5 * MIB, 5, 20 * MIB, 20, 1.0))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "pulling 5/20 objects" in text
    assert "5.0/20.0 MiB" in text


def sample_of(freerun_bytes: int) -> str:
    """What is printed of a pull of 300 MiB of 3 GiB where writers wait from so many bytes on."""
    thresholds = Thresholds(0, 2 * freerun_bytes)
    taken = Sample(0, 0, 0, thresholds)
    why = WhyInputs(STATS, 1, StallStats(), timeline=Timeline((taken, taken), taken, None))
    objects = tuple(RemoteObject(str(n), str(n), 100 * MIB, "") for n in range(2))
    plan = PullPlan(Location("b", ""), objects, (), 100 * MIB, 30, 3000 * MIB)
    resumed = Resumed(plan, (RemoteObject("2", "2", 100 * MIB, ""),))
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        print_pull(replace(MEASURED, why=why), (), CONTRACT.timeframe_ns, console, resumed)
    return captured.get()


def test_a_sample_says_what_it_left_out() -> None:
    text = sample_of(100 * MIB)
    assert "sample           300 MiB of 2.93 GiB, 3 of 30 objects; the rest was not" in text
    assert "fits below" not in text


def test_a_sample_below_freerun_says_what_it_cannot_show() -> None:
    assert "it fits below the 1000 MiB from which writers are slowed down" in sample_of(1000 * MIB)
    assert "fits below" not in sample_of(4000 * MIB)
