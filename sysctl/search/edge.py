# SPDX-License-Identifier: Apache-2.0
"""Edge search: the smallest change with which writers no longer wait.

The search uses the stall share, the share of their time that writers spend in dirty throttling. It
is either near zero or large, and much less noisy than a time. Writers wait above freerun, halfway
between the two thresholds. So there are two ladders of round values, with a higher freerun at each
rung:

1. only the dirty threshold is raised. This ladder is preferred: it is one change, and background
   write-back for the rest of the host begins as early as before;
2. the background threshold is also raised, to half of the dirty threshold, if raising the dirty
   threshold alone is not enough.

The highest rung of a ladder runs first. If writers wait there too, the next ladder is tried. Else
the peak of dirty bytes shows which rung is high enough. That rung and its neighbours are tried
until there is a rung without waits directly above one with waits.

If writers wait at the top of both ladders, the pull takes as long as the device needs for the bytes
that dirty memory cannot hold. That is calculated, without noise: the lowest rung is tried at which
it is at most `NEAR_BEST` more than at the top.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.evidence.comparison import MIN_PAIRS, NEGLIGIBLE_SHARE, is_gain
from sysctl.evidence.prediction import waiting_bytes
from sysctl.evidence.price import Limits
from sysctl.evidence.protocol import concluded
from sysctl.evidence.results import CANDIDATE, Observation, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting, threshold_bytes
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import PAGE_BYTES, effective_thresholds

#: If writers wait under every setting, one that is slower by at most this share is as good.
NEAR_BEST = 0.02
#: A top rung that is not faster runs again: one slow run must not end the search.
_TRIES = 2
#: The percentages tried. Above 90 % the kernel reclaims memory instead of throttling writers.
_RATIOS = (1, 2, 3, 5, 10, 20, 30, 40, 50, 60, 75, 90)
_MOST_RATIO = 90
#: The bytes tried: four values per doubling, in whole MiB.
_BYTES = tuple(step * 2**power * 2**20 for power in range(30) for step in (4, 5, 6, 7))

Ladder = tuple[Setting, ...]


@dataclass(frozen=True)
class EdgeSearch:
    """The edge search (see the module) with the ladders of one host (`ladders_of`)."""

    ladders: tuple[Ladder, ...]

    def next_setting(self, runs: Runs, pending: Sequence[Setting] = ()) -> Setting | None:
        """See `Strategy`: each rung depends on the results of the previous ones."""
        setting = self._search(runs)[0]
        return None if setting in pending else setting

    def remaining(self, runs: Runs) -> int:
        """See `Strategy`: a ladder mostly takes three trials; after that one more is expected."""
        is_known = bool(runs.valid_present or not self.ladders)
        if is_known and self.next_setting(runs) is None:
            return 0
        tried = len({trial.setting for trial in runs.of_role(CANDIDATE)})
        return max(1, 3 - tried)

    def finalists(self, runs: Runs) -> Sequence[Setting]:
        """See `Strategy`: the rung found, or a higher one if writers wait in its pairs.

        The source may have been slower during its one run of the search.
        """
        found = self._search(runs)[1]
        if found is None:
            return ()
        ladder = next(each for each in self.ladders if found in each)
        return (_confirmed(runs, ladder, found),)

    def _search(self, runs: Runs) -> tuple[Setting | None, Setting | None]:
        """Return the next setting to try, and the best so far, for a budget that ends the search.

        Only the runs of the search count: later runs must not change its result.
        """
        known = runs.search
        if not _do_writers_wait(known.valid_present):
            return None, None
        found = None
        ladders = [left for ladder in self.ladders if (left := _that_work(known, ladder))]
        for ladder in ladders:
            top = ladder[-1]
            if not _is_tried(known, top):
                return top, found
            if not _stalls(known, top):
                if _is_faster(known, top):
                    return _edge(known, ladder)
                return (top, found) if _tries(known, top) < _TRIES else (None, found)
            found = top if _is_faster(known, top) else found
        return _best_of_the_stalled(known, ladders)


def _do_writers_wait(seen: Sequence[Observation]) -> bool:
    return any(run.throttled_share >= NEGLIGIBLE_SHARE for run in seen)


def _tried(runs: Runs, setting: Setting) -> list[Trial]:
    return [trial for trial in runs.of_setting(setting) if trial.role == CANDIDATE]


def _seen(runs: Runs, setting: Setting) -> list[Observation]:
    """Return the valid runs of the search, in their order."""
    return [trial.valid for trial in _tried(runs, setting) if trial.valid]


def _tries(runs: Runs, setting: Setting) -> int:
    """Return how often it was tried; the repeated attempts of a failed run are one try."""
    return len(concluded(_tried(runs, setting)))


def _is_tried(runs: Runs, setting: Setting) -> bool:
    return _tries(runs, setting) > 0


def _stalls(runs: Runs, setting: Setting) -> bool:
    """Return whether writers waited, or the run was stopped, or every run failed."""
    seen = _seen(runs, setting)
    return not seen or _do_writers_wait(seen[-1:])


def _time_s(runs: Runs, setting: Setting) -> float:
    return min((run.return_s for run in _seen(runs, setting)), default=math.inf)


def _present_s(runs: Runs) -> float:
    return statistics.median(run.return_s for run in runs.valid_present)


def _is_faster(runs: Runs, setting: Setting) -> bool:
    """Return whether its best run was a gain over the current settings."""
    return is_gain(_time_s(runs, setting) / _present_s(runs))


def _that_work(runs: Runs, ladder: Ladder) -> Ladder:
    """Return the ladder without top rungs that always failed; () after `_TRIES` of these."""
    for failed, top in enumerate(reversed(ladder[-_TRIES:])):
        all_failed = all(trial.problem for trial in _tried(runs, top))
        if not _is_tried(runs, top) or not all_failed:
            return ladder[: len(ladder) - failed]
    return ()


def _confirmed(runs: Runs, ladder: Ladder, found: Setting) -> Setting:
    """Return the rung found, or the lowest one above it without waits in its pairs."""
    known = runs.search
    if _stalls(known, found):
        return found  # no rung avoids the waits
    above = _that_work(known, ladder)[ladder.index(found) :]
    return next((each for each in above if not _waits_in_pairs(runs, each)), above[-1])


def _waits_in_pairs(runs: Runs, setting: Setting) -> bool:
    trials = (trial for trial in runs.of_setting(setting) if trial.pair is not None)
    seen = [trial.valid for trial in trials if trial.valid]
    return len(seen) >= MIN_PAIRS and all(_do_writers_wait([run]) for run in seen)


def _edge(runs: Runs, ladder: Ladder) -> tuple[Setting | None, Setting | None]:
    """Return the rung to try next, if any, and the lowest known rung without waits.

    The top has none. The rung that the dirty bytes suggest is tried, then its neighbours.
    """
    tried = [at for at, setting in enumerate(ladder) if _is_tried(runs, setting)]
    high = min(at for at in tried if not _stalls(runs, ladder[at]))
    low = max((at for at in tried if at < high), default=-1)
    if high - low == 1:
        return None, ladder[high]
    return ladder[min(max(_rung_for(runs, ladder), low + 1), high - 1)], ladder[high]


def _rung_for(runs: Runs, ladder: Ladder) -> int:
    """Return the lowest rung whose freerun is above the peak of dirty bytes without waits."""
    seen = [run for setting in ladder for run in _seen(runs, setting)]
    peak_bytes = max(run.peak_dirty_bytes for run in seen if not _do_writers_wait([run]))
    above = (at for at, s in enumerate(ladder) if _freerun_bytes(runs, s) > peak_bytes)
    return next(above, len(ladder) - 1)


def _freerun_bytes(runs: Runs, setting: Setting) -> int:
    return runs.thresholds_of(setting).freerun_bytes


def _best_of_the_stalled(
    runs: Runs, ladders: Sequence[Ladder]
) -> tuple[Setting | None, Setting | None]:
    """Return the rung to try, if any, and the best one, if every ladder's top has waits.

    The first ladder is used, unless the top of the second is predicted to be a gain and was not
    slower. The prediction decides because measured times would vary from sweep to sweep. Rungs and
    tops that were stopped or always failed are skipped. A top that is not faster runs again; if it
    still is not, the other ladder is used if its top is faster.
    """
    measured = [ladder for ladder in ladders if _seen(runs, ladder[-1])]
    if not measured:
        return None, None
    best, other = measured[0], measured[-1]
    gain = _waiting_bytes(runs, other[-1]) / _waiting_bytes(runs, best[-1])
    if is_gain(gain) and _time_s(runs, other[-1]) <= _time_s(runs, best[-1]):
        best = other
    if not _is_faster(runs, best[-1]):
        faster = [each for each in measured if _is_faster(runs, each[-1])]
        if _tries(runs, best[-1]) < _TRIES:
            return best[-1], faster[0][-1] if faster else None
        if not faster:
            return None, None
        best = faster[0]
    most = _waiting_bytes(runs, best[-1]) * (1 + NEAR_BEST)
    near = [each for each in best if _waiting_bytes(runs, each) <= most]
    rung = next(each for each in near if _seen(runs, each) or not _is_tried(runs, each))
    return (None, rung) if _is_tried(runs, rung) else (rung, best[-1])


def _waiting_bytes(runs: Runs, setting: Setting) -> float:
    """Return the predicted bytes of the pull that wait for the device, at least 1."""
    return max(1.0, waiting_bytes(runs.burst_bytes, runs.thresholds_of(setting)))


def ladders_of(
    present: Mapping[str, int], dirtyable_bytes: int, limits: Limits, pulled_bytes: int
) -> tuple[Ladder, ...]:
    """Return the two ladders for a host, without ladders that have no rung.

    They have the form of the current dirty threshold, ratio or bytes. With a limit on the bytes at
    risk, unless the whole pull is smaller, the dirty threshold stays below it, with room for short
    excesses (up to 2.8 % in the grids of November 2026). If the current threshold exceeds the
    limit, all rungs are below the limit.
    """
    is_bytes = bool(present.get(DIRTY_PAIR[1]))
    name, allowed = DIRTY_PAIR[is_bytes], limits.max_at_risk_bytes
    most = dirtyable_bytes * _MOST_RATIO // 100
    is_limited = allowed is not None and allowed < min(most, pulled_bytes)
    most = limits.with_room.max_at_risk_bytes or 0 if is_limited else most
    steps = _steps(is_bytes, most, dirtyable_bytes, is_limited=is_limited)
    now = threshold_bytes(present, DIRTY_PAIR, dirtyable_bytes)

    def dirty(value: int) -> int:
        return threshold_bytes({name: value}, DIRTY_PAIR, dirtyable_bytes)

    def freerun(values: Mapping[str, int]) -> int:
        return effective_thresholds(values, dirtyable_bytes).freerun_bytes

    plain = [_plain(present, name, each) for each in steps if dirty(each) > now or now > most]
    first = [each for each in plain if _is_valid(each, dirtyable_bytes)]
    raised = [_raised(name, each, is_bytes) for each in steps if dirty(each) >= now or now > most]
    highest = max((freerun(each.values) for each in first), default=0)
    if not first and now <= most:
        highest = freerun(present)
    second = [each for each in raised if freerun(each.values) > highest]
    return tuple(tuple(ladder) for ladder in (first, second) if ladder)


def _steps(is_bytes: bool, most_bytes: int, dirtyable_bytes: int, *, is_limited: bool) -> list[int]:
    """Return round values of the dirty threshold up to `most_bytes`.

    With a limit, also the highest value that it allows. Without one, only round values: another
    highest value would vary with the memory.
    """
    if is_bytes:
        highest = most_bytes // PAGE_BYTES * PAGE_BYTES
    else:
        highest = ((most_bytes + 1) * 100 - 1) // dirtyable_bytes
    values = [each for each in (_BYTES if is_bytes else _RATIOS) if each <= highest]
    return sorted({*values, *[highest] * is_limited})


def _plain(present: Mapping[str, int], name: str, value: int) -> Setting:
    """Return a setting that raises only the dirty threshold; it names both, as measured."""
    background = {n: present[n] for n in BACKGROUND_PAIR if present.get(n)}
    return Setting(((name, value), *(background or {BACKGROUND_PAIR[0]: 0}).items()))


def _raised(name: str, value: int, is_bytes: bool) -> Setting:
    half = value // 2 // PAGE_BYTES * PAGE_BYTES if is_bytes else value // 2
    return Setting(((name, value), (BACKGROUND_PAIR[is_bytes], half)))


def _is_valid(setting: Setting, dirtyable_bytes: int) -> bool:
    dirty = threshold_bytes(setting.values, DIRTY_PAIR, dirtyable_bytes)
    return threshold_bytes(setting.values, BACKGROUND_PAIR, dirtyable_bytes) < dirty
