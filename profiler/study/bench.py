# SPDX-License-Identifier: Apache-2.0
"""The bench of a sweep: applies a setting to the host and measures a pull with it.

`sysctl/evidence/protocol.py` describes the order of a trial and when it counts.
"""

from __future__ import annotations

import os
import secrets
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.document import findings_document
from contracts.evaluate import evaluate
from contracts.model import Contract
from profiler.bpf.disks import bottom_devices, devices_of
from profiler.bpf.probes.dirty_limit import DirtyLimitReader
from profiler.bpf.session import ProfileSession
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.evidence import gathered
from profiler.pull.measured import OnPhase, PullMeasurement, Verify
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.study.host_at_start import HostAtStart
from profiler.study.in_force import InForce, read_in_force, unchanged
from profiler.study.settle import settle_dirty_limit
from profiler.study.trial_pull import trial_pull
from profiler.watch.causes import WhyInputs, split
from profiler.watch.timeline import Timeline
from profiler.watch.trace import trace_of
from profiler.watch.volumes import EbsVolumes
from sysctl.evidence.protocol import MAX_MEMORY_CHANGE
from sysctl.evidence.results import Observation
from sysctl.host.devices import Disk
from sysctl.host.host import Host
from sysctl.host.mount_table import mount_at, mount_of
from sysctl.host.mounts import words_of
from sysctl.host.system import HostError
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import PAGE_BYTES
from sysctl.sweep.steps import StoppedEarly

if TYPE_CHECKING:
    from profiler.price.observing import PriceObserver


@dataclass
class PullBench:
    """Implements `sysctl.sweep.steps.Bench` with real pulls; `say` shows what a trial is doing.

    The context `deleting` lasts while a trial's files are deleted (`profiler/lab/lab.py`,
    uncapped). `cap_problem` returns why the volume's cap is not in force, else None. `disk` is that
    of the destination, None if it is not on a single disk with knobs. The first pull that waits for
    the device is verified by checksums; later only sizes are checked, because reading everything
    takes as long as a pull. `fresh_pool` makes each trial's workers if transfer settings are
    varied; otherwise `pool` serves all trials. `volumes` are those of the destination.
    """

    host: Host
    pool: WorkerPool
    plan: PullPlan
    destination: Path
    mount_target: str
    contract: Contract
    session: ProfileSession
    limits: DirtyLimitReader
    say: Callable[[str], None]
    on_phase: OnPhase
    deleting: Callable[[], AbstractContextManager[None]] = nullcontext
    cap_problem: Callable[[], str | None] = lambda: None
    disk: Disk | None = None
    fresh_pool: Callable[[Setting], WorkerPool] | None = None
    volumes: EbsVolumes = field(default_factory=EbsVolumes)
    _is_verified: bool = field(default=False, init=False)
    _at_start: InForce = field(init=False)

    def __post_init__(self) -> None:
        """Read the host's state before the first trial."""
        self._at_start = read_in_force(self.host.system, self.mount_target, self.disk)

    def apply(self, setting: Setting) -> None:
        """See `Bench`."""
        if setting.mount_options is None:
            self.host.restore_mount_options(self.mount_target)
        else:
            self.host.set_mount_options(self.mount_target, words_of(setting.mount_options))
        self.host.replace_writeback(setting.values)
        if self.disk is not None:
            self.host.set_device(self.disk, dict(setting.device))
        elif setting.device:
            raise HostError(f"{self.destination} is not on one disk whose knobs can be set")
        self._check_the_rest(setting)
        if self.fresh_pool is not None:
            self.pool = self.fresh_pool(setting)

    def _check_the_rest(self, setting: Setting) -> None:
        """Raise HostError if something that the setting leaves alone has changed."""
        now = read_in_force(self.host.system, self.mount_target, self.disk)
        begun = replace(
            self._at_start,
            sysctls=now.sysctls,  # read back already
            mount=self._at_start.mount if setting.mount_options is None else now.mount,
            knobs=now.knobs if setting.device else self._at_start.knobs,
        )
        changed = begun.changes(now)
        if changed:
            raise HostError(
                f"another program changed {', '.join(changed)} since the sweep began",
                "restore it, or start a new sweep with the current settings",
            )

    def measure(
        self, *, durable: bool, stop_after_s: float | None = None, observe_price: bool = False
    ) -> Observation:
        """See `Bench`. A pull whose price is observed also waits for the device."""
        with ExitStack() as stack:
            stack.enter_context(self.host.temporary())
            token = secrets.token_hex(6)
            folder = self.host.make_trial_directory(self.destination, token)
            observer = stack.enter_context(self._observer(folder)) if observe_price else None
            self.say("settling")
            os.sync()  # the whole host, because all dirty data counts against the limits
            self.host.drop_clean_caches()
            in_force = stack.enter_context(
                unchanged(self.host.system, self.mount_target, self.disk)
            )
            settled = settle_dirty_limit(self.host, self.limits, in_force.sysctls)
            at_start = HostAtStart(self.host.system)
            _require_cap(self.cap_problem())
            self.say("pulling")
            measured = self._pull(folder, durable, stop_after_s, observer)
            neighbours_bytes = observer.dirtied_bytes if observer else 0
            of_host = at_start.observed(whole_pages_bytes(self.plan) + neighbours_bytes)
        why = measured.why
        check_memory(why.timeline if why else None)
        return Observation(
            return_s=measured.return_s,
            durable_s=measured.durable_s,
            stall_share=measured.stalled_share,
            peak_dirty_bytes=why.timeline.peak_added_bytes if why and why.timeline else 0,
            limit_bytes=settled.limit_bytes,
            bytes=measured.result.bytes,
            objects=measured.result.objects,
            writers=measured.writing_threads or 0,
            device_read_bytes=self._read_bytes(why),
            held_up_by=held_up_by(measured),
            **of_host,
            **_of_writes(why),
            trace=trace_of(why.timeline if why else None, self._disk_names()),
            findings=self._findings(measured),
            price=observer.seen if observer else None,
            over_limit=measured.over_limit,
            over_limit_problem=measured.over_limit_problem,
        )

    def _observer(self, folder: Path) -> PriceObserver:
        from profiler.price.observing import PriceObserver  # only a few trials need it

        mount = mount_of(self.host.system.mounts(), str(self.destination))
        return PriceObserver(self.host.system, mount, folder)

    def require_destination(self) -> None:
        """See `Bench`: makes a folder there, as a trial does."""
        hint = "check `dmesg` and fix it, then continue with `writewise sweep --resume`"
        if mount_at(self.host.system.mounts(), self.mount_target) is None:
            raise HostError(f"the volume of {self.mount_target} is no longer mounted", hint)
        try:
            with self.host.temporary():
                self.host.make_trial_directory(self.destination, secrets.token_hex(6))
        except HostError as error:
            message = f"no file can be made in {self.destination}: {error.message}"
            raise HostError(message, hint) from None

    def _pull(
        self,
        folder: Path,
        durable: bool,
        stop_after_s: float | None,
        observer: PriceObserver | None,
    ) -> PullMeasurement:
        durable = durable or observer is not None
        lost: str | None = None

        @contextmanager
        def deleting() -> Iterator[None]:
            nonlocal lost
            lost = self.cap_problem()
            with nullcontext() if lost else self.deleting():
                yield

        try:
            measured = trial_pull(
                self.pool,
                self.plan,
                Destination(folder, deleting),
                self.session,
                durable=durable,
                verify=Verify.CHECKSUM if durable and not self._is_verified else Verify.SIZE,
                on_phase=self.on_phase,
                stop_after_s=stop_after_s,
                during=observer.observed if observer else nullcontext,
                volumes=self.volumes,
            )
        except (StoppedEarly, PullError):  # not Ctrl-C, which must not become a failed trial
            _require_cap(lost)
            raise
        _require_cap(lost)
        self._is_verified |= durable
        return measured

    def _read_bytes(self, why: WhyInputs | None) -> int | None:
        """Return the bytes read from the destination's disks; None if it has none."""
        names = self._disk_names()
        found = [stats for device, stats in why.devices if device.name in names] if why else []
        return sum(stats.reads.bytes for stats in found) if found else None

    def _disk_names(self) -> set[str]:
        """Return the disks that receive the destination's requests: all of a logical volume."""
        return {device.name for device in bottom_devices(devices_of((str(self.destination),)))}

    def _findings(self, measured: PullMeasurement) -> tuple[dict[str, object], ...]:
        if measured.snapshot is None:
            return ()
        return tuple(findings_document(evaluate(self.contract, measured.snapshot.stats)))


