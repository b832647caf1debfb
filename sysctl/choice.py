"""Which candidates of a search are worth measuring again beside the present settings.

A candidate ran once, so the fastest may be fast by luck: what is recommended is decided by the
fresh pairs that follow. From the search alone, and so the same however often it is asked.
"""

from __future__ import annotations

import statistics

from sysctl.evidence import thresholds_of
from sysctl.knobs.mount import split_options
from sysctl.results import CANDIDATE, PRESENT, Observation, Results, Trial
from sysctl.setting import Setting
from sysctl.statistics import noise_floor

MAX_FINALISTS = 3
#: A smaller gain is not worth a change of a fleet, whatever the evidence.
MIN_GAIN = 0.05
#: Candidates this near to the fastest may turn out as fast: one run does not tell.
NEAR_BEST = 0.10


def finalists(results: Results) -> list[Setting]:
    """At most `MAX_FINALISTS` settings to recheck, the preferred one first; none without a gain.

    The cheapest of those near the fastest, the fastest itself, and the second cheapest.
    """
    alone = search_times(results)
    floor = noise_floor(alone)
    tried = [(t.valid, t) for t in results.of_role(CANDIDATE) if t.valid]
    if not alone or not tried:
        return []
    fastest_s = min(seen.return_s for seen, _ in tried)
    if statistics.median(alone) / fastest_s <= 1 + max(floor, MIN_GAIN):
        return []
    reach_s = min(fastest_s * (1 + max(floor, NEAR_BEST)), statistics.median(alone))
    near = [pair for pair in tried if pair[0].return_s <= reach_s]
    cheapest = sorted(near, key=lambda pair: _cost(results, pair[1], pair[0]))
    fastest = min(near, key=lambda pair: pair[0].return_s)
    ranked = [cheapest[0], fastest, *cheapest[1:]]
    return list(dict.fromkeys(trial.setting for _, trial in ranked))[:MAX_FINALISTS]


def search_times(results: Results) -> list[float]:
    """Times to return (s) of the valid present runs that were not beside a finalist."""
    alone = (t.valid for t in results.of_role(PRESENT) if t.pair is None)
    return [seen.return_s for seen in alone if seen]


def _cost(results: Results, trial: Trial, seen: Observation) -> tuple[int, int, int, float]:
    """What a setting costs: bytes at risk, then mount options changed, then time."""
    thresholds = thresholds_of(results, trial.setting)
    return (
        thresholds.dirty_bytes,
        thresholds.background_bytes,
        len(_changed_options(results, trial.setting)),
        seen.return_s,
    )


def _changed_options(results: Results, setting: Setting) -> set[str]:
    """The mount option words in which a setting differs from the present mount."""
    if setting.mount_options is None:
        return set()
    present = set(results.context.get("mount_words", ()))
    return present ^ set(split_options(setting.mount_options))
