"""A sweep from end to end: check, probe, lock, measure, keep the results, restore the host."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from contracts.errors import UsageError
from contracts.model import Contract
from profiler.lab import lab
from profiler.measured_pull import Phase
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.results import Progress
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, Plan, list_plan
from profiler.pull.workers import WorkerPool
from profiler.pull_bench import Instruments, PullBench
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount, is_below, mount_of
from sysctl.host.mounts import check_sweepable, present_words, words_of
from sysctl.host.probe import judge_options
from sysctl.host.sysctls import dirtyable_bytes, read_available_bytes, read_writeback
from sysctl.host.system import System
from sysctl.knobs.mount import is_tunable
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.results import LeftOut, Results, Trial, load
from sysctl.search.grid import build_grid
from sysctl.setting import Setting
from sysctl.sweep import Step, SweepPlan, remaining, run_sweep

LOCK_NAME = "sweep"
#: What of the circumstances may differ where a sweep is resumed; memory may by `_MEMORY_DRIFT`.
_MAY_DIFFER = ("started_at", "version", "available_bytes", "dirtyable_bytes")
_MEMORY_DRIFT = 0.2


@dataclass(frozen=True)
class StudyRequest:
    """What to sweep: source and destination, how to pull, and the values to combine.

    `values` are by sysctl name; `mount_options` are option texts, empty to leave the mount alone.
    """

    location: Location
    destination: Path
    access: S3Access
    transfer: TransferSettings
    contract: Contract
    output: Path
    values: Mapping[str, Sequence[int]]
    mount_options: Sequence[str] = ()
    workers: int | None = None
    resume: bool = False


class View(Protocol):
    """Shows a study while it runs."""

    def recovered(self, changes: Sequence[str]) -> None:
        """An earlier run was killed, and this is what was restored after it."""

    def planned(self, results: Results, trials: int) -> None:
        """What was left out is known, and how many trials are to come."""

    def step(self, step: Step) -> None:
        """A trial begins."""

    def doing(self, what: str) -> None:
        """What the trial is doing."""

    def phase(self, phase: Phase, progress: Progress | None) -> None:
        """How far its pull is."""

    def trial(self, trial: Trial) -> None:
        """A trial has ended."""


@dataclass
class Study:
    """What is known before the first trial."""

    results: Results
    sweep_plan: SweepPlan
    mount: Mount
    plan: Plan = field(repr=False)


def run_study(request: StudyRequest, view: View) -> Results:
    """Run (or go on with) a sweep; the host is as before at the end, however it ends.

    Raises WritewiseError: nothing is lost, the results so far are in the output file.
    """
    destination = request.destination.resolve()
    with Destination(request.destination).open():
        pass
    _check_output(request)
    plan = list_plan(request.access, request.location)
    with Host.exclusive(LOCK_NAME, f"sweep of {destination}") as host:
        if host.recovered:
            view.recovered(host.recovered)
        study = _prepare(request, host, destination, plan)
        study.results.save(request.output)  # already now: it may not be writable
        view.planned(study.results, remaining(study.results, study.sweep_plan))
        try:
            _measure(request, host, destination, study, view)
        finally:
            if not study.results.trials:
                request.output.unlink(missing_ok=True)
        return study.results


def _check_output(request: StudyRequest) -> None:
    if request.output.exists() and not request.resume:
        raise UsageError(
            f"{request.output} exists already",
            "go on with it by --resume, or name another file by --output",
        )
    if request.resume and not request.output.exists():
        raise UsageError(f"there is no {request.output} to resume", "leave out --resume")


def _prepare(request: StudyRequest, host: Host, destination: Path, plan: Plan) -> Study:
    mount = mount_of(host.system.mounts(), str(destination))
    present = _present(request, host.system)
    space = {
        "sysctls": {name: list(values) for name, values in request.values.items()},
        "mount_options": list(request.mount_options),
    }
    options, refused = _usable_options(request, host, mount, destination)
    grid, left_out = build_grid(request.values, options, present, dirtyable_bytes(host.system))
    if not grid.remaining([]):
        raise UsageError(
            "there is nothing to try: " + "; ".join(f"{i.what}: {i.why}" for i in left_out)
        )
    context = _context(request, host.system, mount, plan)
    context["present"] = present.values
    if request.resume:
        results = _resumed(request.output, space, context)
    else:
        results = Results(context, space, refused + left_out)
    return Study(results, SweepPlan(present, grid), mount, plan)


def _present(request: StudyRequest, system: System) -> Setting:
    """The thresholds in force, and the other sysctls that are swept."""
    shown = {*DIRTY_PAIR, *BACKGROUND_PAIR, *request.values}
    values = read_writeback(system)
    return Setting(tuple((name, value) for name, value in values.items() if name in shown))


def _usable_options(
    request: StudyRequest, host: Host, mount: Mount, destination: Path
) -> tuple[list[str], list[LeftOut]]:
    """The option texts without the words that this kernel does not take, and those words."""
    if not request.mount_options:
        return [], []
    texts = [words_of(text) for text in request.mount_options]
    check_sweepable(host.system, str(destination))
    words = dict.fromkeys(word for text in texts for word in text)
    verdicts = {v.word: v for v in judge_options(host, mount.fstype, words)}
    usable = [[w for w in text if verdicts[w].usable] for text in texts]
    kept = [",".join(some) or "defaults" for some, text in zip(usable, texts) if some or not text]
    refused = [
        LeftOut(f"mount option {v.word}", v.reason) for v in verdicts.values() if not v.usable
    ]
    return list(dict.fromkeys(kept)), refused


def _resumed(path: Path, space: Mapping[str, Any], context: Mapping[str, Any]) -> Results:
    """The results to go on with. Raises UsageError where trials could not be compared with them."""
    results = load(path)
    before = results.context
    differing = [name for name in context if name not in _MAY_DIFFER]
    differing = [name for name in differing if before.get(name) != context[name]]
    if results.space != space:
        differing.append("values to try")
    ratio = context["available_bytes"] / max(1, before["available_bytes"])
    if not 1 - _MEMORY_DRIFT < ratio < 1 + _MEMORY_DRIFT:
        differing.append("available memory")
    if differing:
        raise UsageError(
            f"{path} is of another sweep, its trials cannot be compared: "
            f"{', '.join(differing)} differ",
            "repeat the command that wrote it, or name another file by --output",
        )
    return results


def _context(request: StudyRequest, system: System, mount: Mount, plan: Plan) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": version("writewise"),
        "host": platform.node(),
        "instance": _instance_type(system),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "available_bytes": read_available_bytes(system),
        "dirtyable_bytes": dirtyable_bytes(system),
        "source": str(request.location),
        "objects": len(plan.objects),
        "bytes": plan.bytes,
        "destination": str(request.destination.resolve()),
        "device": mount.source,
        "fstype": mount.fstype,
        "mount_target": mount.target,
        "mount_options": list(mount.all_options),
        "mount_words": list(present_words(mount)),
        "mount_policy": [
            o for o in mount.all_options if o != "rw" and not is_tunable(o, mount.fstype)
        ],
        "workers": request.workers or os.cpu_count(),
        "transfer": str(request.transfer),
        "contract": request.contract.source,
    }


def _instance_type(system: System) -> str | None:
    """The EC2 instance type, which Nitro shows as the product's name; None elsewhere."""
    folder = "/sys/class/dmi/id"
    if not system.exists(f"{folder}/sys_vendor"):
        return None
    if system.read(f"{folder}/sys_vendor") != "Amazon EC2":
        return None
    return system.read(f"{folder}/product_name")


def _measure(
    request: StudyRequest, host: Host, destination: Path, study: Study, view: View
) -> None:
    def keep(trial: Trial) -> None:
        study.results.save(request.output)
        view.trial(trial)

    with _bench(request, host, destination, study, view) as bench:
        run_sweep(study.results, study.sweep_plan, bench, on_step=view.step, on_trial=keep)


def _deleting(destination: Path) -> Callable[[], AbstractContextManager[None]]:
    """On the lab's own volume: without its cap, so that a trial is reset in a moment."""
    present = lab.status() if is_below(str(destination), str(lab.folder())) else None
    return partial(lab.uncapped, present) if present else nullcontext


@contextmanager
def _bench(
    request: StudyRequest, host: Host, destination: Path, study: Study, view: View
) -> Iterator[PullBench]:
    pool = WorkerPool(request.access, request.transfer, request.workers)
    with pool, Instruments() as instruments:
        session, limits = instruments.attach(request.contract)
        yield PullBench(
            host=host,
            pool=pool,
            plan=study.plan,
            destination=destination,
            mount_target=study.mount.target,
            contract=request.contract,
            session=session,
            limits=limits,
            say=view.doing,
            on_phase=view.phase,
            deleting=_deleting(destination),
        )