def _require_cap(problem: str | None) -> None:
    if problem:
        raise HostError(problem, "run `writewise lab down`, then `writewise lab up`")


def whole_pages_bytes(plan: PullPlan) -> int:
    """Return the bytes that a pull of the plan dirties: whole pages for each object."""
    return sum(-(-remote.size_bytes // PAGE_BYTES) * PAGE_BYTES for remote in plan.objects)


def held_up_by(measured: PullMeasurement) -> str | None:
    """Return what limited the pull, for `Observation`; None if its client does not report it."""
    found = gathered(measured)
    return found.limit.name.lower() if found else None


def check_memory(timeline: Timeline | None) -> None:
    """Raise HostError if the amount of memory changed for most of the pull.

    The kernel's dirty threshold shows it: a ratio follows memory. The pull itself moves it for
    moments, so the median of the samples counts.
    """
    if timeline is None:
        return
    begun = timeline.first.thresholds.dirty_bytes
    usual = statistics.median(sample.thresholds.dirty_bytes for sample in timeline.samples)
    if abs(usual - begun) > MAX_MEMORY_CHANGE * begun:
        raise HostError(
            f"dirtyable memory changed by {usual / begun - 1:+.0%} during the pull",
            "end other programs that allocate or free memory",
        )


def _of_writes(why: WhyInputs | None) -> dict[str, Any]:
    """Return percentiles and causes of the contract's writes, as fields of `Observation`."""
    if why is None:
        return {}
    return {
        "write_p50_ns": why.calls.percentile_ns(50),
        "write_p99_ns": why.calls.percentile_ns(99),
        "split_s": {part.cause.value: part.time_ns / 1e9 for part in split(why.calls)},
    }


class Instruments(ExitStack):
    """Probes that are attached once for many trials: a session and the dirty limit's reader."""

    def attach(self, contract: Contract) -> tuple[ProfileSession, DirtyLimitReader]:
        """Attach both until the context ends."""
        session = self.enter_context(ProfileSession(contract))
        return session, self.enter_context(DirtyLimitReader())
