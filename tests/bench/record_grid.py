# SPDX-License-Identifier: Apache-2.0
"""Record grids of settings, each on its own lab, for the benchmarks that replay them.

`python -m tests.bench.record_grid all` records the documented set (`grid_plan.small_set`): five
grids, which cover two rates of the source, two bursts, two sizes of memory, XFS and ext4. Each has
three runs of the current settings and of seven others. It takes about an hour on an idle host, and
prints how long it took. It skips a grid that already exists, and goes on after one that fails.

`python -m tests.bench.record_grid one --fstype ext4 --connection-rate 25MB` records a single grid.

Every round measures each setting once, in random order. The first pull is not recorded, since it
differs from those after it. A trial may not count, by the protocol or since its memory differs from
the grid's. It is repeated at once, and again after all others. If it is still invalid, it is kept
with its reason, and the program fails. Run as root.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from contracts.loading import load_contract
from contracts.shared.errors import WritewiseError
from contracts.shared.units import counted
from profiler.cli import demo
from profiler.cli.common import terminable
from profiler.lab import cap, lab
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT
from profiler.pull.settings import TransferSettings
from profiler.pull.source import list_plan, parse_location
from profiler.pull.workers import WorkerPool
from profiler.requirements import require
from profiler.study.bench import Instruments, PullBench
from sysctl.evidence.circumstances import Circumstances, Node, NodeClass
from sysctl.evidence.protocol import ATTEMPTS
from sysctl.evidence.results import CANDIDATE, PRESENT, Results, Trial
from sysctl.host.host import Host
from sysctl.host.mount_table import mount_of
from sysctl.host.mounts import present_words
from sysctl.host.page_reporting import reported_block_bytes
from sysctl.host.sysctls import dirtyable_bytes, read_available_bytes, read_writeback
from sysctl.host.system import System
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.sweep.steps import Bench, Step, run_trial
from tests.bench.grid_plan import (
    GridSpec,
    largest,
    parser,
    planned_by,
    recording_path,
    steps,
)
from tests.bench.grids import comparable, pack
from tests.bench.page_reporting import paused

#: How often trials that are still invalid at the end are measured again.
ROUNDS = 3


@contextmanager
def bench_on(
    made: lab.Lab, transfer: TransferSettings | None = None
) -> Iterator[tuple[PullBench, Circumstances, dict[str, object]]]:
    """A bench on a lab, with the default client, the circumstances, and the lab's figures."""
    access = S3Access(made.endpoint_url, sign_requests=False)
    plan = list_plan(access, parse_location(made.source))
    contract, settings = load_contract(None), transfer or TransferSettings()
    with Host.exclusive("sweep", "recording a grid") as host:
        cap.join(made.cap.group, host.system)
        mount = mount_of(host.system.mounts(), made.destination)
        workers = os.cpu_count() or 1
        node_class = NodeClass(
            fstype=mount.fstype,
            mount_options=mount.all_options,
            mount_words=present_words(mount),
            kernel=platform.release(),
            client=DEFAULT.name,
            workers=workers,
            transfer=str(settings),
            objects=len(plan.objects),
            bytes=plan.bytes,
        )
        node = Node(read_available_bytes(host.system), dirtyable_bytes(host.system))
        figures: dict[str, object] = {
            "rate_bytes_per_s": made.spec.rate_bytes_per_s,
            "connection_bytes_per_s": made.spec.connection_bytes_per_s,
            "connections": workers * settings.max_concurrency,
            "reported_block_bytes": reported_block_bytes(host.system),
        }
        pool = WorkerPool(access, settings, workers, DEFAULT.make)
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
                    cap_problem=partial(lab.cap_problem, made),
                ),
                Circumstances(node_class, node),
                figures,
            )


def measured(bench: Bench, step: Step, before: Results) -> Trial:
    """Return a trial that counts next to those `before`, or the last of a few attempts."""
    for _ in range(ATTEMPTS):
        trial = run_trial(bench, step, before)
        trial = comparable(replace(before, trials=[*before.trials, trial])).trials[-1]
        if not trial.problem:
            break
        print(f"again: {trial.problem}", flush=True)
    return trial


def slim(trial: Trial, keep_trace: bool) -> Trial:
    """Return it without the parts that no benchmark reads: findings, a candidate's trace."""
    seen = trial.observation
    if seen is None:
        return trial
    trace = seen.trace if keep_trace or trial.role == PRESENT else ()
    return replace(trial, observation=replace(seen, findings=(), trace=trace))


