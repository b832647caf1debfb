# SPDX-License-Identifier: Apache-2.0
"""What the governor costs others and at rest: a part of `bench_govern_grid`, which runs it.

A neighbour's 4 KiB write with fsync each second, outside and during bursts; two volumes of which
one is named; how soon the host is at rest after the drain; CPU time and memory at rest; the time of
a 4 KiB pwrite next to a resting governor, in pairs with one that is stopped by SIGSTOP.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from profiler.lab import lab
from profiler.price.process import Neighbour
from sysctl.host.host import Host
from tests.bench.figures import Estimate, estimate, print_goal
from tests.root.governing import (
    Outside,
    at_rest_after_s,
    burst,
    governor,
    remove_files,
    thresholds,
    wait_until_drained,
)
from tests.root.labs import MIB, SYSTEM, volume

_STATIC = {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 10}
_BOUND = ("--max-at-risk", "2GiB")
_QUIET_S, _BURSTS, _SIZE_MIB, _RATE = 60.0, 3, 900, 400
_PAIRS, _BLOCK_S = 40, 0.5
Found = dict[str, Any]


def measure(found: Found, keep: Callable[[], object]) -> None:
    """Measure what is missing on one lab of 4 GiB, and keep each part."""
    parts: dict[str, Callable[[lab.Lab], Found]] = {
        "at rest": _cost_at_rest,
        "neighbour outside": _neighbour_outside,
        "neighbour during": _neighbour_during,
        "two volumes": _two_volumes,
    }
    todo = [name for name in parts if name not in found]
    if not todo:
        return
    spec = lab.LabSpec(rate_bytes_per_s=60 * MIB, object_count=1, object_bytes=MIB)
    with lab.running(spec) as present:
        with Host.exclusive("settle", "bench") as host:
            host.set_writeback({"vm.dirty_ratio": 21})
        for name in todo:
            found[name] = parts[name](present)
            print(name, {k: v for k, v in found[name].items() if not isinstance(v, list)})
            keep()


def _cost_at_rest(present: lab.Lab) -> Found:
    """CPU time, memory, and the time of a pwrite with a running and a stopped governor."""
    with governor(present.destination, *_BOUND) as process:
        time.sleep(2)
        before_s, begun_s = _cpu_s(process.pid), time.monotonic()
        time.sleep(_QUIET_S)
        share = (_cpu_s(process.pid) - before_s) / (time.monotonic() - begun_s)
        status = Path(f"/proc/{process.pid}/status").read_text()
        rss_kib = int(status.partition("VmRSS:")[2].split()[0])
        with tempfile.TemporaryFile(dir=present.destination) as file:
            os.pwrite(file.fileno(), bytes(4096), 0)
            ratios = []
            for number in range(_PAIRS):
                took = {}
                for way in (signal.SIGSTOP, signal.SIGCONT)[:: 1 if number % 2 else -1]:
                    process.send_signal(way)
                    time.sleep(0.05)
                    took[way] = _pwrite_ns(file.fileno())
                ratios.append(took[signal.SIGCONT] / took[signal.SIGSTOP])
            process.send_signal(signal.SIGCONT)
    return {"cpu_share": share, "rss_kib": rss_kib, "pwrite_ratios": ratios}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pwrite_ns(descriptor: int) -> float:
    """Return the mean time of a pwrite of a page, over half a second."""
    data, count, begun_ns = bytes(4096), 0, time.perf_counter_ns()
    while time.perf_counter_ns() - begun_ns < _BLOCK_S * 10**9:
        for _ in range(200):
            os.pwrite(descriptor, data, 0)
        count += 200
    return (time.perf_counter_ns() - begun_ns) / count


def _neighbour_ms(present: lab.Lab, work: Callable[[], object]) -> list[float]:
    folder = Path(present.destination, "neighbour")
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with Neighbour(folder) as neighbour:
        with neighbour.running():
            work()
        return [took_ns / 1e6 for took_ns in neighbour.fsync.took_ns]


def _neighbour_outside(present: lab.Lab) -> Found:
    without = _neighbour_ms(present, lambda: time.sleep(_QUIET_S))
    with governor(present.destination, *_BOUND):
        governed = _neighbour_ms(present, lambda: time.sleep(_QUIET_S))
    return {"without_ms": without, "govern_ms": governed}


def _bursts(present: lab.Lab, seen: list[float]) -> None:
    for _ in range(_BURSTS):
        own = thresholds(SYSTEM)
        with Outside().looking() as outside:
            burst(Path(present.destination, "burst"), _SIZE_MIB, _RATE)
            background = outside.seen[0].background_bytes
            wait_until_drained(background)
            time.sleep(3.5)
        seen.append(at_rest_after_s(outside.seen, own, background))
        remove_files(present, "bench")


def _neighbour_during(present: lab.Lab) -> Found:
    at_rest_s: list[float] = []
    with governor(present.destination, *_BOUND):
        governed = _neighbour_ms(present, lambda: _bursts(present, at_rest_s))
    with Host.exclusive("static", "bench") as host:
        host.set_writeback(_STATIC)
        static = _neighbour_ms(present, lambda: _bursts(present, []))
    return {"static_ms": static, "govern_ms": governed, "at_rest_s": at_rest_s}


def _two_volumes(present: lab.Lab) -> Found:
    """Write a burst onto the lab's volume while only another volume is governed."""
    own = thresholds(SYSTEM)
    with tempfile.TemporaryDirectory() as folder, volume(Path(folder, "other")) as other:
        with governor(other, *_BOUND), Outside().looking() as outside:
            burst(Path(present.destination, "burst"), _SIZE_MIB, _RATE)
        raised = sum(each.values != own for each in outside.seen)
        remove_files(present, "bench")
    return {"raised_looks": raised, "looks": len(outside.seen)}


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[-1] if len(values) > 1 else values[0]


def _p99_text(name: str, part: Found, ways: tuple[str, str]) -> str:
    texts = (
        f"{way} p99 {_p99(part[way + '_ms']):.1f} ms, median {median(part[way + '_ms']):.1f} ms "
        f"(n = {len(part[way + '_ms'])})"
        for way in ways
    )
    return f"- {name}: {'; '.join(texts)}"


def show(found: Found) -> None:
    """Print the goals of what was measured."""
    rest = found.get("at rest")
    if rest:
        print(f"- CPU at rest: {rest['cpu_share']:.2%} (goal: at most 0.5 %)")
        print(f"- memory at rest: {rest['rss_kib'] / 1024:.0f} MiB (goal: at most 40)")
        added = estimate([(ratio - 1) * 100 for ratio in rest["pwrite_ratios"]])
        print_goal("a 4 KiB pwrite: 95 % bound at most 2 %", added.less(2), "points", "{:+.2f}")
    outside, during = found.get("neighbour outside"), found.get("neighbour during")
    if outside:
        print(_p99_text("neighbour outside bursts", outside, ("without", "govern")))
    if during:
        print(_p99_text("neighbour during bursts", during, ("static", "govern")))
        late: Estimate = estimate(during["at_rest_s"])
        print_goal("at rest 3 s after the drain", late.less(3), "s", "{:+.2f}")
    two = found.get("two volumes")
    if two:
        print(f"- another volume's burst: raised in {two['raised_looks']} of {two['looks']} looks")
