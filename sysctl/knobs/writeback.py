# SPDX-License-Identifier: Apache-2.0
"""The dirty-page model: what thresholds mean for a burst of writes.

The formulas are from the kernel's mm/page-writeback.c (as of Linux 6.18);
`docs/explanation/writeback.md` explains them. `sysctl.evidence.prediction` predicts times.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.knobs.setting import threshold_bytes
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR

PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True)
class Thresholds:
    """The two thresholds in bytes, as the kernel computes them from ratios or bytes."""

    background_bytes: int
    dirty_bytes: int

    @property
    def freerun_bytes(self) -> int:
        """The dirty bytes up to which no writer must wait: `dirty_freerun_ceiling()`."""
        return (self.background_bytes + self.dirty_bytes) // 2

    @property
    def setpoint_bytes(self) -> float:
        """The dirty bytes at which throttled writers are as fast as the device.

        `setpoint` of `wb_position_ratio()`: halfway from freerun to the dirty threshold.
        """
        return (self.freerun_bytes + self.dirty_bytes) / 2


def effective_thresholds(values: Mapping[str, int], dirtyable_bytes: int) -> Thresholds:
    """Return the thresholds of sysctl `values` for that memory: `domain_dirty_limits()`."""
    dirty = threshold_bytes(values, DIRTY_PAIR, dirtyable_bytes)
    background = threshold_bytes(values, BACKGROUND_PAIR, dirtyable_bytes)
    if background >= dirty:
        background = dirty // 2
    return Thresholds(background, dirty)


def flush_age_s(values: Mapping[str, int]) -> float:
    """Return the mean age (s) at which periodic write-back writes dirty pages: half a period late.

    `wb_check_old_data_flush()` in fs/fs-writeback.c, as of Linux 6.18. Infinite if sysctl `values`
    turn it off.
    """
    expire, period = (
        values.get(name, BY_NAME[name].kernel_default)
        for name in ("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs")
    )
    return (expire + period / 2) / 100 if period else math.inf


@dataclass(frozen=True)
class GroupUse:
    """The memory use of a control group, in bytes.

    `file_bytes` are file pages on the LRU lists, `dirty_bytes` those of them that are dirty or
    under write-back. `headroom_bytes` is the least that its own or an ancestor's limit leaves.
    """

    file_bytes: int
    dirty_bytes: int
    headroom_bytes: int


def group_available_bytes(use: GroupUse, host_available_bytes: int, host_dirty_bytes: int) -> int:
    """Return the memory of which a version 2 group's thresholds are a share: `mdtc_calc_avail()`.

    That is its file pages and the clean memory elsewhere that its limits still allow.
    """
    clean = use.file_bytes - min(use.file_bytes, use.dirty_bytes)
    host_clean = host_available_bytes - min(host_available_bytes, host_dirty_bytes)
    other_clean = host_clean - min(host_clean, clean)
    return use.file_bytes + min(use.headroom_bytes, other_clean)


def group_thresholds(
    values: Mapping[str, int], host_available_bytes: int, available_bytes: int
) -> Thresholds:
    """Return the thresholds in a version 2 control group: `domain_dirty_limits()` with a gdtc.

    Bytes are first converted to a share of the host's memory, rounded up to 1/4096 (a page) and at
    most 100 %. The share is then applied to the memory available to the group.
    """
    pages = available_bytes // PAGE_BYTES
    dirty, background = (
        _share(values, pair, host_available_bytes) * pages // PAGE_BYTES
        for pair in (DIRTY_PAIR, BACKGROUND_PAIR)
    )
    background = background if background < dirty else dirty // 2
    return Thresholds(background * PAGE_BYTES, dirty * PAGE_BYTES)


def _share(values: Mapping[str, int], pair: tuple[str, str], host_available_bytes: int) -> int:
    """Return a threshold's share of memory, in units of 1/PAGE_BYTES."""
    ratio_name, bytes_name = pair
    if values.get(bytes_name):
        host_pages = max(1, host_available_bytes // PAGE_BYTES)
        return min(-(-values[bytes_name] // host_pages), PAGE_BYTES)
    return values.get(ratio_name, 0) * PAGE_BYTES // 100