def record(spec: GridSpec, output: Path, *, traces: bool = False) -> list[str]:
    """Set the lab up, measure, take the lab down; return what is wrong with trials.

    All trials so far are in `recording_path(output)` until the last one has ended. Raises
    WritewiseError.
    """
    plain = recording_path(output)
    with (
        lab.running(spec.lab, say=print) as made,
        bench_on(made, spec.transfer) as (bench, circumstances, figures),
    ):
        in_force = read_writeback(bench.host.system)
        shown = {*DIRTY_PAIR, *BACKGROUND_PAIR}
        present = Setting(tuple((n, v) for n, v in in_force.items() if n in shown))
        results, began_s = Results(circumstances, {"lab": figures}), time.monotonic()
        warm = run_trial(bench, Step(CANDIDATE, largest(spec.settings), False, 0))
        print(f"a first pull, not recorded: {said_of(warm)}", flush=True)
        keep = partial(keep_trial, results, plain, traces, began_s)
        measure_all(bench, results, list(steps(present, spec.settings, spec.runs)), keep)
        figures["recording_s"] = time.monotonic() - began_s
        results.save(plain)
    pack(plain, output)
    return [trial.problem for trial in comparable(results).trials if trial.problem]


def measure_all(
    bench: Bench, results: Results, planned: Sequence[Step], keep: Callable[[int, Trial], None]
) -> None:
    """Measure each step in order; then repeat those that do not count next to all others."""
    for at, step in enumerate(planned):
        keep(at, measured(bench, step, results))
    for _ in range(ROUNDS):
        for at, trial in enumerate(comparable(results).trials):
            if trial.problem:
                print(f"again: {trial.setting}: {trial.problem}", flush=True)
                others = [other for other in results.trials if other is not results.trials[at]]
                keep(at, measured(bench, planned[at], replace(results, trials=others)))


def keep_trial(
    results: Results, plain: Path, traces: bool, began_s: float, at: int, trial: Trial
) -> None:
    """Put the trial in its place, save all, and print a line for it."""
    results.trials[at : at + 1] = [slim(trial, traces)]
    results.save(plain)
    elapsed_s = time.monotonic() - began_s
    print(f"{elapsed_s:6.0f} s  {trial.role:9} {trial.setting}: {said_of(trial)}", flush=True)


def said_of(trial: Trial) -> str:
    """Return a trial's time, or why it does not count."""
    seen = trial.valid
    if not seen:
        return trial.problem
    durable = f", durable {seen.durable_s:.1f} s" if seen.durable_s else ""
    stalled = f", stalled {seen.stall_share:.1%}"
    return f"{seen.return_s:.2f} s{durable}{stalled}, peak {seen.peak_dirty_bytes >> 20} MiB"


def record_each(
    planned: Sequence[tuple[GridSpec, Path]], record_one: Callable[[GridSpec, Path], list[str]]
) -> list[str]:
    """Record the missing grids; return what went wrong, one sentence for each grid."""
    problems = []
    for number, (spec, output) in enumerate(planned, 1):
        which = f"{spec.name} ({number} of {len(planned)})"
        if output.exists():
            print(f"{which}: {output} is there already", flush=True)
            continue
        began_s = time.monotonic()
        print(f"{which}: {counted(len(spec.settings) + 1, 'setting')} × {spec.runs}", flush=True)
        try:
            invalid = record_one(spec, output)
        except (WritewiseError, OSError) as error:
            print(f"{which} failed: {error}", flush=True)
            problems.append(f"{spec.name}: {error}")
            continue
        print(f"{which}: {output}, {(time.monotonic() - began_s) / 60:.1f} minutes", flush=True)
        if invalid:
            still = f"{counted(len(invalid), 'trial')} still invalid"
            problems.append(f"{spec.name}: {still}, the first since {invalid[0]}")
    return problems


def main() -> None:
    """Record the grids asked for; exit with what went wrong."""
    arguments = parser(__doc__).parse_args()
    planned, began_s = planned_by(arguments), time.monotonic()
    try:
        require(*demo.NEEDS)
    except WritewiseError as error:
        sys.exit(f"{error.message}\n  → {error.hint}")
    with ExitStack() as stack:
        if arguments.pause_page_reporting:
            stack.enter_context(paused(System()))
        stack.enter_context(terminable())
        problems = record_each(planned, partial(record, traces=arguments.traces))
    print(f"recording took {(time.monotonic() - began_s) / 60:.1f} minutes")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
