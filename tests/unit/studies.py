# SPDX-License-Identifier: Apache-2.0
"""Simulated results of sweeps, trial by trial, with figures set by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

from sysctl.evidence.results import (
    CANDIDATE,
    PRESENT,
    PRICE,
    RECHECK,
    Observation,
    Results,
    TracePoint,
    Trial,
)
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import effective_thresholds
from sysctl.search.extras import PAIRS
from tests.unit.sweeps import GIB, circumstances
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

MIB = 2**20
BURST = 40 * 48 * MIB
#: Time of a run under the current settings, unless given.
PRESENT_S = 20.0


def ratio(dirty, background=5, mount_options=None):
    pairs = (("vm.dirty_ratio", dirty), ("vm.dirty_background_ratio", background))
    return Setting(pairs, mount_options)


def observed(return_s, setting=PRESENT_SETTING, **changes):
    """Return an observation, by default of a throttled pull on 4 GiB; any field can be given."""
    fields = {
        "return_s": return_s,
        "durable_s": None,
        "stall_share": 0.8,
        "peak_dirty_bytes": GIB,
        "thresholds": effective_thresholds(setting.values, 4 * GIB),
        "limit_bytes": GIB,
        "bytes": BURST,
        "objects": 40,
        "dirtyable_bytes": 4 * GIB,
    }
    return Observation(**{**fields, **changes})


class Study:
    """Results that grow by trials; runs of the current settings take 20 s unless given."""

    def __init__(self, present_s=(20.0, 20.1), context=None, **present):
        self.present = present
        self.results = Results(circumstances(**{"workers": 2, **(context or {})}), {})
        self.pairs = itertools.count()
        for return_s in present_s:
            self.add(PRESENT, PRESENT_SETTING, return_s, **present)

    @property
    def runs(self):
        """Return the trials so far, numbered."""
        return Runs.of(self.results)

    def add(self, role, setting, return_s, pair=None, problem="", **changes):
        seen = None if problem else observed(return_s, setting, **changes)
        trial = Trial(role, setting, "2026-11-21T10:00:00", seen, problem, pair)
        self.results.trials.append(trial)
        return self

    def candidate(self, setting, return_s, **changes):
        return self.add(CANDIDATE, setting, return_s, **changes)

    def price(self, setting, return_s, durable_s, **changes):
        return self.add(PRICE, setting, return_s, durable_s=durable_s, **changes)

    def block(self, times_s, **changes):
        """Add a run of each setting in `times_s`; `changes` do not affect the current one."""
        pair = next(self.pairs)
        for setting, time_s in times_s.items():
            is_present = setting == PRESENT_SETTING
            role, fields = (PRESENT, self.present) if is_present else (RECHECK, changes)
            self.add(role, setting, time_s, pair, **fields)
        return self

    def recheck(self, setting, return_s, present_s=None, **changes):
        """Add a pair for each of `return_s` with current settings of `present_s` (20 s each)."""
        for at, time_s in enumerate(return_s):
            beside_s = present_s[at] if present_s else PRESENT_S
            self.block({PRESENT_SETTING: beside_s, setting: time_s}, **changes)
        return self

    def tried(self, setting, return_s, **changes):
        """Add a candidate that became a finalist: one run in the search, then three pairs."""
        times = [return_s * factor for factor in (1.0, 1.01, 1.005)]
        return self.candidate(setting, return_s, **changes).recheck(setting, times, **changes)

    def credited(self, setting, return_s, **changes):
        """Add the same after enough pairs with and without each extra, which saves a fifth."""
        base, base_s = without_an_extra(setting), return_s * 1.25
        if base is None:
            return self.tried(setting, return_s, **changes)
        if base == PRESENT_SETTING:
            base_s = PRESENT_S
        else:
            self.credited(base, base_s, **changes)
        for at in range(PAIRS):
            factor = 1 + at / 1000
            self.block({base: base_s * factor, setting: return_s * factor}, **changes)
        return self.tried(setting, return_s, **changes)


def without_an_extra(setting):
    """Return the setting without its last disk knob or mount options; None without any."""
    if setting.device:
        return replace(setting, device=setting.device[:-1])
    if setting.mount_options is None:
        return None
    return replace(setting, mount_options=None, sysctls=setting.sysctls or PRESENT_SETTING.sysctls)


def course(seen_s, source, device, freerun, end_s):
    """Return a pull's course: at the source's rate until freerun is dirty, then at the device's."""
    points = []
    for step in range(int(end_s / seen_s) + 1):
        time_s = step * seen_s
        written = device * time_s
        held = min((source - device) * time_s, freerun * 1.2)
        points.append(TracePoint(time_s, int(held), int(written)))
    return tuple(points)
