"""The trial protocol: what a trial is, when it counts, when it is repeated, when it is stopped.

A trial, in this order (`profiler/study/bench.py`): journal → apply → read back → wait for dirty
pages and write-back to drain and for the kernel's dirty limit to settle → drop clean caches →
pull → time to return, time to durable, percentiles and causes of the writes, peak dirty bytes →
delete.

It is *invalid*, with its reason kept and printed, when

- a sysctl, a mount option or a knob of the disk does not read back as it was set, or is another
  one after the pull than before it;
- an object failed;
- the cap of the lab's volume was lost before its files were deleted;
- the memory that may be dirty differs by more than `MAX_MEMORY_CHANGE` from the median of the three
  runs before it, valid or not: one run that is out of line does not count, and where the memory has
  changed for good the third attempt does;
- others dirtied more than `MAX_OTHERS_SHARE` of the pull meanwhile;
- its writers waited for a CPU for `CPU_WAIT_SLACK` more of their time than in the median run of the
  same setting, valid or not, or the hypervisor kept more than `MAX_STOLEN_SHARE` of the CPUs' time
  to itself;
- the hypervisor's balloon took or gave back more than `MAX_BALLOON_SHARE` of the pull;
- the disk wrote more than `MAX_RATE_LOSS` slower than under the present settings: a volume out of
  credits (EBS gp2, st1, or the instance's own bucket) is another volume.

An invalid trial is repeated at once, `ATTEMPTS` times in all, and never ends the study. A candidate
that takes longer than the best so far could excuse is stopped: it is no observation and no failure.

A run of the role `price` has a neighbour on the volume (`profiler/price`) and waits until all is
durable. It is valid by the same rules, and no time of it is compared with another.
"""

from __future__ import annotations

import statistics
from collections.abc import Container, Sequence

from contracts.shared.units import format_rate, format_size
from sysctl.evidence.results import PRESENT, Observation, Trial
from sysctl.evidence.runs import CPU_WAIT_SLACK, Runs
from sysctl.knobs.setting import Setting

ATTEMPTS = 3
MAX_MEMORY_CHANGE = 0.10
_MEMORY_RUNS = 3
MAX_OTHERS_SHARE = 0.05
#: So much is dirtied on every host at any time (logs, a shell): it is no other writer, however
#: small the pull.
OTHERS_SLACK_BYTES = 8 * 2**20
MAX_RATE_LOSS = 0.25
MAX_STOLEN_SHARE = 0.05
#: The kernel counts stolen time in ticks of 10 ms: of a pull that takes a few of them one is much.
STOLEN_SLACK_S = 0.05
MAX_BALLOON_SHARE = 0.05
#: A candidate may take so much longer than the best run so far.
STOP_MARGIN = 0.5
#: Write-back has begun in earnest so long after the background threshold was passed, and a rate
#: over a shorter time than `_MIN_RATE_S` says nothing: of equal pulls some are a fifth lower then.
_RAMP_S = 0.5
_MIN_RATE_S = 2.0


def invalid_reason(
    seen: Observation,
    setting: Setting,
    present: Sequence[Observation],
    before: Sequence[Observation] | None = None,
    cpu_waits: Sequence[float] = (),
) -> str | None:
    """Return why a pull that went well does not count next to the valid `present` runs, if so.

    `before` are all runs before it in their order, valid or not, by which its memory is judged; the
    `present` ones where they are not given. The disk's rate is not judged where `setting` changes
    knobs of the disk: they may be the cause. `cpu_waits` are the parts of their time in which
    writers waited for a CPU, in this run and then in each other one of the same setting.
    """
    reasons = (
        _others_wrote(seen),
        _starved(cpu_waits),
        _robbed(seen),
        _memory_moved(seen, present if before is None else before),
        None if setting.device else _device_throttled(seen, present),
    )
    return next(filter(None, reasons), None)


def _others_wrote(seen: Observation) -> str | None:
    allowed = max(MAX_OTHERS_SHARE * seen.bytes, OTHERS_SLACK_BYTES)
    if seen.others_dirtied_bytes <= allowed:
        return None
    share = seen.others_dirtied_bytes / seen.bytes if seen.bytes else 1.0
    return (
        f"other programs dirtied {format_size(seen.others_dirtied_bytes)} meanwhile, "
        f"{share:.0%} of the pull"
    )


