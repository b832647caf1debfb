# SPDX-License-Identifier: Apache-2.0
"""Every sentence and line on why writes were slow, from made-up figures."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import pytest
from rich.console import Console

from contracts.causes import Cause
from contracts.model import CallType, SizeRange, Slot
from contracts.stats import CallStats
from profiler.bpf.disks import BlockDevice
from profiler.bpf.probes.block import DeviceStats, DeviceTotals, RequestStats
from profiler.bpf.probes.waits import StallStats
from profiler.report.why import CauseText, explain, print_why, why_document
from profiler.watch.causes import WhyInputs
from profiler.watch.timeline import Sample, Timeline
from profiler.watch.write_calls import WriteCalls, widest_writes
from sysctl.knobs.writeback import Thresholds

S, MIB = 10**9, 2**20
THRESHOLDS = Thresholds(500 * MIB, 1000 * MIB)
DISK = BlockDevice("nvme1n1", 259 << 20)


def calls(total_s: float, **waits_s: float) -> CallStats:
    waits: dict[str, Any] = {f"{name}_ns": int(s * S) for name, s in waits_s.items()}
    return CallStats(7680, 1920 * MIB, latency_total_ns=int(total_s * S), **waits)


def sample(time_s: float, dirty_mib: int, **figures: Any) -> Sample:
    return Sample(int(time_s * S), dirty_mib * MIB, 0, THRESHOLDS, **figures)


def timeline(*samples: Sample, devices: tuple[str, ...] = ()) -> Timeline:
    crossing = next((one for one in samples if one.is_above_freerun), None)
    return Timeline(samples, max(samples, key=lambda one: one.held_bytes), crossing, devices)


CROSSED = timeline(sample(0, 10), sample(1.5, 760), sample(18.6, 800))
THROTTLED = WhyInputs(
    calls=calls(16.0, throttled=15.2, sleeping=0.1),
    elapsed_ns=int(18.6 * S),
    stall=StallStats(events=100, pauses=90, total_ns=int(15.2 * S)),
    writers=1,
    timeline=CROSSED,
)


def change(**changes: Any) -> CauseText:
    return explain(dataclasses.replace(THROTTLED, **changes))


def test_throttling_by_a_burst() -> None:
    explanation = explain(THROTTLED)
    assert explanation.cause is Cause.THROTTLING
    assert explanation.sentence == (
        "Writers were stalled 15.2 of 18.6 s by dirty throttling: the burst of 1.88 GiB passed "
        "the freerun ceiling of 750 MiB after 1.50 s."
    )
    assert explanation.blind_spots == ()


def test_several_writers_are_compared_with_their_time_in_write_calls() -> None:
    two = change(calls=calls(31, throttled=29.1), writers=2, elapsed_ns=int(19.45 * S))
    assert two.sentence.startswith(
        "2 writers were stalled 29.1 of 31.0 s in write calls (of all threads, in 19.4 s) by dirty "
        "throttling: the burst"
    )


@pytest.mark.parametrize("writers", [None, 1])
def test_more_time_than_the_run_has_is_that_of_all_threads(writers: int | None) -> None:
    many = change(calls=calls(31, throttled=29.1), writers=writers)
    assert many.sentence.startswith(
        "Writers were stalled 29.1 of 31.0 s in write calls (of all threads, in 18.6 s) by dirty"
    )


def test_a_wait_that_is_not_the_most_says_so() -> None:
    sentence = change(calls=calls(10, sleeping=2), stall=StallStats()).sentence
    assert sentence.startswith("Writers slept 2.00 of 18.6 s for a reason other than the")
    assert sentence.endswith("More of the time, 80%, was on a CPU, mostly copying.")


def test_throttled_stores_to_mapped_files_are_reported() -> None:
    mapped = change(calls=calls(0.001))
    assert mapped.cause is Cause.THROTTLING
    assert mapped.sentence == (
        "Threads were stalled 15.2 s (all together, in 18.6 s) by dirty throttling outside of the "
        "calls counted, as stores to mapped files are: dirty memory passed the freerun ceiling of "
        "750 MiB after 1.50 s."
    )


def test_a_burst_is_what_goes_to_a_disk() -> None:
    some = dataclasses.replace(calls(16.0, throttled=15.2), unbacked_bytes=920 * MIB)
    assert "the burst of 1000 MiB passed" in change(calls=some).sentence


def test_another_unit_is_reported() -> None:
    stall = StallStats(total_ns=int(0.9 * S))
    short = change(calls=calls(1.5, throttled=0.9), stall=stall)
    assert short.sentence.startswith("Writers were stalled 900 ms of 18.6 s by")


def test_above_the_ceiling_from_the_start() -> None:
    assert change(timeline=timeline(sample(0, 760), sample(18.6, 800))).sentence.endswith(
        "by dirty throttling: dirty memory was above the freerun ceiling of 750 MiB from the start."
    )


def test_throttled_below_the_hosts_ceiling() -> None:
    assert change(timeline=timeline(sample(0, 10), sample(18.6, 300))).sentence.endswith(
        ": the host's dirty memory was not seen above the freerun ceiling of 750 MiB (at most "
        "300 MiB), so a limit of the device or of a control group was reached."
    )


def test_throttled_and_no_timeline() -> None:
    stall = StallStats(
        total_ns=int(15.2 * S), dirty_max_bytes=800 * MIB, limit_max_bytes=1000 * MIB
    )
    assert change(timeline=None, stall=stall).sentence.endswith(
        ": up to 800 MiB was dirty, against a limit of 1000 MiB (no timeline was taken)."
    )


@pytest.mark.parametrize(
    ("cause", "waits", "words"),
    [
        (Cause.DEVICE, {"device_wait": 9}, "waited 9.00 of 18.6 s for the device: they write thr"),
        (Cause.SLEEPING, {"sleeping": 9}, "slept 9.00 of 18.6 s for a reason other than the d"),
        (Cause.QUEUED, {"queued": 9}, "waited 9.00 of 18.6 s for a CPU while in write calls:"),
        (Cause.ON_CPU, {"sleeping": 0.3}, "spent 9.70 of 18.6 s on a CPU in write calls, mostly"),
    ],
)
def test_other_causes(cause: Cause, waits: dict[str, float], words: str) -> None:
    explanation = change(calls=calls(10, **waits), stall=StallStats())
    assert explanation.cause is cause
    assert explanation.sentence.startswith(f"Writers {words}")


def test_writes_in_the_hands_of_io_uring() -> None:
    explanation = change(calls=calls(10, asynchronous=9), stall=StallStats())
    assert explanation.cause is Cause.ASYNCHRONOUS
    assert explanation.sentence == (
        "io_uring handled the writes for 9.00 of 18.6 s, while writers could do other "
        "things; the causes of its waits are unknown."
    )


def test_of_two_waits_the_longer_is_the_cause() -> None:
    assert change(calls=calls(16, throttled=7, device_wait=8)).cause is Cause.DEVICE


def test_a_wait_is_the_cause_although_the_copying_took_longer() -> None:
    assert change(calls=calls(10, throttled=1.1)).cause is Cause.THROTTLING
    assert change(calls=calls(10, throttled=0.9)).cause is Cause.ON_CPU


def test_nothing_was_slow() -> None:
    stall = StallStats(total_ns=int(0.15 * S))
    explanation = change(calls=calls(0.2, throttled=0.15), writers=2, stall=stall)
    assert explanation.cause is None
    assert explanation.sentence == (
        "Writes were not slow: 2 writers spent 200 ms in them, all together, of 18.6 s."
    )
    one = change(calls=calls(0.2), stall=stall).sentence
    assert one == "Writes were not slow: writers spent 200 ms in them, all together, of 18.6 s."


def test_nothing_was_counted() -> None:
    nothing = change(calls=CallStats(), stall=StallStats())
    assert nothing.sentence.startswith("No write was counted")
    assert change(calls=CallStats(), call_types=()).sentence.startswith("No rule of the contract")


def test_the_parts_add_up() -> None:
    stats = calls(16, throttled=9, device_wait=3, sleeping=1, queued=1, asynchronous=1)
    parts = change(calls=stats).parts
    assert [part.time_ns // S for part in parts] == [9, 3, 1, 1, 1, 1]
    assert sum(part.time_ns for part in parts) == stats.latency_total_ns
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_throttling_outside_the_calls() -> None:
    (line,) = change(stall=StallStats(total_ns=18 * S)).blind_spots
    assert line.startswith("Dirty throttling of 2.80 s was outside the calls counted: stores to")
    assert change(stall=StallStats(total_ns=int(15.9 * S))).blind_spots == ()


def disks(*written_mib: int) -> tuple[tuple[BlockDevice, DeviceStats], ...]:
    """Disks, each of which stores on the one before it."""
    return tuple(
        (
            BlockDevice(f"sd{index}", index, tuple(range(index))),
            DeviceStats(writes=RequestStats(8, mib * MIB, untimed=8)),
        )
        for index, mib in enumerate(written_mib)
    )


def test_the_device_wrote_more_than_was_counted() -> None:
    (line,) = change(devices=disks(1920 + 1229)).blind_spots
    assert line.startswith("The device wrote 1.20 GiB more than was counted: stores to mapped")
    assert line.endswith("metadata or the journal.")


@pytest.mark.parametrize(("counted_mib", "written_mib"), [(1920, 2010), (10, 25), (1920, 1000)])
def test_a_small_excess_is_not_a_blind_spot(counted_mib: int, written_mib: int) -> None:
    stats = dataclasses.replace(THROTTLED.calls, bytes=counted_mib * MIB)
    assert change(calls=stats, devices=disks(written_mib)).blind_spots == ()


def test_bytes_dirty_before_are_named() -> None:
    before = timeline(sample(0, 600), sample(1.5, 760), sample(18.6, 700))
    (line,) = change(devices=disks(1920 + 1229), timeline=before).blind_spots
    assert line.endswith("the journal; 600 MiB was dirty before the run began.")


def test_a_disk_on_a_disk_is_counted_once() -> None:
    assert change(devices=disks(1930, 1920)).blind_spots == ()


def test_two_disks_are_counted_together() -> None:
    two = tuple((BlockDevice(f"sd{i}", i), disks(1500)[0][1]) for i in range(2))
    (line,) = change(devices=two).blind_spots
    assert line.startswith("The devices wrote 1.05 GiB more than was counted")


def test_figures_of_memory_pressure_and_disks() -> None:
    before = (DeviceTotals(0, 0),)
    after = (DeviceTotals(0, 640 * MIB),)
    run = timeline(
        sample(0, 10, io_some_ns=0, io_full_ns=0, devices=before),
        sample(8, 760, io_some_ns=0, io_full_ns=0, devices=before),
        sample(18, 600, io_some_ns=9 * 10**9, io_full_ns=45 * 10**8, devices=after),
        devices=("nvme1n1",),
    )
    buckets = (0,) * 100 + (10,) + (0,) * 523
    writes = RequestStats(10, 640 * MIB, 0, 0, 10**6, 10**5, 10**5, buckets)
    explanation = change(timeline=run, devices=((DISK, DeviceStats(writes=writes)),))
    assert explanation.figures == (
        "Dirty memory of the host: at most 760 MiB, 600 MiB not yet on a device at the end; "
        "background threshold 500 MiB, freerun ceiling 750 MiB, exceeded for 10.0 s.",
        "Pressure: some task waited for I/O 50% of the time, all tasks 25%.",
        "nvme1n1: wrote 640 MiB in 10 requests, 34.4 MiB/s (64.0 MiB/s while above the background "
        "threshold); a request took p50 100 µs, p99 100 µs.",
    )


def test_a_disk_that_wrote_nothing_and_one_request() -> None:
    explanation = change(timeline=None, devices=((DISK, DeviceStats()),))
    assert explanation.figures == ("nvme1n1: wrote 0 B in 0 requests, 0 B/s.",)
    writes = RequestStats(count=1, bytes=MIB, untimed=1)
    one = change(timeline=None, devices=((DISK, DeviceStats(writes=writes)),))
    assert one.figures == ("nvme1n1: wrote 1.00 MiB in 1 request, 55.1 KiB/s.",)


def test_joined_calls_are_reported() -> None:
    (line,) = change(call_types=(CallType.READ, CallType.WRITE)).blind_spots
    assert line.startswith("The split is of read+write together:")


def printed(explanation: CauseText) -> list[str]:
    output = io.StringIO()
    print_why(explanation, Console(file=output, width=80))
    return [line.rstrip() for line in output.getvalue().splitlines()]


def test_the_report_in_print() -> None:
    lines = printed(change(timeline=None))
    assert [line.split() for line in lines if line.startswith(("dirty", "on CPU", "together"))] == [
        ["dirty", "throttling", "15.2", "s", "95.0", "%"],
        ["on", "CPU", "700", "ms", "4.4", "%"],
        ["together", "16.0", "s", "100.0", "%"],
    ]
    assert printed(change(calls=CallStats(), timeline=None, stall=StallStats())) == [
        "No write was counted, so there is none to explain."
    ]


def test_the_document() -> None:
    document = json.loads(json.dumps(why_document(explain(THROTTLED))))
    assert document["cause"] == "dirty throttling"
    assert document["split"][0] == {
        "cause": "dirty throttling", "time_ns": int(15.2 * S), "share": 0.95,
    }  # fmt: skip
    assert why_document(change(calls=calls(0.1), stall=StallStats()))["cause"] is None


def test_a_kernel_that_does_not_report_io_uring_is_a_blind_spot() -> None:
    (line,) = change(sees_uring=False).blind_spots
    assert line.startswith("Requests to io_uring are not counted")


def test_bytes_on_no_disk_do_not_hide_what_a_disk_wrote_in_excess() -> None:
    wrote = DeviceStats(writes=RequestStats(count=9, bytes=300 * MIB))
    some = dataclasses.replace(calls(16.0, throttled=15.2), unbacked_bytes=1820 * MIB)
    (line,) = change(calls=some, devices=((DISK, wrote),)).blind_spots
    assert line.startswith("The device wrote 200 MiB more than was counted")


WRITE, BOTH, READ = (CallType.WRITE,), (CallType.READ, CallType.WRITE), (CallType.READ,)
SMALL, LARGE, MIDDLE = SizeRange(0, 99), SizeRange(100, None), SizeRange(50, 150)


@pytest.mark.parametrize(
    ("slots", "count", "types"),
    [
        ([("/", WRITE, SizeRange(), 9), ("/data", WRITE, SizeRange(), 4)], 9, WRITE),
        ([("/data", WRITE, SizeRange(), 4), ("/", WRITE, SizeRange(), 9)], 9, WRITE),
        ([("/a", WRITE, SizeRange(), 4), ("/b", WRITE, SizeRange(), 5)], 9, WRITE),
        ([("/a", WRITE, SizeRange(), 4), ("/ab", WRITE, SizeRange(), 5)], 9, WRITE),
        ([("/", WRITE, SMALL, 4), ("/", WRITE, LARGE, 5)], 9, WRITE),
        ([("/", WRITE, MIDDLE, 4), ("/", WRITE, LARGE, 5)], 5, WRITE),
        ([("/", WRITE, SizeRange(), 4), ("/", BOTH, SizeRange(), 9)], 4, WRITE),
        ([("/", BOTH, SizeRange(), 9), ("/", READ, SizeRange(), 5)], 9, BOTH),
        ([("/a", BOTH, SizeRange(), 9), ("/b", WRITE, SizeRange(), 0)], 9, BOTH),
        ([("/a", BOTH, SizeRange(), 9), ("/b", WRITE, SizeRange(), 5)], 14, BOTH),
        ([("/", READ, SizeRange(), 5)], 0, ()),
        ([], 0, ()),
    ],
)
def test_the_widest_writes(slots: list[Any], count: int, types: tuple[CallType, ...]) -> None:
    stats = {
        Slot(path, call_types, sizes): CallStats(calls, latency_total_ns=calls * S)
        for path, call_types, sizes, calls in slots
    }
    chosen = widest_writes(stats)
    assert chosen == WriteCalls(CallStats(count, latency_total_ns=count * S), types)
