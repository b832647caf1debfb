"""Measure every setting of a grid on a lab of its own, for the benchmarks that replay it.

The present settings are measured first twice (once with the time to durable), in the middle and
last; the candidates once each, in an order drawn with a fixed seed so that a drift of the host hits
no side of the grid. A trial that does not count, by the protocol or since its memory is not that of
the grid, is repeated at once, and again when all others are done: what is recorded is valid, or the
program says what is not and fails. Run as root:
`python -m tests.bench.record_grid OUT.json --memory 4GiB --objects 40`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from contracts.loading import load_contract
from profiler.cli import argument_types as types
from profiler.cli.common import terminable
from profiler.lab import cap, lab
from profiler.pull.access import S3Access
from profiler.pull.settings import TransferSettings
from profiler.pull.source import list_plan, parse_location
from profiler.pull.workers import WorkerPool
from profiler.pull_bench import Instruments, PullBench
from sysctl.host.host import Host
from sysctl.host.mount_table import mount_of
from sysctl.host.mounts import present_words
from sysctl.host.sysctls import dirtyable_bytes, read_available_bytes, read_writeback
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.protocol import ATTEMPTS
from sysctl.results import CANDIDATE, PRESENT, Results, Trial
from sysctl.setting import Setting, invalid_reason
from sysctl.sweep import Bench, Step, run_trial
from tests.bench.grids import comparable

DIRTY = (10, 20, 40, 60, 80)
BACKGROUND = (2, 5, 10, 20, 40)
SEED = 1
#: Of the candidates every one of so many also waits for the device.
DURABLE_EVERY = 5
#: Times that what is still invalid at the end is measured again.
ROUNDS = 3


def grid(dirty: tuple[int, ...], background: tuple[int, ...]) -> list[Setting]:
    """The valid pairs, in the order in which they are measured."""
    pairs = itertools.product(dirty, background)
    named = [{"vm.dirty_ratio": d, "vm.dirty_background_ratio": b} for d, b in pairs]
    valid = [Setting(tuple(v.items())) for v in named if not invalid_reason(v, 2**32)]
    random.Random(SEED).shuffle(valid)
    return valid


def steps(present: Setting, candidates: list[Setting]) -> Iterator[Step]:
    """All trials, in order."""
    middle = len(candidates) // 2
    yield Step(PRESENT, present, True, 0)
    yield Step(PRESENT, present, False, 0)
    for number, setting in enumerate(candidates):
        if number == middle:
            yield Step(PRESENT, present, False, 0)
        yield Step(CANDIDATE, setting, number % DURABLE_EVERY == 0, 0)
    yield Step(PRESENT, present, False, 0)


@contextmanager
def bench_on(made: lab.Lab) -> Iterator[tuple[PullBench, dict[str, object]]]:
    """A bench on a lab, and the circumstances."""
    access = S3Access(made.endpoint_url, sign_requests=False)
    plan = list_plan(access, parse_location(made.source))
    contract = load_contract(None)
    with Host.exclusive("sweep", "recording a grid") as host:
        cap.join(made.cap.group, host.system)
        mount = mount_of(host.system.mounts(), made.destination)
        context: dict[str, object] = {
            "available_bytes": read_available_bytes(host.system),
            "dirtyable_bytes": dirtyable_bytes(host.system),
            "bytes": plan.bytes,
            "objects": len(plan.objects),
            "workers": os.cpu_count(),
            "fstype": mount.fstype,
            "mount_options": list(mount.all_options),
            "mount_words": list(present_words(mount)),
            "mount_policy": [],
            "rate_bytes_per_s": made.spec.rate_bytes_per_s,
            "connection_bytes_per_s": made.spec.connection_bytes_per_s,
        }
        pool = WorkerPool(access, TransferSettings(), None)
        with pool, Instruments() as instruments:
            session, limits = instruments.attach(contract)
            yield (
                PullBench(
                    host=host,
                    pool=pool,
                    plan=plan,
                    destination=Path(made.destination),
                    mount_target=mount.target,
                    contract=contract,
                    session=session,
                    limits=limits,
                    say=lambda what: None,
                    on_phase=lambda phase, progress: None,
                    deleting=partial(lab.uncapped, made, host),
                ),
                context,
            )


def measured(bench: Bench, step: Step, before: Results) -> Trial:
    """A trial that counts beside those `before`, if there is one in a few attempts."""
    for _ in range(ATTEMPTS):
        trial = run_trial(bench, step, before)
        trial = comparable(replace(before, trials=[*before.trials, trial])).trials[-1]
        if not trial.problem:
            break
        print(f"again: {trial.problem}", flush=True)
    return trial


def slim(trial: Trial, keep_trace: bool) -> Trial:
    """Without what the benchmarks do not read: the contract's values, a candidate's course."""
    seen = trial.observation
    if seen is None:
        return trial
    trace = seen.trace if keep_trace or trial.role == PRESENT else ()
    return replace(trial, observation=replace(seen, findings=(), trace=trace))


def record(arguments: argparse.Namespace) -> None:
    """Set the lab up, measure, save after every trial, take the lab down.

    Exits with what is wrong where a trial is still invalid.
    """
    spec = lab.LabSpec(
        memory_bytes=arguments.memory,
        object_count=arguments.objects,
        connection_bytes_per_s=arguments.connection_rate,
    )
    candidates = grid(arguments.dirty, arguments.background)
    print(f"{len(candidates)} settings", flush=True)
    with lab.running(spec, say=print) as made, bench_on(made) as (bench, context):
        in_force = read_writeback(bench.host.system)
        shown = {*DIRTY_PAIR, *BACKGROUND_PAIR}
        present = Setting(tuple((n, v) for n, v in in_force.items() if n in shown))
        results, began_s = Results(context, {}), time.monotonic()
        keep = partial(keep_trial, results, arguments, began_s)
        measure_all(bench, results, list(steps(present, candidates)), keep)
        results.context["recording_s"] = time.monotonic() - began_s
        results.save(arguments.output)
    left = [trial for trial in comparable(results).trials if trial.problem]
    if left:
        sys.exit(f"{len(left)} trials are invalid, the first since {left[0].problem}: record again")


def measure_all(
    bench: Bench, results: Results, planned: Sequence[Step], keep: Callable[[int, Trial], None]
) -> None:
    """Each step, in order; then those again that do not count beside all of the others."""
    for at, step in enumerate(planned):
        keep(at, measured(bench, step, results))
    for _ in range(ROUNDS):
        for at, trial in enumerate(comparable(results).trials):
            if trial.problem:
                print(f"again: {trial.setting}: {trial.problem}", flush=True)
                others = [other for other in results.trials if other is not results.trials[at]]
                keep(at, measured(bench, planned[at], replace(results, trials=others)))


def keep_trial(
    results: Results, arguments: argparse.Namespace, began_s: float, at: int, trial: Trial
) -> None:
    """Put it in its place, save all, and tell."""
    results.trials[at : at + 1] = [slim(trial, arguments.traces)]
    results.save(arguments.output)
    tell(trial, time.monotonic() - began_s)


def tell(trial: Trial, elapsed_s: float) -> None:
    """A line for a trial."""
    seen = trial.valid
    said = trial.problem
    if seen:
        durable = f", durable {seen.durable_s:.1f} s" if seen.durable_s else ""
        said = f"{seen.return_s:.2f} s{durable}, peak {seen.peak_dirty_bytes >> 20} MiB"
    print(f"{elapsed_s:6.0f} s  {trial.role:9} {trial.setting}: {said}", flush=True)


def main() -> None:
    """Read the arguments and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", metavar="OUT.json", type=Path)
    parser.add_argument("--memory", type=types.size, default=4 * 2**30)
    parser.add_argument("--objects", type=types.count, default=40)
    parser.add_argument(
        "--connection-rate",
        type=types.size,
        metavar="SIZE",
        default=lab.LabSpec.connection_bytes_per_s,
        help="per second of each connection; a low one takes the host's CPUs out of the source",
    )
    parser.add_argument("--dirty", type=types.integers, default=DIRTY, metavar="N,N…")
    parser.add_argument("--background", type=types.integers, default=BACKGROUND, metavar="N,N…")
    parser.add_argument("--traces", action="store_true", help="keep the candidates' courses too")
    with terminable():
        record(parser.parse_args())


if __name__ == "__main__":
    main()
