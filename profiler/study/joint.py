"""The transfer half of a joint sweep: which settings of the pull it tries, and workers with them.

`io_chunksize` and the concurrency change how writers stall, so they are tried together with the
write-back settings. They change nothing on the host: a trial's workers have them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from contracts.shared.units import counted, format_size
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import DEFAULT
from profiler.pull.clients.interface import Client
from profiler.pull.settings import TransferSettings
from profiler.pull.source import PullPlan
from profiler.pull.workers import WorkerPool
from profiler.tune.space import held_bytes
from sysctl.evidence.protocol import MAX_MEMORY_CHANGE
from sysctl.evidence.results import LeftOut
from sysctl.knobs.setting import Setting
from sysctl.knobs.transfer import TRANSFER_KNOBS
from sysctl.search.grid import Transfer


def swept_values(base: TransferSettings, object_bytes: int) -> dict[str, tuple[int, ...]]:
    """The values of each setting that is varied, that of `base` among them.

    A size beyond the largest object, of `object_bytes`, is the same as the object's.
    """
    return {
        knob.name: tuple(
            sorted(
                {value for value in knob.sweep if not knob.is_size or value <= object_bytes}
                | {getattr(base, knob.name)}
            )
        )
        for knob in TRANSFER_KNOBS
        if knob.sweep
    }


def present_transfer(base: TransferSettings) -> Transfer:
    """The settings that are varied, as the present pull has them."""
    values: Mapping[str, Any] = asdict(base)
    return tuple((knob.name, values[knob.name]) for knob in TRANSFER_KNOBS if knob.sweep)


def combinations(
    base: TransferSettings, plan: PullPlan, workers: int, available_bytes: int
) -> tuple[list[Transfer], list[LeftOut]]:
    """All combinations of the values, and those left out, which may hold too much memory.

    What waits in the workers is memory that cannot be dirty: where that is more than
    `MAX_MEMORY_CHANGE`, trials would be of other thresholds than the present ones are.
    """
    values = swept_values(base, max((each.size_bytes for each in plan.objects), default=0))
    every = [tuple(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    allowed = available_bytes * MAX_MEMORY_CHANGE / workers
    kept = [
        each
        for each in every
        if held_bytes(settings_with(base, each), -(-plan.bytes // workers)) <= allowed
        or each == present_transfer(base)
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
    return replace(base, **dict(transfer))  # type: ignore[arg-type]


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
