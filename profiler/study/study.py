"""A sweep from end to end: check, probe, lock, measure, keep the results, restore the host."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from contracts.model import Contract
from contracts.shared.errors import UsageError
from contracts.shared.units import counted
from contracts.shared.writing import remove
from profiler.lab import lab
from profiler.lab.cap import join
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT
from profiler.pull.clients.interface import Client
from profiler.pull.destination import Destination
from profiler.pull.measured import Phase
from profiler.pull.results import Progress
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.study.bench import Instruments, PullBench
from profiler.study.joint import TrialWorkers, combinations, present_transfer
from profiler.study.space import Place, Space, make_search
from sysctl.evidence.price import Limits
from sysctl.evidence.results import PRESENT, LeftOut, Results, Trial, load
from sysctl.host.devices import Disk, disk_of, steady_values
from sysctl.host.disk_identity import disk_identity
from sysctl.host.fstab import fstab_line
from sysctl.host.host import Host
from sysctl.host.limited_groups import limited_groups
from sysctl.host.mount_table import Mount, mount_of
from sysctl.host.mounts import present_words
from sysctl.host.sysctls import (
    dirtyable_bytes,
    read_available_bytes,
    read_total_bytes,
    read_writeback,
)
from sysctl.host.system import HostError, System
from sysctl.knobs.mount import is_tunable
from sysctl.search.grid import Transfer
from sysctl.search.strategies import NAMES
from sysctl.sweep.budget import Budget
from sysctl.sweep.steps import Step, SweepPlan, left_out, remaining, run_sweep

LOCK_NAME = "sweep"
#: What of the circumstances may differ where a sweep is resumed; of memory each trial is the judge.
_MAY_DIFFER = (
    "started_at",
    "version",
    "memory_bytes",
    "available_bytes",
    "dirtyable_bytes",
    "fstab",
    "limited_groups",
)


@dataclass(frozen=True)
class StudyRequest:
    """What to sweep: source and destination, how to pull, what to try and what that may cost.

    `limits` are what the recommended setting may cost.
    """

    location: Location
    destination: Path
    access: S3Access
    transfer: TransferSettings
    contract: Contract
    output: Path
    client: Client = DEFAULT
    space: Space = field(default_factory=Space)
    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    workers: int | None = None
    resume: bool = False


class View(Protocol):
    """Shows a study while it runs."""

    def recovered(self, changes: Sequence[str], left: Sequence[str]) -> None:
        """An earlier run was killed: what was restored after it, and why something was not."""

    def planned(self, results: Results, trials: int) -> None:
        """What was left out is known, and how many trials are to come, as far as known."""

    def left_out(self, item: LeftOut) -> None:
        """Something more is not tried."""

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
    disk: Disk | None
    plan: PullPlan = field(repr=False)


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
        view.recovered(host.recovered, host.left)
        study = _prepare(request, host, destination, plan)
        study.results.save(request.output)  # already now: it may not be writable
        view.planned(study.results, remaining(study.results, study.sweep_plan))
        try:
            _measure(request, host, destination, study, view)
        finally:
            if not study.results.trials:
                remove(request.output)
        return study.results


def _check_output(request: StudyRequest) -> None:
    if request.output.exists() and not request.resume:
        raise UsageError(
            f"{request.output} exists already",
            "go on with it by --resume, or name another file by --output",
        )
    if request.resume and not request.output.exists():
        raise UsageError(f"there is no {request.output} to resume", "leave out --resume")


def _prepare(request: StudyRequest, host: Host, destination: Path, plan: PullPlan) -> Study:
    mount = mount_of(host.system.mounts(), str(destination))
    disk = _disk_of(host.system, mount)
    present = request.space.present(read_writeback(host.system))
    context = _context(request, host.system, mount, plan)
    if request.space.transfer:
        present = replace(present, transfer=present_transfer(request.transfer))
        context["transfer_settings"] = asdict(request.transfer)
    context["present"] = present.values
    context["disk"] = disk_identity(host.system, disk) if disk else {}
    context["present_device"] = steady_values(host.system, disk) if disk else {}
    space = request.space.to_json()
    is_new = not request.resume
    results = Results(context, space) if is_new else resumed_results(request.output, space, context)
    transfers, heavy = _transfers(request, plan, results.context)
    place = Place(host, str(destination), mount, disk)
    strategy, extras, refused = make_search(
        request.space, place, present, request.limits, results.context, transfers
    )
    results.left_out += [*heavy, *refused] * is_new
    sweep_plan = SweepPlan(present, strategy, extras, request.budget)
    return Study(results, sweep_plan, mount, disk, plan)


def _transfers(
    request: StudyRequest, plan: PullPlan, context: Mapping[str, Any]
) -> tuple[Sequence[Transfer], list[LeftOut]]:
    """The transfer settings to try, and those left out; none but the given ones by default."""
    if not request.space.transfer:
        return ((),), []
    workers = max(1, min(context["workers"], len(plan.objects)))
    return combinations(request.transfer, plan, workers, context["available_bytes"])


def _disk_of(system: System, mount: Mount) -> Disk | None:
    try:
        return disk_of(system, mount)
    except HostError:
        return None


def resumed_results(path: Path, space: Mapping[str, Any], context: Mapping[str, Any]) -> Results:
    """The results to go on with. Raises UsageError where trials could not be compared with them."""
    results = load(path, trusted=True)
    before = results.context
    differing = [name for name in context if name not in _MAY_DIFFER]
    differing = [name for name in differing if before.get(name) != context[name]]
    if results.space != space:
        differing.append("values to try")
    if differing:
        searched_by = results.space.get("strategy")
        hint = "repeat the command that wrote it, or name another file by --output"
        if searched_by not in NAMES:
            hint = (
                f"its search, {searched_by}, is gone: advise from it as it is, or sweep to another "
                "file by --output"
            )
        raise UsageError(
            f"{path} is of another sweep, its trials cannot be compared: "
            f"{', '.join(differing)} differ",
            hint,
        )
    return results


def _context(request: StudyRequest, system: System, mount: Mount, plan: PullPlan) -> dict[str, Any]:
    from importlib.metadata import version

    line = fstab_line(system, mount.target)
    limits = [group.limit_bytes for group in limited_groups(system)]
    return {
        "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": version("writewise"),
        "host": platform.node(),
        "instance": _instance_type(system),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "memory_bytes": read_total_bytes(system),
        "available_bytes": read_available_bytes(system),
        "dirtyable_bytes": dirtyable_bytes(system),
        "source": str(request.location),
        "objects": len(plan.objects),
        "bytes": plan.bytes,
        "destination": str(request.destination.resolve()),
        "device": mount.source,
        "fstype": mount.fstype,
        "mount_target": mount.target,
        "fstab": asdict(line) if line else None,
        "limited_groups": {"count": len(limits), "smallest_bytes": min(limits)} if limits else None,
        "mount_options": list(mount.all_options),
        "mount_words": list(present_words(mount)),
        "mount_policy": [
            o for o in mount.all_options if o != "rw" and not is_tunable(o, mount.fstype)
        ],
        "workers": request.workers or os.cpu_count(),
        "client": request.client.name,
        "transfer": str(request.transfer),
        "contract": request.contract.source,
        "max_at_risk_bytes": request.limits.max_at_risk_bytes,
        "max_durable_s": request.limits.max_durable_s,
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
    def begin(step: Step) -> None:
        if step.role != PRESENT:
            _leave_out(study.results, left_out(study.results, study.sweep_plan), view)
        view.step(step)

    def keep(trial: Trial) -> None:
        study.results.save(request.output)
        view.trial(trial)

    with _bench(request, host, destination, study, view) as bench:
        run_sweep(study.results, study.sweep_plan, bench, on_step=begin, on_trial=keep)
    _leave_out(study.results, _not_reached(request, study), view)
    study.results.save(request.output)


def _leave_out(results: Results, items: Sequence[LeftOut], view: View) -> None:
    """Keep and show what is not known to be left out yet; the first reason holds."""
    for item in items:
        if item.what not in {known.what for known in results.left_out}:
            results.left_out.append(item)
            view.left_out(item)


def _not_reached(request: StudyRequest, study: Study) -> list[LeftOut]:
    """What the present runs ruled out, and what the budget did not reach."""
    items = left_out(study.results, study.sweep_plan)
    count = study.sweep_plan.strategy.remaining(study.results)
    if request.budget.is_limited and count:
        items.append(LeftOut(counted(count, "setting"), "the budget was used up before"))
    return items


@contextmanager
def _bench(
    request: StudyRequest, host: Host, destination: Path, study: Study, view: View
) -> Iterator[PullBench]:
    present = lab.at(destination)
    if present is not None:  # its cap holds for the members of a group, and their children
        join(present.cap.group, host.system)
    trial_workers = TrialWorkers(request.access, request.transfer, request.workers, request.client)
    with trial_workers as workers, Instruments() as instruments:
        pool = workers.fresh(study.sweep_plan.present)
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
            deleting=partial(lab.uncapped, present, host) if present else nullcontext,
            cap_problem=partial(lab.cap_problem, present) if present else lambda: None,
            disk=study.disk,
            fresh_pool=workers.fresh if request.space.transfer else None,
        )
