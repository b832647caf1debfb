"""A sweep from end to end: check, probe, lock, measure, keep the results, restore the host."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
from profiler.pull.result import Progress
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, list_plan
from profiler.study.bench import Instruments, PullBench
from profiler.study.joint import TrialWorkers, combinations, present_transfer
from profiler.study.space import Place, Space, make_search
from profiler.study.transfer_bench import TransferBench
from sysctl.evidence.circumstances import Circumstances, GroupLimits, Node, NodeClass
from sysctl.evidence.price import Limits
from sysctl.evidence.results import PRESENT, LeftOut, Results, Trial, load
from sysctl.evidence.runs import Runs
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
from sysctl.knobs.setting import Setting
from sysctl.search.grid import Transfer
from sysctl.search.strategies import NAMES
from sysctl.sweep.budget import Budget
from sysctl.sweep.steps import Bench, Step, SweepPlan, left_out, remaining, run_sweep

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

    `limits` are what the recommended setting may cost. Without `changes_host` settings of the pull
    alone are tried, which takes neither root nor probes.
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
    changes_host: bool = True


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
    with _host_of(request) as host:
        if host:
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


def _host_of(request: StudyRequest) -> AbstractContextManager[Host | None]:
    """The host to change, for this sweep alone; None where nothing of it is changed."""
    if not request.changes_host:
        return nullcontext()
    return Host.exclusive(LOCK_NAME, f"sweep of {request.destination.resolve()}")


def _check_output(request: StudyRequest) -> None:
    if request.output.exists() and not request.resume:
        raise UsageError(
            f"{request.output} exists already",
            "go on with it by --resume, or name another place by --output",
        )
    if request.resume and not request.output.exists():
        raise UsageError(f"there is no {request.output} to resume", "leave out --resume")


def _prepare(request: StudyRequest, host: Host | None, destination: Path, plan: PullPlan) -> Study:
    system = host.system if host else System()
    mount = mount_of(system.mounts(), str(destination))
    disk = _disk_of(system, mount)
    present = request.space.present(read_writeback(system))
    circumstances = Circumstances(
        _node_class(request, system, mount, disk, plan, present),
        _node(request, system, mount, disk),
    )
    if request.space.transfer:
        varied = present_transfer(request.transfer, request.space.transfer)
        present = replace(present, transfer=varied)
    space = request.space.to_json()
    is_new = not request.resume
    results = (
        Results(circumstances, space)
        if is_new
        else resumed_results(request.output, space, circumstances)
    )
    transfers, heavy = _transfers(request, plan, results.circumstances)
    place = Place(host, str(destination), mount, disk) if host else None
    strategy, extras, refused = make_search(
        request.space, place, present, request.limits, results.circumstances, transfers
    )
    results.left_out += [*heavy, *refused] * is_new
    sweep_plan = SweepPlan(present, strategy, extras, request.budget)
    return Study(results, sweep_plan, mount, disk, plan)


def _transfers(
    request: StudyRequest, plan: PullPlan, circumstances: Circumstances
) -> tuple[Sequence[Transfer], list[LeftOut]]:
    """The transfer settings to try, and those left out; none but the given ones by default."""
    if not request.space.transfer:
        return ((),), []
    workers = max(1, min(circumstances.node_class.workers or 1, len(plan.objects)))
    available_bytes = circumstances.node.available_bytes
    return combinations(request.transfer, request.space.transfer, plan, workers, available_bytes)


def _disk_of(system: System, mount: Mount) -> Disk | None:
    try:
        return disk_of(system, mount)
    except HostError:
        return None


def resumed_results(path: Path, space: Mapping[str, Any], circumstances: Circumstances) -> Results:
    """The results to go on with. Raises UsageError where trials could not be compared with them."""
    results = load(path, trusted=True)
    differing = circumstances.differing(results.circumstances)
    differing = [name for name in differing if name not in _MAY_DIFFER]
    if results.space != space:
        differing.append("values to try")
    if differing:
        searched_by = results.space.get("strategy")
        hint = "repeat the command that wrote it, or name another place by --output"
        if searched_by not in NAMES:
            hint = (
                f"its search, {searched_by}, is gone: advise from it as it is, or sweep to another "
                "place by --output"
            )
        raise UsageError(
            f"{path} is of another sweep, its trials cannot be compared: "
            f"{', '.join(differing)} differ",
            hint,
        )
    return results


def _node_class(
    request: StudyRequest,
    system: System,
    mount: Mount,
    disk: Disk | None,
    plan: PullPlan,
    present: Setting,
) -> NodeClass:
    options, fstype = mount.all_options, mount.fstype
    limits = [group.limit_bytes for group in limited_groups(system)]
    return NodeClass(
        fstype=fstype,
        mount_options=options,
        mount_words=present_words(mount),
        mount_policy=tuple(o for o in options if o != "rw" and not is_tunable(o, fstype)),
        instance=_instance_type(system),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        limited_groups=GroupLimits(len(limits), min(limits)) if limits else None,
        present=present.values,
        present_device=steady_values(system, disk) if disk else {},
        client=request.client.name,
        workers=request.workers or os.cpu_count(),
        transfer=str(request.transfer),
        transfer_settings=asdict(request.transfer) if request.space.transfer else None,
        objects=len(plan.objects),
        bytes=plan.bytes,
        contract=request.contract.source,
        max_at_risk_bytes=request.limits.max_at_risk_bytes,
        max_durable_s=request.limits.max_durable_s,
    )


def _node(request: StudyRequest, system: System, mount: Mount, disk: Disk | None) -> Node:
    from importlib.metadata import version

    return Node(
        available_bytes=read_available_bytes(system),
        dirtyable_bytes=dirtyable_bytes(system),
        memory_bytes=read_total_bytes(system),
        host=platform.node(),
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        version=version("writewise"),
        source=str(request.location),
        destination=str(request.destination.resolve()),
        device=mount.source,
        mount_target=mount.target,
        fstab=fstab_line(system, mount.target),
        disk=disk_identity(system, disk) if disk else None,
    )


def _instance_type(system: System) -> str | None:
    """The EC2 instance type, which Nitro shows as the product's name; None elsewhere."""
    folder = "/sys/class/dmi/id"
    if not system.exists(f"{folder}/sys_vendor"):
        return None
    if system.read(f"{folder}/sys_vendor") != "Amazon EC2":
        return None
    return system.read(f"{folder}/product_name")