def _starved(cpu_waits: Sequence[float]) -> str | None:
    usual = statistics.median_low(cpu_waits) if cpu_waits else 0.0
    if not cpu_waits or cpu_waits[0] <= usual + CPU_WAIT_SLACK:
        return None
    return (
        f"other programs kept the CPUs busy: writers waited for one {cpu_waits[0]:.0%} of their "
        f"time, usually {usual:.0%} with the same settings"
    )


def _robbed(seen: Observation) -> str | None:
    """What the hypervisor did meanwhile."""
    stolen_s = seen.stolen_share * seen.return_s
    if seen.stolen_share > MAX_STOLEN_SHARE and stolen_s > STOLEN_SLACK_S:
        return (
            f"the hypervisor kept {seen.stolen_share:.0%} of the CPUs' time: the instance may be "
            "out of CPU credits"
        )
    if seen.ballooned_bytes > MAX_BALLOON_SHARE * seen.bytes:
        return f"the hypervisor's balloon moved {format_size(seen.ballooned_bytes)} of memory"
    return None


def _memory_moved(seen: Observation, before: Sequence[Observation]) -> str | None:
    last = [run.dirtyable_bytes for run in before if run.dirtyable_bytes][-_MEMORY_RUNS:]
    usual = statistics.median(last) if last else seen.dirtyable_bytes
    if abs(seen.dirtyable_bytes - usual) <= MAX_MEMORY_CHANGE * usual:
        return None
    return (
        f"the memory that may be dirty moved from {format_size(usual)} to "
        f"{format_size(seen.dirtyable_bytes)}"
    )


def _device_throttled(seen: Observation, present: Sequence[Observation]) -> str | None:
    rates = [rate for rate in map(writeback_rate_bytes_per_s, present) if rate]
    rate = writeback_rate_bytes_per_s(seen)
    if rate is None or not rates or rate >= (1 - MAX_RATE_LOSS) * statistics.median(rates):
        return None
    return (
        f"the disk wrote {format_rate(rate)}, but {format_rate(statistics.median(rates))} under "
        "the present settings: the volume or the instance may be out of credits"
    )


def writeback_rate_bytes_per_s(seen: Observation) -> float | None:
    """What the destination's disk wrote while the kernel wrote back in the background.

    From half a second after the background threshold was passed to the end of the pull; None where
    that was shorter than 2 s, or where the pull has no course.
    """
    above = [p for p in seen.trace if p.held_bytes > seen.thresholds.background_bytes]
    steady = [point for point in above if point.time_s >= above[0].time_s + _RAMP_S]
    if not steady or steady[-1].time_s - steady[0].time_s < _MIN_RATE_S:
        return None
    first, last = steady[0], steady[-1]
    return (last.written_bytes - first.written_bytes) / (last.time_s - first.time_s)


def stop_after_s(runs: Runs, able: Container[Setting]) -> float | None:
    """Return the time to return from which a candidate can no longer win; None before any run.

    A setting that is not `able` to win, as it is beyond the limits, stops no other.
    """
    able_ones = (t for t in runs.search.trials if t.role == PRESENT or t.setting in able)
    times = [trial.valid.return_s for trial in able_ones if trial.valid]
    return min(times) * (1 + STOP_MARGIN) if times else None


def concluded(trials: Sequence[Trial]) -> list[Trial]:
    """Of each run the trial that ended it: the valid or stopped one, or the last failed attempt."""
    ended, failures = [], 0
    for trial in trials:
        failures = failures + 1 if trial.problem else 0
        if failures in (0, ATTEMPTS):
            ended.append(trial)
            failures = 0
    return ended


def to_repeat(trials: Sequence[Trial]) -> Trial | None:
    """The last trial, if it failed and may be tried again."""
    ended = concluded(trials)
    return trials[-1] if trials and (not ended or ended[-1] is not trials[-1]) else None
