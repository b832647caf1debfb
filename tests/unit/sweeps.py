# SPDX-License-Identifier: Apache-2.0
"""Simulated sweeps for the tests of the advisor: a bench whose times follow a given function."""

from __future__ import annotations

import contextlib

from contracts.shared.errors import WritewiseError
from sysctl.evidence.circumstances import circumstances_of
from sysctl.evidence.price import Limits
from sysctl.evidence.price_seen import Latency, PriceSeen
from sysctl.evidence.results import Observation, Results
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import effective_thresholds
from sysctl.search import Strategy
from sysctl.search.edge import EdgeSearch, ladders_of
from sysctl.search.extras import MOUNT, Extra
from sysctl.search.grid import build_grid
from sysctl.search.strategies import EDGE, GRID, make_strategy
from sysctl.sweep.budget import Budget
from sysctl.sweep.steps import StoppedEarly, SweepPlan, run_sweep

GIB = 2**30
PRESENT = Setting((("vm.dirty_ratio", 20), ("vm.dirty_background_ratio", 10)))
#: The `context` as in files of version 3.
CONTEXT = {
    "source": "s3://bucket/images",
    "destination": "/data",
    "device": "/dev/nvme1n1",
    "mount_target": "/data",
    "mount_words": [],
    "mount_options": ["rw", "nosuid", "relatime"],
    "mount_policy": ["nosuid"],
    "fstab": {
        "source": "LABEL=data",
        "fstype": "xfs",
        "options": ["nosuid", "nofail"],
        "dump": 0,
        "check": 2,
    },
    "fstype": "xfs",
    "host": "node-1",
    "kernel": "6.18.0",
    "version": "0.1.0",
    "started_at": "2026-11-21T10:00:00+00:00",
    "available_bytes": 4 * GIB,
    "dirtyable_bytes": 4 * GIB,
}
CIRCUMSTANCES = circumstances_of(CONTEXT)
PRICE_SEEN = PriceSeen(
    observed_s=31.5,
    fsync=Latency(0.004, 0.3, 31),
    read=Latency(0.001, 0.02, 31),
    swapped_out_bytes=0,
    refaulted_bytes=2**20,
    direct_reclaim_stalls=0,
    memory_pressure_share=0.002,
)


def circumstances(**changes):
    """Return the same circumstances with changes, named as in the `context` of older files."""
    return circumstances_of({**CONTEXT, **changes})


def by_ratio(setting, run):
    """Return the lab's times: 20 → 19 s, 40 → 8.7 s, 60 → 3.8 s, 80 → 3.3 s, and 0.05 s a run."""
    times = {20: 19.0, 40: 8.7, 60: 3.8, 80: 3.3}
    return times[setting.values["vm.dirty_ratio"]] + 0.05 * run


class MadeUpBench:
    """A bench whose `seconds(setting, run)` returns a time or raises WritewiseError.

    `changed(setting, run)` returns fields of the observation that differ from the usual ones.
    """

    def __init__(self, seconds=by_ratio, changed=lambda setting, run: {}, dirtyable_bytes=4 * GIB):
        self.seconds = seconds
        self.changed = changed
        self.dirtyable_bytes = dirtyable_bytes
        self.applied = []
        self.now_s = 0.0
        self.lost = ""

    def apply(self, setting):
        self.applied.append(setting)

    def measure(self, *, durable, stop_after_s=None, observe_price=False):
        setting, run = self.applied[-1], self.applied.count(self.applied[-1])
        self.now_s += 2.0
        seconds = self.seconds(setting, run)
        if stop_after_s is not None and seconds > stop_after_s:
            self.now_s += stop_after_s
            raise StoppedEarly
        durable = durable or observe_price
        self.now_s += 31.5 if durable else seconds
        price = {"price": PRICE_SEEN} if observe_price else {}
        fields = self.observed(seconds, setting, durable)
        return Observation(**{**fields, **price, **self.changed(setting, run)})

    def require_destination(self):
        if self.lost:
            raise WritewiseError(self.lost)

    def observed(self, seconds, setting, durable):
        thresholds = effective_thresholds(setting.values, self.dirtyable_bytes)
        return {
            "return_s": seconds,
            "durable_s": 31.5 if durable else None,
            "stall_share": max(0.0, 1 - 3.3 / seconds),
            "peak_dirty_bytes": int(1.7 * GIB),
            "thresholds": thresholds,
            "limit_bytes": thresholds.dirty_bytes,
            "bytes": 40 * 48 * 2**20,
            "objects": 40,
            "dirtyable_bytes": self.dirtyable_bytes,
        }


def sweep(
    seconds=by_ratio,
    ratios=(40, 60, 80),
    backgrounds=(5, 10),
    mount_options=(),
    results=None,
    budget=None,
    bench=None,
    at_most=None,
    strategy=GRID,
):
    """Run a sweep of the grid to its end, or to `at_most` trials (as if killed then)."""
    values = {"vm.dirty_ratio": ratios, "vm.dirty_background_ratio": backgrounds}
    candidates, left_out = build_grid(values, PRESENT, 4 * GIB)
    if strategy == EDGE:
        search: Strategy = EdgeSearch(
            ladders_of(PRESENT.values, 4 * GIB, Limits(), 40 * 48 * 2**20)
        )
    else:
        search = make_strategy(strategy, candidates, seed=0)
    extras = tuple(Extra(MOUNT, text, is_asked_for=True) for text in mount_options)
    results = results or Results(CIRCUMSTANCES, {}, left_out)
    bench = bench or MadeUpBench(seconds)

    def on_trial(trial):
        if len(results.trials) == at_most:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        run_sweep(
            results,
            SweepPlan(PRESENT, search, extras, budget or Budget()),
            bench,
            on_step=lambda step: None,
            on_trial=on_trial,
            clock_s=lambda: bench.now_s,
        )
    return results


def failing(message):
    raise WritewiseError(message)
