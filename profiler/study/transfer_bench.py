"""The bench of a sweep of transfer settings alone: nothing on the host is changed, no probe loaded.

It takes no root. Whether writers waited, for the device or a CPU, is therefore not known, clean
caches stay, and the dirty limit is left to the kernel: `sweep --space transfer` as root has that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from profiler.pull.destination import Destination
from profiler.pull.errors import PullStoppedError
from profiler.pull.measured import OnPhase, PullMeasurement, Verify, measure_pull
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.study.bench import held_up_by, whole_pages_bytes
from profiler.study.host_at_start import HostAtStart
from profiler.study.in_force import unchanged
from profiler.watch.timeline import TimelineRecorder
from sysctl.evidence.results import Observation
from sysctl.host.devices import Disk
from sysctl.host.system import System
from sysctl.knobs.setting import Setting
from sysctl.sweep.steps import StoppedEarly


@dataclass
class TransferBench:
    """Implements `sysctl.sweep.steps.Bench`. `fresh_pool` makes each trial's workers.

    `say` shows what a trial is doing. Checksums are compared in the first pull of each setting,
    sizes in the others.
    """

    plan: PullPlan
    destination: Path
    mount_target: str
    disk: Disk | None
    fresh_pool: Callable[[Setting], WorkerPool]
    say: Callable[[str], None]
    on_phase: OnPhase
    system: System = field(default_factory=System)
    _setting: Setting | None = field(default=None, init=False)
    _pool: WorkerPool = field(init=False)
    _verified: set[Setting] = field(default_factory=set, init=False)

    def apply(self, setting: Setting) -> None:
        """See `Bench`: new workers have it."""
        self._setting, self._pool = setting, self.fresh_pool(setting)

    def measure(
        self, *, durable: bool, stop_after_s: float | None = None, observe_price: bool = False
    ) -> Observation:
        """See `Bench`. What other programs notice is not observed."""
        self.say("settling")
        os.sync()  # of the whole host: what others left dirty counts against the same limits
        at_start, recorder = HostAtStart(self.system), TimelineRecorder()
        self.say("pulling")
        with unchanged(self.system, self.mount_target, self.disk):
            measured = self._pull(durable or observe_price, stop_after_s, recorder)
        of_host = at_start.observed(whole_pages_bytes(self.plan))
        return Observation(
            return_s=measured.return_s,
            durable_s=measured.durable_s,
            stall_share=None,
            peak_dirty_bytes=recorder.timeline().peak_added_bytes,
            limit_bytes=at_start.thresholds.dirty_bytes,
            bytes=measured.result.bytes,
            objects=measured.result.objects,
            held_up_by=held_up_by(measured),
            **of_host,
        )

    def require_destination(self) -> None:
        """See `Bench`. Raises PullError."""
        with Destination(self.destination).open():
            pass

    def _pull(
        self, durable: bool, stop_after_s: float | None, recorder: TimelineRecorder
    ) -> PullMeasurement:
        @contextmanager
        def recorded() -> Iterator[None]:
            with recorder:
                yield

        is_verified = self._setting in self._verified
        try:
            measured = measure_pull(
                self._pool,
                self.plan,
                Destination(self.destination),
                None,
                durable=durable,
                keep=False,
                verify=Verify.SIZE if is_verified else Verify.CHECKSUM,
                on_phase=self.on_phase,
                stop_after_s=stop_after_s,
                meanwhile=recorded,
            )
        except PullStoppedError as stopped:
            raise StoppedEarly from stopped
        measured.require_all()
        self._verified |= {self._setting} if self._setting else set()
        return measured
