# SPDX-License-Identifier: Apache-2.0
"""The trial protocol: what a trial is, and when it is valid, repeated or stopped.

A trial, in this order (`profiler/study/bench.py`): journal → apply → read back → wait for dirty
pages and write-back to drain and for the kernel's dirty limit to settle → drop clean caches →
pull → time to return, time to durable, percentiles and causes of the writes, peak dirty bytes →
delete.

A trial is *invalid*, and its reason is kept and printed, if

- a sysctl, a mount option or a knob of the disk does not read back as set, or changed during the
  pull;
- an object failed;
- the cap of the lab's volume was lost before its files were deleted;
- the dirtyable memory differs by more than `MAX_MEMORY_CHANGE` from the median of the previous
  three runs, valid or not: a single outlier does not count, but if the memory has changed
  permanently, the third attempt is valid;
- other programs dirtied more than `MAX_OTHERS_SHARE` of the pull during it;
- its writers waited for a CPU for `CPU_WAIT_SLACK` more of their time than in the median run of the
  same setting, valid or not;
- the hypervisor stole `STOLEN_SLACK` more of the CPU time than in the median of the previous three
  runs, valid or not: on a host that always loses some, the second attempt is valid. More than
  `MAX_STOLEN_SHARE` is never valid;
- the hypervisor's balloon took or returned more than `MAX_BALLOON_SHARE` of the pull;
- the disk wrote slower by more than `MAX_RATE_LOSS` than under the current settings: a volume
  without credits (EBS gp2, st1, or the instance's own bucket) is not comparable;
- the EBS volume and its instance let another rate through than under the current settings.

The last rule compares rates *at the limit*, not the time over it: a throttled pull is over a limit
all the time, and a better setting for longer. What a limit lets through is a property of the
volume and the instance: no setting changes it, the loss or return of credits does, in either
direction. Bytes and operations must both differ by more than `MAX_RATE_LOSS`, because settings
change the size of I/Os: a limit of IOPS then keeps the operations, one of throughput the bytes. A
run that was at no limit is invalid only if its mean rate exceeds the throughput limit of the others
by as much, which that limit would not have let through.

An invalid trial is repeated at once, up to `ATTEMPTS` attempts, and never ends the study. A
candidate that can no longer win is stopped: it is neither an observation nor a failure.

A run of the role `price` has a neighbour on the volume (`profiler/price`) and waits until all data
is durable. The same rules apply, but its times are not compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Container, Sequence
from typing import TypeVar

from contracts.shared.units import format_rate, format_size
from sysctl.evidence.over_limit import OverLimit
from sysctl.evidence.results import PRESENT, Observation, Trial
from sysctl.evidence.runs import CPU_WAIT_SLACK, Runs
from sysctl.knobs.setting import Setting

ATTEMPTS = 3
MAX_MEMORY_CHANGE = 0.10
#: The previous runs that show the usual memory and the usual stolen time.
_USUAL_RUNS = 3
MAX_OTHERS_SHARE = 0.05
#: Every host dirties this much (logs, a shell), so it is ignored even for a small pull.
OTHERS_SLACK_BYTES = 8 * 2**20
MAX_RATE_LOSS = 0.25
#: Part of the reason of each trial that was invalid because credits had run out, or came back.
OUT_OF_CREDITS = "out of credits"
STOLEN_SLACK = 0.05
MAX_STOLEN_SHARE = 0.25
#: The kernel counts stolen time in ticks of 10 ms, which is much for a very short pull.
STOLEN_SLACK_S = 0.05
MAX_BALLOON_SHARE = 0.05
#: A candidate is stopped after the best time so far plus this share.
STOP_MARGIN = 0.5
#: The time from the background threshold to full write-back. Rates over less than `_MIN_RATE_S`
#: are unreliable: for equal pulls some are 20 % lower.
_RAMP_S = 0.5
_MIN_RATE_S = 2.0
T = TypeVar("T")


def abba(order: Sequence[T], number: int) -> Sequence[T]:
    """Return `order` in the block `number`: every second block is reversed, so that drift cancels.

    The order must be the same in blocks 0 and 1, 2 and 3, and so on.
    """
    return order[::-1] if number % 2 else order


def invalid_reason(
    seen: Observation,
    setting: Setting,
    present: Sequence[Observation],
    before: Sequence[Observation] | None = None,
    cpu_waits: Sequence[float] = (),
) -> str | None:
    """Return why a complete pull is not comparable with the valid `present` runs; None if it is.

    `before` are all earlier runs in order, valid or not, for the checks of memory and stolen time;
    by default the `present` ones. The disk's rate is not checked if `setting` changes knobs of the
    disk, which may be the cause. `cpu_waits` are the shares of their time in which writers waited
    for a CPU: first in this run, then in the other runs of the same setting.
    """
    earlier = present if before is None else before
    reasons = (
        _others_wrote(seen),
        _starved(cpu_waits),
        _robbed(seen, earlier),
        _memory_moved(seen, earlier),
        _regime_differs(seen, present),
        None if setting.device else _device_throttled(seen, present),
    )
    return next(filter(None, reasons), None)


def _others_wrote(seen: Observation) -> str | None:
    allowed = max(MAX_OTHERS_SHARE * seen.bytes, OTHERS_SLACK_BYTES)
    if seen.others_dirtied_bytes <= allowed:
        return None
    share = seen.others_dirtied_bytes / seen.bytes if seen.bytes else 1.0
    return (
        f"other programs dirtied {format_size(seen.others_dirtied_bytes)} during the pull, "
        f"{share:.0%} of its size"
    )


def _starved(cpu_waits: Sequence[float]) -> str | None:
    usual = statistics.median_low(cpu_waits) if cpu_waits else 0.0
    if not cpu_waits or cpu_waits[0] <= usual + CPU_WAIT_SLACK:
        return None
    return (
        f"other programs kept the CPUs busy: writers waited for a CPU for {cpu_waits[0]:.0%} of "
        f"their time (usually {usual:.0%} with these settings)"
    )


def _robbed(seen: Observation, before: Sequence[Observation]) -> str | None:
    """Return why the hypervisor's activity makes the run invalid."""
    last = [run.stolen_share for run in before][-_USUAL_RUNS:]
    usual = statistics.median_low(last) if last else 0.0
    stolen_s = seen.stolen_share * seen.return_s
    if (
        seen.stolen_share > min(usual + STOLEN_SLACK, MAX_STOLEN_SHARE)
        and stolen_s > STOLEN_SLACK_S
    ):
        return (
            f"the hypervisor stole {seen.stolen_share:.0%} of the CPU time (usually {usual:.0%}): "
            "the instance may be out of CPU credits"
        )
    if seen.ballooned_bytes > MAX_BALLOON_SHARE * seen.bytes:
        return f"the hypervisor's balloon took or returned {format_size(seen.ballooned_bytes)}"
    return None


