"""Edge search: the smallest change with which writers no longer wait.

What is sought is told by the stall share, the part of their time in which writers slept in dirty
throttling: it is none or it is much, and far less noisy than a time. Writers wait from freerun on,
half way between the two thresholds. So there are two ladders of round values, each with a higher
freerun at every rung:

1. the dirty threshold alone is raised. Preferred: it is one change, and write-back of everything
   else on the host begins as early as before;
2. the background threshold is raised to half of it, too, where the dirty threshold alone does not
   suffice.

The highest rung of a ladder runs first. Where writers wait there, too, the next ladder is tried.
Else the most that was dirty in that run says which rung would do; that one and the rung below it
are tried, until a rung at which writers do not wait has one below it at which they do.

Where writers wait at the top of both ladders, the pull takes as long as the device needs for what
the dirty pages do not hold. That is arithmetic, which no noise disturbs: the lowest rung is tried
at which it is at most `NEAR_BEST` more than at the top.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.evidence import NEGLIGIBLE_SHARE, is_gain, thresholds_of
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.price import Limits, burst_bytes
from sysctl.results import CANDIDATE, PRESENT, Observation, Results
from sysctl.search import searched
from sysctl.setting import Setting, threshold_bytes
from sysctl.writeback import PAGE_BYTES, effective_thresholds

#: A setting that is slower by no more is as good where writers wait under every one.
NEAR_BEST = 0.02
#: A top that is not faster runs again: one slow run shall not end the search.
_TRIES = 2
#: Percentages that are tried. Above 90 % the kernel reclaims memory instead of throttling writers.
_RATIOS = (1, 2, 3, 5, 10, 20, 30, 40, 50, 60, 75, 90)
_MOST_RATIO = 90
#: Bytes that are tried: four to a doubling, in MiB.
_BYTES = tuple(step * 2**power * 2**20 for power in range(30) for step in (4, 5, 6, 7))

Ladder = tuple[Setting, ...]


@dataclass(frozen=True)
class EdgeSearch:
    """See the module. `ladders` are those of `ladders_of`, for one host."""

    ladders: tuple[Ladder, ...]

    def next_setting(self, results: Results) -> Setting | None:
        """See `Strategy`."""
        return self._search(results)[0]

    def remaining(self, results: Results) -> int:
        """See `Strategy`: three more at a time, which is what a ladder takes mostly."""
        if self.next_setting(results) is None:
            return 0
        tried = len({trial.setting for trial in results.of_role(CANDIDATE)})
        return max(1, 3 - tried)

    def finalists(self, results: Results) -> Sequence[Setting]:
        """See `Strategy`."""
        found = self._search(results)[1]
        return () if found is None else (found,)

    def _search(self, results: Results) -> tuple[Setting | None, Setting | None]:
        """The next setting to try, or else the one found; neither where nothing helps.

        From the search alone: later runs must not change what it found.
        """
        results = searched(results)
        if not _do_writers_wait(_present_runs(results)):
            return None, None
        for ladder in self.ladders:
            top = ladder[-1]
            if not _is_tried(results, top):
                return top, None
            if _stalls(results, top):
                continue
            if not _is_faster(results, top):
                return (top, None) if _tries(results, top) < _TRIES else (None, None)
            return _edge(results, ladder)
        return _best_of_the_stalled(results, self.ladders)


def _present_runs(results: Results) -> list[Observation]:
    return [trial.valid for trial in results.of_role(PRESENT) if trial.valid]


def _do_writers_wait(runs: Sequence[Observation]) -> bool:
    return any(run.stall_share >= NEGLIGIBLE_SHARE for run in runs)


def _runs(results: Results, setting: Setting) -> list[Observation]:
    """The runs of the search, in their order."""
    tried = (trial for trial in results.of_setting(setting) if trial.role == CANDIDATE)
    return [trial.valid for trial in tried if trial.valid]


def _tries(results: Results, setting: Setting) -> int:
    return sum(trial.role == CANDIDATE for trial in results.of_setting(setting))


def _is_tried(results: Results, setting: Setting) -> bool:
    return _tries(results, setting) > 0


def _stalls(results: Results, setting: Setting) -> bool:
    """Whether writers waited, or the run was stopped since it took too long, or never worked."""
    runs = _runs(results, setting)
    return not runs or _do_writers_wait(runs[-1:])


def _time_s(results: Results, setting: Setting) -> float:
    return min((run.return_s for run in _runs(results, setting)), default=math.inf)


def _present_s(results: Results) -> float:
    return statistics.median(run.return_s for run in _present_runs(results))


def _is_faster(results: Results, setting: Setting) -> bool:
    """Whether its best run was faster than the present ones by a gain worth having."""
    return is_gain(_time_s(results, setting) / _present_s(results))


def _edge(results: Results, ladder: Ladder) -> tuple[Setting | None, Setting | None]:
    """The rung to try next, or else the lowest one at which writers do not wait.

    At the top they do not. The rung that the dirty bytes point to is tried, then those next to it.
    """
    tried = [at for at, setting in enumerate(ladder) if _is_tried(results, setting)]
    high = min(at for at in tried if not _stalls(results, ladder[at]))
    low = max((at for at in tried if at < high), default=-1)
    if high - low == 1:
        return None, ladder[high]
    return ladder[min(max(_rung_for(results, ladder), low + 1), high - 1)], None


def _rung_for(results: Results, ladder: Ladder) -> int:
    """The lowest rung with a freerun above the most that was dirty while no writer waited."""
    runs = [run for setting in ladder for run in _runs(results, setting)]
    peak_bytes = max(run.peak_dirty_bytes for run in runs if not _do_writers_wait([run]))
    above = (at for at, s in enumerate(ladder) if _freerun_bytes(results, s) > peak_bytes)
    return next(above, len(ladder) - 1)


def _freerun_bytes(results: Results, setting: Setting) -> int:
    return thresholds_of(results, setting).freerun_bytes


def _best_of_the_stalled(
    results: Results, ladders: Sequence[Ladder]
) -> tuple[Setting | None, Setting | None]:
    """The rung to try, or else the one found, where writers wait at the top of every ladder.

    The first ladder, unless the second one's top is expected to be faster by a gain worth having,
    and was not slower. Measured times would say it one way today and another way tomorrow.
    """
    if not ladders:
        return None, None
    best, other = ladders[0], ladders[-1]
    gain = _waiting_bytes(results, other[-1]) / _waiting_bytes(results, best[-1])
    if is_gain(gain) and _time_s(results, other[-1]) <= _time_s(results, best[-1]):
        best = other
    if not _is_faster(results, best[-1]):
        return None, None
    least = _waiting_bytes(results, best[-1])
    rung = next(each for each in best if _waiting_bytes(results, each) <= least * (1 + NEAR_BEST))
    return (None, rung) if _is_tried(results, rung) else (rung, None)


def _waiting_bytes(results: Results, setting: Setting) -> float:
    """What of the pull waits for the device, to which the time is in proportion (see the module).

    All that the dirty pages do not hold when they have settled at the set point.
    """
    return max(1.0, burst_bytes(results) - thresholds_of(results, setting).setpoint_bytes)


def ladders_of(
    present: Mapping[str, int], dirtyable_bytes: int, limits: Limits, pulled_bytes: int
) -> tuple[Ladder, ...]:
    """Return the two ladders for a host; those without a rung are left out.

    They are in the form of the present dirty threshold, ratio or bytes. With a limit on the bytes
    at risk the dirty threshold stays within it, which the kernel keeps, unless the whole pull is
    smaller; where the present one is above the limit the rungs are below it.
    """
    is_bytes = bool(present.get(DIRTY_PAIR[1]))
    most = _most_bytes(dirtyable_bytes, limits, pulled_bytes)
    now = threshold_bytes(present, DIRTY_PAIR, dirtyable_bytes)
    steps = _bytes_steps(most) if is_bytes else _ratio_steps(most, dirtyable_bytes)
    name = DIRTY_PAIR[is_bytes]
    sizes = {v: threshold_bytes({name: v}, DIRTY_PAIR, dirtyable_bytes) for v in steps}
    values = [value for value in steps if sizes[value] > now or now > most]
    plain = [_plain(present, name, value) for value in values]
    raised = [_raised(name, value, is_bytes) for value in values]

    def freerun(setting: Setting) -> int:
        return effective_thresholds(setting.values, dirtyable_bytes).freerun_bytes

    first = [each for each in plain if _is_valid(each, dirtyable_bytes)]
    highest = max(map(freerun, first), default=0)
    second = [each for each in raised if freerun(each) > highest and each not in first]
    return tuple(tuple(ladder) for ladder in (first, second) if ladder)


def _most_bytes(dirtyable_bytes: int, limits: Limits, pulled_bytes: int) -> int:
    """The highest dirty threshold to try."""
    most, allowed = dirtyable_bytes * _MOST_RATIO // 100, limits.max_at_risk_bytes
    return most if allowed is None or pulled_bytes <= allowed else min(most, allowed)


def _ratio_steps(most_bytes: int, dirtyable_bytes: int) -> list[int]:
    """Round percentages, and the highest whole one."""
    highest = most_bytes * 100 // dirtyable_bytes
    return sorted({ratio for ratio in (*_RATIOS, highest) if 1 <= ratio <= highest})


def _bytes_steps(most_bytes: int) -> list[int]:
    highest = most_bytes // PAGE_BYTES * PAGE_BYTES
    return sorted({*(size for size in _BYTES if size < highest), highest})


def _plain(present: Mapping[str, int], name: str, value: int) -> Setting:
    """The dirty threshold alone; the background one is named, as both are measured together."""
    background = {n: present[n] for n in BACKGROUND_PAIR if present.get(n)}
    return Setting(((name, value), *(background or {BACKGROUND_PAIR[0]: 0}).items()))


def _raised(name: str, value: int, is_bytes: bool) -> Setting:
    half = value // 2 // PAGE_BYTES * PAGE_BYTES if is_bytes else value // 2
    return Setting(((name, value), (BACKGROUND_PAIR[is_bytes], half)))


def _is_valid(setting: Setting, dirtyable_bytes: int) -> bool:
    dirty = threshold_bytes(setting.values, DIRTY_PAIR, dirtyable_bytes)
    return threshold_bytes(setting.values, BACKGROUND_PAIR, dirtyable_bytes) < dirty
