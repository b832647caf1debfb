# SPDX-License-Identifier: Apache-2.0
"""The bench of a sweep of transfer settings alone: it changes nothing and loads no probe.

It does not need root. So it does not know whether writers waited, keeps clean caches, and leaves
the dirty limit to the kernel; `sweep --space transfer` as root does more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from profiler.pull.destination import Destination
from profiler.pull.measured import OnPhase, PullMeasurement, Verify
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.study.bench import held_up_by, whole_pages_bytes
from profiler.study.host_at_start import HostAtStart
from profiler.study.in_force import unchanged
from profiler.study.trial_pull import trial_pull
from profiler.watch.timeline import TimelineRecorder
from sysctl.evidence.results import Observation
from sysctl.host.devices import Disk
from sysctl.host.system import System
from sysctl.knobs.setting import Setting


@dataclass
class TransferBench:
    """Implements `sysctl.sweep.steps.Bench`; `fresh_pool` makes each trial's workers.

    `say` shows what a trial is doing. The first pull of each setting is verified by checksums, the
    others by size.
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
        """See `Bench`: starts new workers with it."""
        self._setting, self._pool = setting, self.fresh_pool(setting)

    def measure(
        self, *, durable: bool, stop_after_s: float | None = None, observe_price: bool = False
    ) -> Observation:
        """See `Bench`. The effect on other programs is not observed."""
        self.say("settling")
        os.sync()  # the whole host, because all dirty data counts against the limits
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
        measured = trial_pull(
            self._pool,
            self.plan,
            Destination(self.destination),
            None,
            durable=durable,
            verify=Verify.SIZE if is_verified else Verify.CHECKSUM,
            on_phase=self.on_phase,
            stop_after_s=stop_after_s,
            during=recorded,
        )
        self._verified |= {self._setting} if self._setting else set()
        return measured