def _memory_moved(seen: Observation, before: Sequence[Observation]) -> str | None:
    last = [run.dirtyable_bytes for run in before if run.dirtyable_bytes][-_USUAL_RUNS:]
    usual = statistics.median(last) if last else seen.dirtyable_bytes
    if abs(seen.dirtyable_bytes - usual) <= MAX_MEMORY_CHANGE * usual:
        return None
    return (
        f"the dirtyable memory changed from {format_size(usual)} to "
        f"{format_size(seen.dirtyable_bytes)}"
    )


def _device_throttled(seen: Observation, present: Sequence[Observation]) -> str | None:
    rates = [rate for rate in map(writeback_rate_bytes_per_s, present) if rate]
    rate = writeback_rate_bytes_per_s(seen)
    if rate is None or not rates or rate >= (1 - MAX_RATE_LOSS) * statistics.median(rates):
        return None
    return (
        f"the disk wrote {format_rate(rate)}, but {format_rate(statistics.median(rates))} under "
        f"the current settings: the volume or the instance may be {OUT_OF_CREDITS}"
    )


def _regime_differs(seen: Observation, present: Sequence[Observation]) -> str | None:
    """Return why the run had other credits than the current settings: other rates at the limit."""
    over = seen.over_limit
    limited = [run.over_limit for run in present if run.over_limit and _at_limit(run.over_limit)]
    if over is None or not limited:
        return None
    usual = [statistics.median(rates) for rates in zip(*map(_at_limit, limited))]
    mine = _at_limit(over)
    if not mine and over.observed_s >= _MIN_RATE_S and _are_of_throughput(limited):
        mine, usual = (over.rate_bytes_per_s,), usual[:1]
    ratios = [rate / median for rate, median in zip(mine, usual) if median]
    is_slower = bool(ratios) and max(ratios) < 1 - MAX_RATE_LOSS
    is_faster = bool(ratios) and min(ratios) > 1 / (1 - MAX_RATE_LOSS)
    if not is_faster and not (is_slower and _at_limit(over)):
        return None
    rates = f"{format_rate(mine[0])}, but {format_rate(usual[0])} under the current settings"
    if is_faster:
        return f"the EBS volume got {rates}, which may have been {OUT_OF_CREDITS}"
    name = over.longest.value if over.longest else "EBS"
    return f"the {name} limit let only {rates}: the volume or the instance may be {OUT_OF_CREDITS}"


def _are_of_throughput(limited: Sequence[OverLimit]) -> bool:
    return all(over.longest is not None and over.longest.is_of_throughput for over in limited)


def _at_limit(over: OverLimit) -> tuple[float, ...]:
    """Return the bytes and operations a second at the limit; nothing if that was too short."""
    rate, ops = over.at_limit_rate_bytes_per_s, over.at_limit_ops_per_s
    if over.at_limit_s < _MIN_RATE_S or rate is None or ops is None:
        return ()
    return rate, ops


def writeback_rate_bytes_per_s(seen: Observation) -> float | None:
    """Return the rate of the destination's disk during background write-back.

    It is measured from 0.5 s after the background threshold to the end of the pull; None if that is
    less than 2 s or the pull has no trace.
    """
    above = [p for p in seen.trace if p.held_bytes > seen.thresholds.background_bytes]
    steady = [point for point in above if point.time_s >= above[0].time_s + _RAMP_S]
    if not steady or steady[-1].time_s - steady[0].time_s < _MIN_RATE_S:
        return None
    first, last = steady[0], steady[-1]
    return (last.written_bytes - first.written_bytes) / (last.time_s - first.time_s)


def stop_after_s(runs: Runs, able: Container[Setting]) -> float | None:
    """Return the time to return (s) above which a candidate can no longer win; None without runs.

    Settings that are not `able` to win, because they exceed the limits, do not count.
    """
    able_ones = (t for t in runs.search.trials if t.role == PRESENT or t.setting in able)
    times = [trial.valid.return_s for trial in able_ones if trial.valid]
    return min(times) * (1 + STOP_MARGIN) if times else None


def concluded(trials: Sequence[Trial]) -> list[Trial]:
    """Return the last trial of each run: the valid or stopped one, or the last failed attempt."""
    ended, failures = [], 0
    for trial in trials:
        failures = failures + 1 if trial.problem else 0
        if failures in (0, ATTEMPTS):
            ended.append(trial)
            failures = 0
    return ended


def to_repeat(trials: Sequence[Trial]) -> Trial | None:
    """Return the last trial if it failed and may be repeated."""
    ended = concluded(trials)
    return trials[-1] if trials and (not ended or ended[-1] is not trials[-1]) else None
