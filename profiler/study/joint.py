# SPDX-License-Identifier: Apache-2.0
"""The transfer settings that a sweep tries, and the workers that use them.

They change nothing on the host, only a trial's workers. Since `io_chunksize` and the concurrency
affect how writers stall, they can also be combined with write-back settings.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from contracts.shared.units import counted, format_size
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT
from profiler.pull.clients.interface import Client
from profiler.pull.settings import TransferSettings
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from sysctl.evidence.protocol import MAX_MEMORY_CHANGE
from sysctl.evidence.results import LeftOut
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import TRANSFER_BY_NAME, TransferKnob
from sysctl.search.grid import Transfer


def swept_values(
    base: TransferSettings, names: Sequence[str], object_bytes: int
) -> dict[str, tuple[int, ...]]:
    """Return the values of each setting of these `names`, including that of `base`.

    For a size, values up to the first that holds the largest object (`object_bytes`): larger ones
    have the same effect.
    """
    knobs = (TRANSFER_BY_NAME[name] for name in names)
    return {
        knob.name: tuple(sorted({*_useful(knob, object_bytes), int(getattr(base, knob.name))}))
        for knob in knobs
    }


def _useful(knob: TransferKnob, object_bytes: int) -> Sequence[int]:
    if not knob.is_size:
        return knob.sweep
    enough = sum(value < object_bytes for value in knob.sweep)
    return knob.sweep[: enough + 1]


def present_transfer(base: TransferSettings, names: Sequence[str]) -> Transfer:
    """Return the current values of the settings of these `names`."""
    values: Mapping[str, Any] = asdict(base)
    return tuple((name, int(values[name])) for name in names)


def held_bytes(settings: TransferSettings, bytes_at_once: int) -> int:
    """Return the most bytes that may wait in a worker's memory for the thread that writes.

    `bytes_at_once` is the size of what it fetches at a time: one object, or several. s3transfer
    limits the queue's number of chunks; each fetching thread holds one more.
    """
    if not settings.use_threads:
        return min(bytes_at_once, settings.io_chunksize)
    chunks = settings.max_io_queue + settings.max_concurrency
    return min(bytes_at_once, chunks * settings.io_chunksize)


def combinations(
    base: TransferSettings,
    names: Sequence[str],
    plan: PullPlan,
    workers: int,
    available_bytes: int,
) -> tuple[list[Transfer], list[LeftOut]]:
    """Return all combinations of the values, and those left out, which may need too much memory.

    Data that waits in workers reduces dirtyable memory. If it reduces it by more than
    `MAX_MEMORY_CHANGE`, trials have other thresholds than trials of the current settings.
    """
    largest_bytes = max((each.size_bytes for each in plan.objects), default=0)
    values = swept_values(base, names, largest_bytes)
    every = [tuple(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    allowed_bytes = available_bytes * MAX_MEMORY_CHANGE / workers
    share_bytes = -(-plan.bytes // workers)
    present = present_transfer(base, names)
    kept = [
        each
        for each in every
        if each == present or held_bytes(settings_with(base, each), share_bytes) <= allowed_bytes
    ]
    heavy = len(every) - len(kept)
    what = f"{counted(heavy, 'combination')} of transfer settings"
    why = (
        f"workers may need more than {MAX_MEMORY_CHANGE:.0%} of the "
        f"{format_size(available_bytes)} of available memory"
    )
    return kept, [LeftOut(what, why)] if heavy else []


def settings_with(base: TransferSettings, transfer: Transfer) -> TransferSettings:
    """Return the settings for a trial; those that are not varied are as in `base`."""
    values = {n: bool(v) if TRANSFER_BY_NAME[n].is_switch else v for n, v in transfer}
    return replace(base, **values)  # type: ignore[arg-type]


@dataclass
class TrialWorkers:
    """The workers of a sweep; a context manager that ends them."""

    access: S3Access
    base: TransferSettings
    count: int | None = None
    client: Client = DEFAULT
    _pool: WorkerPool | None = field(default=None, init=False)

    def __enter__(self) -> TrialWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def fresh(self, setting: Setting) -> WorkerPool:
        """Replace the workers by new ones with the setting's transfer settings.

        So no worker has open connections from an earlier trial. Raises PullError.
        """
        self._close()
        settings = settings_with(self.base, setting.transfer)
        self._pool = WorkerPool(self.access, settings, self.count, self.client.make)
        self._pool.start()
        return self._pool

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
