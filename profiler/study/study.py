# SPDX-License-Identifier: Apache-2.0
"""A complete sweep: checks, locks, measures, saves the results and restores the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from contracts.shared.units import counted
from contracts.shared.writing import remove
from profiler.lab import lab
from profiler.lab.cap import join
from profiler.pull.measured import Phase
from profiler.pull.result import Progress
from profiler.pull.sample import check_sampling, sampled
from profiler.pull.source import PullPlan, list_plan
from profiler.study.bench import Instruments, PullBench
from profiler.study.checks import check_arguments
from profiler.study.circumstances_here import circumstances_here, resumed_results, volume_of
from profiler.study.joint import TrialWorkers, combinations, present_transfer
from profiler.study.request import StudyRequest
from profiler.study.space import Extras, Place, expected_extras, make_search
from profiler.study.transfer_bench import TransferBench
from profiler.watch.volumes import EbsVolumes
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.results import PRESENT, LeftOut, Results, Trial
from sysctl.evidence.runs import Runs
from sysctl.host.devices import Disk, disk_of
from sysctl.host.ext4 import is_being_initialized
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount, mount_of
from sysctl.host.sysctls import (
    read_writeback,
)
from sysctl.host.system import HostError, System
from sysctl.search.grid import Transfer
from sysctl.sweep.steps import Bench, Step, SweepPlan, left_out, remaining, run_sweep

LOCK_NAME = "sweep"
_INITIALIZED = (
    "the kernel still initializes a new ext4 (ext4lazyinit), which holds up writers: wait until it "
    "is done, or make file systems with mkfs.ext4 -E lazy_itable_init=0"
)


class View(Protocol):
    """Shows a study while it runs."""

    def recovered(self, changes: Sequence[str], left: Sequence[str]) -> None:
        """Show what was restored after a killed run, and why something could not be."""

    def noted(self, sentences: Sequence[str]) -> None:
        """Show how the volume's options were read, and what is not known of it."""

    def planned(self, results: Results, trials: int) -> None:
        """Show the circumstances and the approximate number of trials."""

    def step(self, step: Step) -> None:
        """Show that a trial begins."""

    def doing(self, what: str) -> None:
        """Show what the trial is doing."""

    def phase(self, phase: Phase, progress: Progress | None) -> None:
        """Show the progress of its pull."""

    def trial(self, trial: Trial) -> None:
        """Show a trial that has ended."""


@dataclass
class Study:
    """The data that is known before the first trial; `notes` are sentences about the volume."""

    results: Results
    sweep_plan: SweepPlan
    mount: Mount
    disk: Disk | None
    notes: tuple[str, ...]
    plan: PullPlan = field(repr=False)


def run_study(request: StudyRequest, view: View) -> Results:
    """Run or resume a sweep; the host is restored at the end, however it ends.

    Raises WritewiseError; the results so far are in the output file.
    """
    destination = request.destination.resolve()
    _check(request)
    plan = plan_of(request)
    with _host_of(request) as host:
        if host:
            view.recovered(host.recovered, host.left)
        study = _prepare(request, host, destination, plan)
        study.results.save(request.output)  # already now: it may not be writable
        view.noted(study.notes)
        view.planned(study.results, remaining(study.results, study.sweep_plan))
        try:
            _measure(request, host, destination, study, view)
        finally:
            if not study.results.trials:
                remove(request.output)
        return study.results


@dataclass
class NodeBench:
    """A bench on this host, locked for its owner; `results` are empty."""

    host: Host
    results: Results
    bench: Bench


@contextmanager
def node_bench(request: StudyRequest, view: View) -> Iterator[NodeBench]:
    """Check, lock and attach as a sweep does, for a caller that decides what runs.

    The host is restored at the end, however it ends. Raises WritewiseError.
    """
    destination = request.destination.resolve()
    _check(request)
    plan = plan_of(request)
    with _host_of(request) as host:
        if host is None:
            raise AssertionError("a bench of a node changes the host")
        view.recovered(host.recovered, host.left)
        study = _prepare(request, host, destination, plan)
        view.noted(study.notes)
        workers = TrialWorkers(request.access, request.transfer, request.workers, request.client)
        with workers, _bench(request, host, destination, study, view, workers) as bench:
            yield NodeBench(host, study.results, bench)


