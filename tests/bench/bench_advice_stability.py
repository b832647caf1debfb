# SPDX-License-Identifier: Apache-2.0
"""Would a second sweep of the same host give the same advice? By simulation; needs no root.

The project's sweep, search and judgement run on simulated hosts whose true times are known, in
many worlds: independent noise, drift, slow starts, carry-over, memory that differs, nothing to
gain, extras that help and that do not. `python -m tests.bench.bench_advice_stability [TRUTHS]`
prints a table; a short form runs in tests/unit/bench/test_advice_stability.py.

A host's times follow the law of docs/explanation/prediction.md: above freerun writers are slowed
down, and data that does not fit waits for the device.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from sysctl.advice.analysis import analyse
from sysctl.evidence.circumstances import Circumstances, Node, NodeClass
from sysctl.evidence.comparison import compare, pairs_of
from sysctl.evidence.prediction import time_to_return_s
from sysctl.evidence.price import Limits
from sysctl.evidence.results import Observation, Results
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import Thresholds, effective_thresholds
from sysctl.search.edge import EdgeSearch, ladders_of
from sysctl.search.extras import MOUNT, Extra
from sysctl.sweep.steps import StoppedEarly, SweepPlan, run_sweep
from tests.bench.figures import print_table

MIB, GIB = 2**20, 2**30
PRESENT = Setting((("vm.dirty_ratio", 20), ("vm.dirty_background_ratio", 10)))
EXTRA = Extra(MOUNT, "noatime,lazytime", is_asked_for=True)
#: What a trial costs besides its pull, in s: settling and deleting.
_BETWEEN_S = 2.5


@dataclass(frozen=True)
class Host:
    """A host without noise: rates in bytes/s, sizes in bytes; `EXTRA` has effect `extra_ratio`."""

    memory_bytes: float
    burst_bytes: float
    source: float = 900 * MIB
    device: float = 60 * MIB
    extra_ratio: float = 1.0
    #: Every setting takes as long as the current ones.
    is_flat: bool = False
    #: A setting never takes less than this part of the current time: a real, small gain.
    least_ratio: float = 0.0

    def thresholds(self, setting: Setting, memory_bytes: float) -> Thresholds:
        """Return the thresholds of a setting with that much memory."""
        return effective_thresholds(setting.values, int(memory_bytes))

    def peak_bytes(self, at: Thresholds) -> float:
        """Return the most that would be dirty if no writer waited."""
        flushed_s = max(0.0, (self.burst_bytes - at.background_bytes) / self.source)
        return self.burst_bytes - self.device * flushed_s

    def return_s(self, setting: Setting, memory_bytes: float | None = None) -> float:
        """Return the true time to return."""
        memory = self.memory_bytes if memory_bytes is None else memory_bytes
        factor = 1.0
        if setting.mount_options:
            factor, setting = self.extra_ratio, replace(setting, mount_options=None)
        if self.is_flat:
            setting = PRESENT
        elif self.least_ratio and setting != PRESENT:
            least_s = self.least_ratio * self.return_s(PRESENT, memory)
            return factor * max(least_s, self._return_s(self.thresholds(setting, memory)))
        return factor * self._return_s(self.thresholds(setting, memory))

    def _return_s(self, at: Thresholds) -> float:
        begins_s = min(at.background_bytes, self.burst_bytes) / self.source
        return time_to_return_s(round(self.burst_bytes), at, begins_s, self.source, self.device)

    def stall_share(self, setting: Setting, memory_bytes: float) -> float:
        """Return the throttled part of the writers' time; on average half the threads have work."""
        at = self.thresholds(PRESENT if self.is_flat else setting, memory_bytes)
        return 0.5 * (1 - self.burst_bytes / self.source / self._return_s(at))


@dataclass(frozen=True)
class World:
    """What disturbs the measurements, as parts: 0.025 is 2.5 %."""

    name: str
    noise: float = 0.025
    memory: float = 0.0
    drift: float = 0.0
    slow_starts: int = 0
    carry_over: float = 0.0
    extra_ratio: float | None = None
    is_flat: bool = False
    least_ratio: float = 0.0
    beyond: bool = False
    #: Its intervals miss the truth for a known reason, so it is counted separately.
    is_biased: bool = False


