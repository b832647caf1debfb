"""Made-up results of sweeps, trial by trial, for what no bench would give: figures set by hand."""

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
#: What a run takes under the present settings, unless something else is said.
PRESENT_S = 20.0


def ratio(dirty, background=5, mount_options=None):
    pairs = (("vm.dirty_ratio", dirty), ("vm.dirty_background_ratio", background))
    return Setting(pairs, mount_options)


def observed(return_s, setting=PRESENT_SETTING, **changes):
    """An observation whose fields can all be given; a throttled pull on 4 GiB by default."""
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
    """Results that grow by trials; present runs of 20 s unless something else is said."""

    def __init__(self, present_s=(20.0, 20.1), context=None, **present):
        self.present = present
        self.results = Results(circumstances(**{"workers": 2, **(context or {})}), {})
        self.pairs = itertools.count()
        for return_s in present_s:
            self.add(PRESENT, PRESENT_SETTING, return_s, **present)

    @property
    def runs(self):
        """The trials so far, indexed."""
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
        """A run of each setting of `times_s`; `changes` are not of the present one."""
        pair = next(self.pairs)
        for setting, time_s in times_s.items():
            is_present = setting == PRESENT_SETTING
            role, fields = (PRESENT, self.present) if is_present else (RECHECK, changes)
            self.add(role, setting, time_s, pair, **fields)
        return self

    def recheck(self, setting, return_s, present_s=None, **changes):
        """A pair for each of `return_s`, beside present runs of `present_s` (20 s each)."""
        for at, time_s in enumerate(return_s):
            beside_s = present_s[at] if present_s else PRESENT_S
            self.block({PRESENT_SETTING: beside_s, setting: time_s}, **changes)
        return self

    def tried(self, setting, return_s, **changes):
        """A candidate that became a finalist: once in the search, then in three pairs."""
        times = [return_s * factor for factor in (1.0, 1.01, 1.005)]
        return self.candidate(setting, return_s, **changes).recheck(setting, times, **changes)

    def credited(self, setting, return_s, **changes):
        """The same, after enough pairs with and without each of its extras: it saved a fifth."""
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
    """The setting without its last knob of the disk, or its mount options; None without any."""
    if setting.device:
        return replace(setting, device=setting.device[:-1])
    if setting.mount_options is None:
        return None
    return replace(setting, mount_options=None, sysctls=setting.sysctls or PRESENT_SETTING.sysctls)


def course(seen_s, source, device, freerun, end_s):
    """A pull's course at constant rates: the source's until freerun is held, then the device's."""
    points = []
    for step in range(int(end_s / seen_s) + 1):
        time_s = step * seen_s
        written = device * time_s
        held = min((source - device) * time_s, freerun * 1.2)
        points.append(TracePoint(time_s, int(held), int(written)))
    return tuple(points)
