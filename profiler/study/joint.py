"""A sweep of transfer settings: which of them it tries, and workers with them.

They change nothing on the host: a trial's workers have them. `io_chunksize` and the concurrency
change how writers stall, so they can be tried together with the write-back settings, too.
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
    """The values of each setting of these `names`, that of `base` among them.

    Of a size those up to the first that the largest object, of `object_bytes`, fits into: all
    beyond it do the same.
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
    """The settings of these `names`, as the present pull has them."""
    values: Mapping[str, Any] = asdict(base)
    return tuple((name, int(values[name])) for name in names)


def held_bytes(settings: TransferSettings, bytes_at_once: int) -> int:
    """How much may wait in a worker's memory for the thread that writes, at most, in bytes.

    Of `bytes_at_once`, which it fetches at a time: one object, or several. s3transfer bounds the
    queue by its number of chunks; each fetching thread holds one more.
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
    """All combinations of the values, and those left out, which may hold too much memory.

    What waits in the workers is memory that cannot be dirty: where that is more than
    `MAX_MEMORY_CHANGE`, trials would be of other thresholds than the present ones are.
    """
    largest_bytes = max((each.size_bytes for each in plan.objects), default=0)
    values = swept_values(base, names, largest_bytes)
    every = [tuple(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    allowed = available_bytes * MAX_MEMORY_CHANGE / workers
    kept = [
        each
        for each in every
        if held_bytes(settings_with(base, each), -(-plan.bytes // workers)) <= allowed
        or each == present_transfer(base, names)
    ]
    heavy = len(every) - len(kept)
    what = f"{counted(heavy, 'combination')} of transfer settings"
    why = (
        f"the workers may hold more than {MAX_MEMORY_CHANGE:.0%} of the "
        f"{format_size(available_bytes)} available"
    )
    return kept, [LeftOut(what, why)] if heavy else []


def settings_with(base: TransferSettings, transfer: Transfer) -> TransferSettings:
    """The settings with which a trial pulls; what is not varied is as in `base`."""
    values = {n: bool(v) if TRANSFER_BY_NAME[n].is_switch else v for n, v in transfer}
    return replace(base, **values)  # type: ignore[arg-type]


@dataclass
class TrialWorkers:
    """The workers of a sweep; a context manager, at whose end they end."""

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
        """New workers with the setting's transfer settings, in place of those before.

        None has connections that are open already, whatever ran before it. Raises PullError.
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
