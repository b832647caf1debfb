"""The transfer half of a joint sweep: which settings of the pull it tries, and workers with them.

`io_chunksize` and the concurrency change how writers stall, so they are tried together with the
write-back settings. They change nothing on the host: a trial's workers have them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from contracts.units import counted, format_size
from profiler.pull.access import S3Access
from profiler.pull.settings import TransferSettings
from profiler.pull.workers import WorkerPool
from profiler.tune.bench import MEMORY_SHARE
from profiler.tune.space import held_bytes
from sysctl.knobs.transfer import TRANSFER_KNOBS
from sysctl.results import LeftOut
from sysctl.search.grid import Transfer
from sysctl.setting import Setting


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
    base: TransferSettings, object_bytes: int, workers: int, available_bytes: int
) -> tuple[list[Transfer], list[LeftOut]]:
    """All combinations that fit into memory with the object in each worker, and what does not."""
    values = swept_values(base, object_bytes)
    every = [tuple(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    allowed = available_bytes * MEMORY_SHARE / max(1, workers)
    kept = [each for each in every if _held(each, base, object_bytes) <= allowed]
    heavy = len(every) - len(kept)
    what = f"{counted(heavy, 'combination')} of transfer settings"
    why = f"workers could hold more than half of the {format_size(available_bytes)} available"
    return kept, [LeftOut(what, why)] if heavy else []


def _held(transfer: Transfer, base: TransferSettings, object_bytes: int) -> int:
    return held_bytes(replace(base, **dict(transfer)), object_bytes)  # type: ignore[arg-type]


@dataclass
class TrialWorkers:
    """The workers of a sweep; a context manager, at whose end they end."""

    access: S3Access
    base: TransferSettings
    count: int | None = None
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
        settings = replace(self.base, **dict(setting.transfer))  # type: ignore[arg-type]
        self._pool = WorkerPool(self.access, settings, self.count)
        self._pool.start()
        return self._pool

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