def plan_of(request: StudyRequest) -> PullPlan:
    """List what a trial pulls: the prefix, or a sample of it."""
    check_sampling(request.client, request.max_bytes)
    return sampled(list_plan(request.access, request.location), request.max_bytes)


def _host_of(request: StudyRequest) -> AbstractContextManager[Host | None]:
    """Yield the host, locked for this sweep; None if the sweep does not change it."""
    if not request.changes_host:
        return nullcontext()
    return Host.exclusive(LOCK_NAME, f"sweep of {request.destination.resolve()}")


def _check(request: StudyRequest) -> None:
    check_arguments(
        request.destination,
        request.output,
        request.workers,
        resume=request.resume,
        makes_folder=not request.changes_host,  # `transfer tune` has a folder of its own
    )


def prepare_without_host(request: StudyRequest) -> Study:
    """Return what is known before a sweep without changing or trying anything, for a dry run.

    Raises UsageError for what is wrong with the request, HostError for what this host never allows,
    PullError where S3 cannot be listed.
    """
    _check(request)
    destination, system = request.destination.resolve(), System()
    expected: Extras = ((), [])
    if request.changes_host:
        mount = mount_of(system.mounts(), str(destination))
        disk = _disk_of(system, mount)
        expected = expected_extras(request.space, system, str(destination), mount, disk)
    return _prepare(request, None, destination, plan_of(request), expected)


def _prepare(
    request: StudyRequest,
    host: Host | None,
    destination: Path,
    plan: PullPlan,
    expected: Extras = ((), []),
) -> Study:
    """Return what is known before the first trial. Without a host the extras are those expected."""
    system = host.system if host else System()
    mount = mount_of(system.mounts(), str(destination))
    disk = _disk_of(system, mount)
    present = request.space.present(read_writeback(system))
    volume = volume_of(request, disk)
    circumstances = circumstances_here(request, system, mount, disk, plan, present, volume)
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
        request.space, place, present, request.limits, results.circumstances, transfers, expected
    )
    results.left_out += [*heavy, *refused] * is_new
    sweep_plan = SweepPlan(present, strategy, extras, request.budget)
    notes = (*volume.notes, *[_INITIALIZED] * is_being_initialized(system, mount))
    return Study(results, sweep_plan, mount, disk, notes, plan)


def _transfers(
    request: StudyRequest, plan: PullPlan, circumstances: Circumstances
) -> tuple[Sequence[Transfer], list[LeftOut]]:
    """Return the transfer settings to try and those left out; by default only the given ones."""
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


def _measure(
    request: StudyRequest, host: Host | None, destination: Path, study: Study, view: View
) -> None:
    def begin(step: Step) -> None:
        if step.role != PRESENT:
            _leave_out(study.results, left_out(study.results, study.sweep_plan))
        view.step(step)

    def keep(trial: Trial) -> None:
        study.results.save(request.output)
        view.trial(trial)

    workers = TrialWorkers(request.access, request.transfer, request.workers, request.client)
    with workers, _bench(request, host, destination, study, view, workers) as bench:
        run_sweep(study.results, study.sweep_plan, bench, on_step=begin, on_trial=keep)
    _leave_out(study.results, _not_reached(request, study))
    study.results.save(request.output)


def _leave_out(results: Results, items: Sequence[LeftOut]) -> None:
    """Add the items that are not yet among those left out; the first reason counts."""
    for item in items:
        if item.what not in {known.what for known in results.left_out}:
            results.left_out.append(item)


def _not_reached(request: StudyRequest, study: Study) -> list[LeftOut]:
    """Return what the runs of the current settings ruled out, and what the budget did not reach."""
    items = left_out(study.results, study.sweep_plan)
    count = study.sweep_plan.strategy.remaining(Runs.of(study.results))
    if request.budget.is_limited and count:
        items.append(LeftOut(counted(count, "setting"), "the budget was used up"))
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
    if present is not None:  # only the members of its group and their children are capped
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
            volumes=instruments.enter_context(EbsVolumes.below(destination)),
        )
