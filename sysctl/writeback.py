"""The dirty-page model: what thresholds mean for a burst of writes.

Formulas from the kernel's mm/page-writeback.c (as of Linux 6.18), told in `docs/writeback.md`. What
they come to in time is predicted by `sysctl.prediction`.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.setting import threshold_bytes

PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True)
class Thresholds:
    """The two thresholds in bytes, as the kernel computes them from ratios or bytes."""

    background_bytes: int
    dirty_bytes: int

    @property
    def freerun_bytes(self) -> int:
        """Dirty bytes up to which no writer is made to wait: `dirty_freerun_ceiling()`."""
        return (self.background_bytes + self.dirty_bytes) // 2


def effective_thresholds(values: Mapping[str, int], dirtyable_bytes: int) -> Thresholds:
    """What sysctl `values` mean with that much dirtyable memory: `domain_dirty_limits()`."""
    dirty = threshold_bytes(values, DIRTY_PAIR, dirtyable_bytes)
    background = threshold_bytes(values, BACKGROUND_PAIR, dirtyable_bytes)
    if background >= dirty:
        background = dirty // 2
    return Thresholds(background, dirty)


def group_thresholds(host: Thresholds, dirtyable_bytes: int, limit_bytes: int) -> Thresholds:
    """What the host's thresholds mean in a version 2 control group that may use `limit_bytes`.

    The same shares of its memory, of bytes too, each of them all of it at most
    (`domain_dirty_limits()` with a `gdtc`).
    """
    dirty, background = (
        min(limit_bytes, size * limit_bytes // dirtyable_bytes)
        for size in (host.dirty_bytes, host.background_bytes)
    )
    return Thresholds(background if background < dirty else dirty // 2, dirty)
