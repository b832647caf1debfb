# SPDX-License-Identifier: Apache-2.0
"""The governor's table of goals: bursts of many kinds, neighbours, and its cost at rest.

    python -m tests.bench.bench_govern_grid FILE [CELL…]    (root, on a quiet host)

Each cell is a source's rate (MB/s), a memory (GiB) and a file system, such as `400-4-xfs`; all 30
take about 25 minutes, and the rest 10. FILE keeps what is measured, so a second start goes on where
the first ended. Without a cell all of them and the rest are measured; then the goals are printed.

A cell's static setting is the first of a few with which the write-back law predicts the shortest
return. Bursts are of four paced writers, and are not drained: the files are deleted. A burst at
rest that takes six times as long as the static one is ended: the gain is then at least that.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.cli.common import terminable
from profiler.lab import lab
from sysctl.evidence.prediction import time_to_return_s
from sysctl.host.host import Host
from sysctl.host.sysctls import dirtyable_bytes
from sysctl.knobs.writeback import effective_thresholds
from tests.bench import bench_govern_rest
from tests.bench.figures import Estimate, estimate, host_line, print_goal, print_table
from tests.root.governing import Outside, governor, remove_files, start_burst, thresholds
from tests.root.labs import MIB, SYSTEM

SOURCES_MB_PER_S = (100, 200, 400, 800, 1200)
MEMORIES_GIB = (2, 4, 8)
FILE_SYSTEMS = ("ext4", "xfs")
#: Dirty and background ratio, the least data at risk first.
CANDIDATES = ((60, 10), (80, 10), (90, 10), (90, 45))
DEVICE_BYTES_PER_S = 30 * MIB
WRITERS = 4
#: Bursts that take longer are measured once each way and not in ABBA order.
LONG_S = 6.0
GIVE_UP = 6.0
REST, GOVERN, STATIC = "rest", "govern", "static"
Found = dict[str, Any]


def values_of(pair: tuple[int, int]) -> dict[str, int]:
    """Return a candidate as sysctls."""
    return {"vm.dirty_ratio": pair[0], "vm.dirty_background_ratio": pair[1]}


def size_bytes(source: float, memory: int, rest: dict[str, int]) -> int:
    """Return a burst that is throttled at rest and fits the candidates."""
    growth = 1 - DEVICE_BYTES_PER_S / source
    least = 1.6 * effective_thresholds(rest, memory).freerun_bytes / growth
    return round(max(least, min(0.4 * memory / growth, 3 * source)))


def best_static(size: int, source: float, memory: int) -> tuple[int, int]:
    """Return the candidate with which the law predicts the shortest return."""

    def predicted(pair: tuple[int, int]) -> float:
        at = effective_thresholds(values_of(pair), memory)
        begins_s = min(at.background_bytes, size) / source
        return round(time_to_return_s(size, at, begins_s, source, DEVICE_BYTES_PER_S), 1)

    return min(CANDIDATES, key=predicted)


def burst_s(present: lab.Lab, size: int, source: float, limit_s: float = 1e9) -> float:
    """Return how long a burst took; a burst is ended after `limit_s`."""
    each_mib, rate = -(-size // WRITERS // MIB), source / WRITERS / MIB
    begun_s = time.monotonic()
    places = [Path(present.destination, f"burst{number}") for number in range(WRITERS)]
    writers = [start_burst(place, each_mib, rate) for place in places]
    while any(writer.poll() is None for writer in writers):
        if time.monotonic() - begun_s > limit_s:
            for writer in writers:
                writer.kill()
        time.sleep(0.02)
    texts = [writer.communicate()[0] for writer in writers]
    took_s = [json.loads(text)["return_s"] for text in texts if text]
    return max(took_s) if len(took_s) == WRITERS else limit_s


@contextlib.contextmanager
def in_force(
    present: lab.Lab, way: str, pair: tuple[int, int], bound: int, said: list[str]
) -> Iterator[None]:
    """Put one of the ways in force within the block; append what the governor says to `said`."""
    if way == GOVERN:
        with governor(present.destination, "--max-at-risk", f"{bound // MIB}MiB") as process:
            yield
            process.terminate()
            said += process.communicate(timeout=20)[0].splitlines()
    elif way == STATIC:
        with Host.exclusive("static", "bench") as host:
            host.set_writeback(values_of(pair))
            yield
    else:
        yield


def measure_cell(present: lab.Lab, source_mb: int) -> Found:
    """Measure a cell on its lab."""
    source, memory = source_mb * 1e6, dirtyable_bytes(SYSTEM)
    own = thresholds(SYSTEM)
    size = size_bytes(source, memory, own)
    pair = best_static(size, source, memory)
    bound = memory * 6 // 10
    ways = [STATIC, GOVERN] if size / source > LONG_S else [STATIC, GOVERN, GOVERN, STATIC]
    found: Found = {"size": size, "pair": pair, "bound": bound, STATIC: [], GOVERN: []}
    outside_s, said = 0.0, list[str]()
    for way in [*ways, REST]:
        limit_s = GIVE_UP * min(found[STATIC]) if way == REST else 1e9
        with in_force(present, way, pair, bound, said), Outside().looking() as outside:
            time.sleep(0.6)
            begun_s = time.monotonic()
            took_s = burst_s(present, size, source, limit_s)
            remove_files(present, "bench")
            ended_s = time.monotonic()
            if way == GOVERN:
                time.sleep(3.2)
        found[way] = [*found.get(way, []), took_s]
        if way == GOVERN:
            raised = [each.time_s for each in outside.seen if each.values != own]
            outside_s += 0.02 * sum(not begun_s <= each <= ended_s + 3 for each in raised)
    return {**found, "outside_s": outside_s, "said": said}


def measure(file: Path, found: Found, wanted: list[str]) -> None:
    """Measure the cells that are missing; a lab is used for all sources of it."""
    with terminable():
        for memory, fstype in itertools.product(MEMORIES_GIB, FILE_SYSTEMS):
            names = {f"{source}-{memory}-{fstype}": source for source in SOURCES_MB_PER_S}
            todo = [n for n in names if n not in found and (not wanted or n in wanted)]
            if not todo:
                continue
            spec = lab.LabSpec(
                memory_bytes=memory << 30,
                fstype=fstype,
                rate_bytes_per_s=DEVICE_BYTES_PER_S,
                iops=None,
                object_count=1,
                object_bytes=MIB,
            )
            with lab.running(spec) as present:
                with Host.exclusive("settle", "bench") as host:  # the limit before the lab
                    host.set_writeback({"vm.dirty_ratio": 21})
                for name in todo:
                    begun_s = time.monotonic()
                    found[name] = measure_cell(present, names[name])
                    file.write_text(json.dumps(found))
                    print(f"{name}: {time.monotonic() - begun_s:.0f} s", flush=True)
        if not wanted:
            bench_govern_rest.measure(found, lambda: file.write_text(json.dumps(found)))


def show(found: Found) -> None:
    """Print the cells and the goals."""
    cells = {name: each for name, each in found.items() if name[0].isdigit()}
    print(host_line(f"{len(cells)} cells, a volume of {DEVICE_BYTES_PER_S // MIB} MiB/s"))
    print()
    rows, against, misses = [], [], []
    for name, cell in cells.items():
        ratios = [g / s for g, s in zip(cell[GOVERN], cell[STATIC])]
        gain = min(cell[REST]) / min(cell[STATIC])
        faster = min(cell[REST]) / max(cell[GOVERN])
        against += ratios
        if gain >= 5 and faster < 4:
            misses.append(name)
        rows.append(
            (
                name,
                f"{cell['size'] / MIB:.0f}",
                "/".join(map(str, cell["pair"])),
                *(" ".join(f"{took:.2f}" for took in cell[way]) for way in (REST, STATIC, GOVERN)),
                " ".join(f"{ratio:.2f}" for ratio in ratios),
                f"{faster:.1f}",
                f"{cell['outside_s']:.2f}",
            )
        )
    header = ("MB/s-GiB-type", "MiB", "static", "rest, s", "static, s", "govern, s")
    print_table([*header, "govern / static", "faster", "raised outside, s"], rows)
    for name, cell in cells.items():
        early = [line for line in cell["said"] if "lowered:" in line]
        print("\n".join(f"- {name}: {line}" for line in early), end="\n" if early else "")
    if against:
        print_goal("all: at most 1.05 times the static setting", less(against, 1.05), "", "{:+.2f}")
        print(f"- cells with a ratio over 1.05: {sum(each > 1.05 for each in against)}")
        print(f"- static gains 5 times, govern under 4: {', '.join(misses) or 'none'}")
        total_s = sum(cell["outside_s"] for cell in cells.values())
        print(f"- raised outside bursts, their drain and 3 s: {total_s:.2f} s (goal: 0)")
    bench_govern_rest.show(found)


def less(values: list[float], allowed: float) -> Estimate:
    """Return the excess of the median over a limit."""
    return estimate(values).less(allowed)


def main() -> None:
    """Measure what is missing in the file, and print all of it."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    file = Path(sys.argv[1])
    found = json.loads(file.read_text()) if file.exists() else {}
    measure(file, found, sys.argv[2:])
    show(found)


if __name__ == "__main__":
    main()