def _measure(
    request: StudyRequest, host: Host | None, destination: Path, study: Study, view: View
) -> None:
    def begin(step: Step) -> None:
        if step.role != PRESENT:
            _leave_out(study.results, left_out(study.results, study.sweep_plan), view)
        view.step(step)

    def keep(trial: Trial) -> None:
        study.results.save(request.output)
        view.trial(trial)

    workers = TrialWorkers(request.access, request.transfer, request.workers, request.client)
    with workers, _bench(request, host, destination, study, view, workers) as bench:
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
    count = study.sweep_plan.strategy.remaining(Runs.of(study.results))
    if request.budget.is_limited and count:
        items.append(LeftOut(counted(count, "setting"), "the budget was used up before"))
    return items


@contextmanager
def _bench(
    request: StudyRequest,
    host: Host | None,
    destination: Path,
    study: Study,
    view: View,
    workers: TrialWorkers,
) -> Iterator[Bench]:
    if host is None:
        yield TransferBench(
            plan=study.plan,
            destination=destination,
            mount_target=study.mount.target,
            disk=study.disk,
            fresh_pool=workers.fresh,
            say=view.doing,
            on_phase=view.phase,
        )
        return
    present = lab.at(destination)
    if present is not None:  # its cap holds for the members of a group, and their children
        join(present.cap.group, host.system)
    with Instruments() as instruments:
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
