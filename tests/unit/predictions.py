# SPDX-License-Identifier: Apache-2.0
"""A simulated host with known rates: what its runs would show, computed step by step.

It has the kernel's control of the writers (`pos_ratio_polynom()` in mm/page-writeback.c, as of
Linux 6.18), so it does not repeat the formula under test. Their rate limit starts too high.
"""

from __future__ import annotations

from dataclasses import dataclass

from sysctl.evidence.prediction import fit
from sysctl.evidence.results import CANDIDATE, PRESENT, Observation, Results, TracePoint, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import effective_thresholds
from tests.unit.sweeps import GIB, circumstances
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

MB = 10**6
OBJECTS = 40
BURST = OBJECTS * 50 * MB
SOURCE = 250 * MB
DEVICE = 65 * MB
START_S = 0.03
#: Bytes that other programs had dirtied before the pull.
HELD_BEFORE = 7 * MB
#: The rate limit is this multiple of the balanced one when writers are first throttled, and
#: balanced after this time, which brings the times near those of the recorded grids.
LIMIT_AT_FIRST, ADAPTING_S = 3.0, 5.0
STEP_S = 0.01
STEPS_BETWEEN_POINTS = 5


@dataclass(frozen=True)
class Course:
    """The result of a pull; `held_bytes` at its end."""

    return_s: float
    peak_bytes: float
    held_bytes: float
    trace: tuple[TracePoint, ...]


def setting(dirty, background):
    return Setting((("vm.dirty_ratio", dirty), ("vm.dirty_background_ratio", background)))


def slowed(held, thresholds, throttled_s):
    """Return the rate of all writers; in balance twice the device's at freerun, 0 at the limit."""
    balance = max(1.0, LIMIT_AT_FIRST * (1 - throttled_s / ADAPTING_S))
    limit = thresholds.dirty_bytes
    setpoint = (thresholds.freerun_bytes + limit) / 2
    return balance * DEVICE * max(0.0, 1 + ((setpoint - held) / (limit - setpoint)) ** 3)


def true_course(values, burst_bytes=BURST, dirtyable_bytes=4 * GIB, source=SOURCE, control=slowed):
    thresholds = effective_thresholds(values, dirtyable_bytes)
    left, held, written, peak, throttled_s = burst_bytes, 0.0, 0.0, 0.0, 0.0
    step, trace = 0, []
    while left > 0:
        if step % STEPS_BETWEEN_POINTS == 0:
            trace.append(TracePoint(step * STEP_S, HELD_BEFORE + int(held), int(written)))
        step += 1
        rate = source if step * STEP_S > START_S else 0.0
        if held > thresholds.freerun_bytes:
            rate = min(rate, control(held, thresholds, throttled_s))
            throttled_s += STEP_S
        flushed = min(held, DEVICE * STEP_S) if held > thresholds.background_bytes else 0.0
        taken = min(left, rate * STEP_S)
        left, held, written = left - taken, held + taken - flushed, written + flushed
        peak = max(peak, held)
    return Course(step * STEP_S, peak, held, tuple(trace))


def observed(
    chosen, durable=False, trace=True, dirtyable_bytes=4 * GIB, source=SOURCE, control=slowed
):
    thresholds = effective_thresholds(chosen.values, dirtyable_bytes)
    course = true_course(
        chosen.values, dirtyable_bytes=dirtyable_bytes, source=source, control=control
    )
    unthrottled_s = START_S + BURST / source
    return Observation(
        return_s=course.return_s,
        durable_s=course.return_s + course.held_bytes / DEVICE if durable else None,
        stall_share=max(0.0, 1 - unthrottled_s / course.return_s),
        peak_dirty_bytes=round(course.peak_bytes),
        thresholds=thresholds,
        limit_bytes=thresholds.dirty_bytes,
        bytes=BURST,
        objects=OBJECTS,
        dirtyable_bytes=dirtyable_bytes,
        trace=course.trace if trace else (),
    )


def results(
    *candidates, runs=((True, True), (False, True)), present=PRESENT_SETTING, control=slowed
):
    """Return results with runs of the current settings, each (durable, trace), and candidates."""
    trials = [
        Trial(PRESENT, present, "", observed(present, durable, trace, control=control))
        for durable, trace in runs
    ]
    trials += [Trial(CANDIDATE, each, "", observed(each, control=control)) for each in candidates]
    return Results(circumstances(workers=2), {}, [], trials)


def fitted(known):
    """Return the model fitted to these results."""
    return fit(Runs.of(known))