WORLDS = (
    World("independent noise 1 %", 0.01),
    World("independent noise 2.5 %"),
    World("independent noise 5 %", 0.05),
    World("independent noise 10 %", 0.10),
    World("2.5 %, memory ±2 % between sweeps", memory=0.02),
    World("2.5 %, drift 1 % a run", drift=0.01, is_biased=True),
    World("3.5 %, four slow starts, carry-over", 0.035, 0, 0, 4, 0.08, is_biased=True),
    World("2.5 %, burst beyond memory (plateau)", beyond=True),
    World("2.5 %, a real gain of 8 %", least_ratio=0.92),
    World("nothing to gain, 2.5 %", is_flat=True),
    World("nothing to gain, 10 %", 0.10, is_flat=True),
    World(
        "nothing to gain, slow starts, carry-over",
        0.035,
        0,
        0,
        4,
        0.08,
        is_flat=True,
        is_biased=True,
    ),
    World("an extra that saves 10 %, 2.5 %", extra_ratio=0.90),
    World("an extra that saves 10 %, 3.5 %", 0.035, extra_ratio=0.90),
    World("an inert extra, 2.5 %", extra_ratio=1.0),
    World("an inert extra, 10 %", 0.10, extra_ratio=1.0),
    World("an inert extra, slow starts, carry-over", 0.035, 0, 0, 4, 0.08, 1.0),
)


class SimulatedBench:
    """A `sysctl.sweep.steps.Bench` on a host in a world; `now_s` is the time of the trials."""

    def __init__(self, host: Host, world: World, dice: random.Random) -> None:
        self._host, self._world, self._dice = host, world, dice
        self._memory = host.memory_bytes * math.exp(dice.gauss(0, world.memory))
        self._setting = self._before = PRESENT
        self._runs = self._fast_runs = 0
        self.now_s = 0.0

    def apply(self, setting: Setting) -> None:
        """See `Bench`."""
        self._before, self._setting = self._setting, setting

    def measure(
        self, *, durable: bool, stop_after_s: float | None = None, observe_price: bool = False
    ) -> Observation:
        """See `Bench`."""
        world, setting = self._world, self._setting
        is_slow = setting != PRESENT and self._fast_runs < world.slow_starts
        host = replace(self._host, source=self._host.source / 1.3) if is_slow else self._host
        memory = self._memory * math.exp(self._dice.gauss(0, 0.002))
        time_s = host.return_s(setting, memory) * math.exp(self._dice.gauss(0, world.noise))
        time_s *= math.exp(world.drift * self._runs)
        self._runs += 1
        cpu_wait = 0.1 if is_slow else 0.01
        if setting != PRESENT:
            self._fast_runs += 1
            if self._before == PRESENT:
                time_s *= 1 + world.carry_over
        at = host.thresholds(setting, memory)
        stall = host.stall_share(setting, memory)
        stall = max(0.0, stall * (1 + self._dice.gauss(0, 0.1)) + abs(self._dice.gauss(0, 0.003)))
        peak = min(host.peak_bytes(at), (at.freerun_bytes + at.dirty_bytes) / 2)
        durable_s = host.burst_bytes / host.device if durable else None
        if stop_after_s is not None and time_s > stop_after_s:
            self.now_s += _BETWEEN_S + stop_after_s
            raise StoppedEarly
        self.now_s += _BETWEEN_S + max(time_s, durable_s or 0.0)
        return Observation(
            return_s=time_s,
            durable_s=durable_s,
            stall_share=min(1.0, stall),
            peak_dirty_bytes=int(peak * math.exp(self._dice.gauss(0, 0.005))),
            thresholds=at,
            limit_bytes=at.dirty_bytes,
            bytes=int(host.burst_bytes),
            objects=20,
            writers=20,
            dirtyable_bytes=int(memory),
            split_s={"waiting for a CPU": cpu_wait * time_s * 20, "other sleeping": 0.0},
        )

    def require_destination(self) -> None:
        """See `Bench`."""


@dataclass(frozen=True)
class Outcome:
    """The result of a sweep: its advice (None: no change), and whether intervals hold the truth."""

    advice: Setting | None
    covered: tuple[bool, ...]
    trials: int
    minutes: float
    loss: float
    has_extra: bool


def simulate(host: Host, world: World, seed: int, *, extras: bool) -> Outcome:
    """Sweep a host once."""
    bench = SimulatedBench(host, world, random.Random(seed))
    memory = int(host.memory_bytes)
    node_class = NodeClass("xfs", workers=2, present=PRESENT.values)
    results = Results(Circumstances(node_class, Node(memory, memory)), {})
    ladders = ladders_of(PRESENT.values, memory, Limits(), int(host.burst_bytes))
    plan = SweepPlan(PRESENT, EdgeSearch(ladders), (EXTRA,) if extras else ())
    nothing = lambda _: None  # noqa: E731
    run_sweep(results, plan, bench, on_step=nothing, on_trial=nothing, clock_s=lambda: bench.now_s)
    runs = Runs.of(results)
    analysis = analyse(runs, Limits())
    preferred = analysis.preferred_first(analysis.within)
    advice = preferred[0].setting if preferred else None
    best_s = min(host.return_s(each) for ladder in ladders for each in ladder)
    if host.extra_ratio < 1 and extras:
        best_s *= host.extra_ratio
    took_s = host.return_s(advice or PRESENT)
    return Outcome(
        advice,
        tuple(_covered(runs, host)),
        len(results.trials),
        bench.now_s / 60,
        took_s / min(best_s, took_s) - 1,
        advice is not None and bool(runs.baseline.changed_options(advice)),
    )


