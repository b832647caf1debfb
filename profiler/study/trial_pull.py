# SPDX-License-Identifier: Apache-2.0
"""The pull of one trial: measured, deleted afterwards, and stopped when it can no longer win."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from profiler.bpf.session import ProfileSession
from profiler.pull.destination import Destination
from profiler.pull.errors import PullStoppedError
from profiler.pull.measured import OnPhase, PullMeasurement, Verify, measure_pull
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.watch.volumes import EbsVolumes
from sysctl.sweep.steps import StoppedEarly


def trial_pull(
    pool: WorkerPool,
    plan: PullPlan,
    destination: Destination,
    session: ProfileSession | None,
    *,
    durable: bool,
    verify: Verify,
    on_phase: OnPhase,
    stop_after_s: float | None,
    during: Callable[[], AbstractContextManager[None]],
    volumes: EbsVolumes | None = None,
) -> PullMeasurement:
    """Return the measurement of a pull that fetched every object; its files are deleted.

    Raises PullError, and StoppedEarly when the pull takes longer than `stop_after_s`.
    """
    try:
        measured = measure_pull(
            pool,
            plan,
            destination,
            session,
            durable=durable,
            keep=False,
            verify=verify,
            on_phase=on_phase,
            stop_after_s=stop_after_s,
            during=during,
            volumes=volumes,
        )
    except PullStoppedError as stopped:
        raise StoppedEarly from stopped
    measured.require_all()
    return measured
