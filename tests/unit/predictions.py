"""A made-up host of known rates: present runs as it would show them, and the truth to compare."""

from __future__ import annotations

from sysctl.prediction.simulation import Burst, simulate
from sysctl.results import CANDIDATE, PRESENT, Observation, Results, TracePoint, Trial
from sysctl.setting import Setting
from sysctl.writeback import effective_thresholds
from tests.unit.sweeps import CONTEXT, GIB
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

MB = 10**6
OBJECTS = 40
BURST = Burst(
    size_bytes=OBJECTS * 50 * MB,
    start_s=0.1,
    source_bytes_per_s=250 * MB,
    flushed_bytes_per_s=200 * MB,
    tail_bytes=25 * MB,
    writers=2,
    rate_limit_part=0.5,
)
DEVICE = 65 * MB


def setting(dirty, background):
    return Setting((("vm.dirty_ratio", dirty), ("vm.dirty_background_ratio", background)))


def true_course(values, burst=BURST, dirtyable_bytes=4 * GIB):
    return simulate(burst, effective_thresholds(values, dirtyable_bytes), DEVICE)


def observed(chosen, durable=False, trace=True, dirtyable_bytes=4 * GIB):
    thresholds = effective_thresholds(chosen.values, dirtyable_bytes)
    course = true_course(chosen.values, dirtyable_bytes=dirtyable_bytes)
    return Observation(
        return_s=course.return_s,
        durable_s=course.return_s + course.held_bytes / DEVICE if durable else None,
        stall_share=course.throttled_s / course.return_s,
        peak_dirty_bytes=round(course.peak_bytes),
        thresholds=thresholds,
        limit_bytes=thresholds.dirty_bytes,
        bytes=BURST.size_bytes,
        objects=OBJECTS,
        dirtyable_bytes=dirtyable_bytes,
        trace=points(thresholds, course) if trace else (),
    )


def points(thresholds, course):
    """By hand: two straight lines up to freerun, then what is held stays and the device writes."""
    moments = [n * 0.05 for n in range(int(course.return_s / 0.05) + 1)]
    alone_s = BURST.start_s + thresholds.background_bytes / BURST.source_bytes_per_s
    return tuple(point(moment, alone_s, thresholds) for moment in moments)


def point(moment, alone_s, thresholds):
    written = max(0.0, moment - alone_s) * DEVICE
    arrived = max(0.0, min(moment, alone_s) - BURST.start_s) * BURST.source_bytes_per_s
    arrived += max(0.0, moment - alone_s) * BURST.flushed_bytes_per_s
    held = min(arrived - written, thresholds.freerun_bytes + 10 * MB)
    return TracePoint(moment, 7 * MB + int(held), int(written))


def results(*candidates, runs=((True, True), (False, True)), present=PRESENT_SETTING):
    """Present runs, each (durable, trace), and candidates measured once."""
    trials = [Trial(PRESENT, present, "", observed(present, *run)) for run in runs]
    trials += [Trial(CANDIDATE, each, "", observed(each)) for each in candidates]
    return Results({**CONTEXT, "workers": 2}, {}, [], trials)