def _covered(runs: Runs, host: Host) -> Iterator[bool]:
    """Return for each interval that would be reported whether it holds the true ratio."""
    for setting in runs.rechecked:
        pairs = pairs_of(runs, setting)
        if len(pairs) > 1:
            interval = compare(runs, setting).interval
            memory = fmean(pair.present.dirtyable_bytes for pair in pairs)
            truth = host.return_s(setting, memory) / host.return_s(PRESENT, memory)
            assert interval is not None
            yield interval.includes(truth)


def hosts(world: World, count: int) -> list[Host]:
    """Return the hosts of a world, with the edge anywhere; the same each time."""
    dice = random.Random(7)
    found = []
    for _ in range(count):
        memory = 4 * GIB
        share = dice.uniform(1.5, 4.0) if world.beyond else dice.uniform(0.2, 0.62)
        host = Host(
            memory,
            share * memory,
            is_flat=world.is_flat,
            least_ratio=world.least_ratio,
            extra_ratio=1.0 if world.extra_ratio is None else world.extra_ratio,
        )
        found.append(host)
    return found


@dataclass(frozen=True)
class Cell:
    """The results of many sweeps of a world, as parts."""

    world: World
    sweeps: int
    same: float
    one_step: float
    changes: float
    extras: float
    intervals: int
    coverage: float
    loss: float
    worst_loss: float
    trials: float
    minutes: float


def cell(world: World, truths: int, sweeps: int = 2) -> Cell:
    """Sweep each host of a world `sweeps` times."""
    has_extra = world.extra_ratio is not None
    every = [
        [simulate(host, world, 1000 * at + i, extras=has_extra) for i in range(sweeps)]
        for at, host in enumerate(hosts(world, truths))
    ]
    flat = [outcome for outcomes in every for outcome in outcomes]
    pairs = [pair for outcomes in every for pair in itertools.combinations(outcomes, 2)]
    covered = [hit for outcome in flat for hit in outcome.covered]
    return Cell(
        world,
        len(flat),
        fmean(a.advice == b.advice for a, b in pairs),
        fmean(_steps(a.advice, b.advice) <= 1 for a, b in pairs),
        fmean(outcome.advice is not None for outcome in flat),
        fmean(outcome.has_extra for outcome in flat),
        len(covered),
        fmean(covered) if covered else math.nan,
        fmean(outcome.loss for outcome in flat),
        max(outcome.loss for outcome in flat),
        fmean(outcome.trials for outcome in flat),
        fmean(outcome.minutes for outcome in flat),
    )


def _steps(one: Setting | None, other: Setting | None) -> float:
    """Return the rungs between two pieces of advice; infinite between a change and no change."""
    if one is None or other is None:
        return 0 if one == other else math.inf
    if (one.mount_options is None) != (other.mount_options is None):
        return math.inf
    ladder = [s for each in ladders_of(PRESENT.values, 4 * GIB, Limits(), 0) for s in each]
    at = [ladder.index(replace(each, mount_options=None)) for each in (one, other)]
    return abs(at[0] - at[1])


def row(found: Cell) -> tuple[str, ...]:
    """Return one line of the table."""
    return (
        found.world.name,
        f"{found.same:.1%}",
        f"{found.one_step:.1%}",
        f"{found.changes:.1%}",
        f"{found.extras:.1%}",
        f"{found.coverage:.1%} of {found.intervals}" + " (biased)" * found.world.is_biased,
        f"{found.loss:.1%} ({found.worst_loss:.1%})",
        f"{found.trials:.1f}",
        f"{found.minutes:.1f}",
    )


HEADER = (
    *("world", "same advice", "within a step", "a change", "an extra", "95 % intervals hold"),
    *("slower than the best (worst)", "trials", "minutes"),
)


def cells(truths: int, worlds: Sequence[World] = WORLDS, sweeps: int = 2) -> list[Cell]:
    """Simulate all worlds, with one process per CPU."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(partial(cell, truths=truths, sweeps=sweeps), worlds))


def main() -> None:
    """Print the table."""
    truths = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print_table(HEADER, [row(each) for each in cells(truths)])


if __name__ == "__main__":
    main()
