# SPDX-License-Identifier: Apache-2.0
"""What is read of /proc/vmstat, while pages move from dirty to under write-back."""

from __future__ import annotations

import itertools

from sysctl.host.sysctls import read_dirty_bytes, read_thresholds
from sysctl.host.system import System
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds


class MovingHost(System):
    """At each reading 100 more of 1,000 pages are under write-back, and thresholds are others."""

    def __init__(self):
        super().__init__()
        self._readings = itertools.count()

    def read(self, absolute):
        assert absolute == "/proc/vmstat"
        moved = 100 * next(self._readings)
        return (
            f"nr_dirty {1000 - moved}\nnr_writeback {moved}\n"
            f"nr_dirty_threshold {2000 + moved}\nnr_dirty_background_threshold {1000 + moved}"
        )


def test_a_page_that_moves_counts_once():
    host = MovingHost()
    assert [read_dirty_bytes(host) for _ in range(5)] == [1000 * PAGE_BYTES] * 5


def test_both_thresholds_are_of_one_moment():
    assert read_thresholds(MovingHost()) == Thresholds(1000 * PAGE_BYTES, 2000 * PAGE_BYTES)
