"""Which candidates of a search are worth measuring again beside the present settings.

A candidate ran once, so the fastest may be fast by luck: what is recommended is decided by the
fresh pairs that follow. From the search alone, and so the same however often it is asked.

What breaks the limits of the sweep (`sysctl.price.Limits`) is none of them. Near a limit one run
does not tell on which side of it a setting is, so one with room to it is measured again, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sysctl.evidence import thresholds_of
from sysctl.knobs_tried import changed_knobs, is_worth_its_knobs
from sysctl.mounts_tried import changed_options, is_worth_its_mount
from sysctl.price import Limits, cheapest, limits_of, model_of, price_of
from sysctl.results import CANDIDATE, PRESENT, Results
from sysctl.setting import Setting
from sysctl.statistics import noise_floor

MAX_FINALISTS = 3
#: A smaller gain is not worth a change of a fleet, whatever the evidence.
MIN_GAIN = 0.05
#: Candidates this near to the fastest may turn out as fast: one run does not tell.
NEAR_BEST = 0.10
#: One that costs more is rechecked where it was faster than a cheaper one by more.
WORTH_MORE = 0.02


def finalists(results: Results) -> list[Setting]:
    """At most `MAX_FINALISTS` settings to recheck, the cheapest first; none without a gain.

    Of those near the fastest the ones of which no cheaper one was as fast, by more than
    `WORTH_MORE`; where the fastest changes more than thresholds, the same thresholds alone too.
    """
    searched = replace(results, trials=[t for t in results.trials if t.pair is None])
    times_s, limits = _times_of_candidates(searched), limits_of(results)
    within = within_limits(searched, times_s, limits)
    chosen = _near_the_fastest(searched, {setting: times_s[setting] for setting in within})
    with_room = within_limits(searched, within, limits.with_room)
    if not chosen or set(chosen) & set(with_room):
        return chosen
    reserve = _near_the_fastest(searched, {setting: times_s[setting] for setting in with_room})
    return [*reserve[-1:], *chosen[1 - MAX_FINALISTS :]]


def within_limits(results: Results, settings: Iterable[Setting], limits: Limits) -> list[Setting]:
    """Those that do not break the limits, as measured, or as predicted where nobody waited."""
    if limits == Limits():
        return list(settings)
    model = model_of(results) if limits.max_durable_s is not None else None
    return [s for s in settings if not limits.breaks(price_of(results, s, model))]


def _near_the_fastest(results: Results, times_s: Mapping[Setting, float]) -> list[Setting]:
    present_s = search_times(results)
    if not present_s or not times_s:
        return []
    floor, fastest_s = noise_floor(present_s), min(times_s.values())
    if statistics.median(present_s) / fastest_s <= 1 + max(floor, MIN_GAIN):
        return []
    reach_s = min(fastest_s * (1 + max(floor, NEAR_BEST)), statistics.median(present_s))
    near = [setting for setting, time_s in times_s.items() if time_s <= reach_s]
    front: list[Setting] = []
    for setting in _by_price(results, near):
        if not front or times_s[setting] * (1 + WORTH_MORE) < times_s[front[-1]]:
            front.append(setting)
        if fastest_s * (1 + WORTH_MORE) >= times_s[front[-1]]:
            break  # nothing is faster by enough
    chosen = list(dict.fromkeys([*front[: MAX_FINALISTS - 1], front[-1]]))
    return _with_its_base(results, chosen, times_s)


def _with_its_base(
    results: Results, chosen: list[Setting], times_s: Mapping[Setting, float]
) -> list[Setting]:
    """The last one, where it changes more than thresholds, beside the same thresholds alone.

    One run with and one without tell nothing of a mount option: the pairs shall.
    """
    last = chosen[-1]
    if not _changes_more(results, last):
        return chosen
    same = [s for s in times_s if thresholds_of(results, s) == thresholds_of(results, last)]
    bases = [setting for setting in same if not _changes_more(results, setting)][:1]
    cheaper = [setting for setting in chosen[:-1] if setting not in bases]
    return [*cheaper[: MAX_FINALISTS - 1 - len(bases)], *bases, last]


def _changes_more(results: Results, setting: Setting) -> bool:
    return bool(changed_options(results, setting) or changed_knobs(results, setting))


def search_times(results: Results) -> list[float]:
    """Times to return (s) of the valid present runs that were not beside a finalist."""
    alone = (t.valid for t in results.of_role(PRESENT) if t.pair is None)
    return [seen.return_s for seen in alone if seen]


def _times_of_candidates(results: Results) -> dict[Setting, float]:
    """The valid candidates' times to return (s), without those of which a part does not help."""
    tried = ((trial.setting, trial.valid) for trial in results.of_role(CANDIDATE))
    valid = {setting: seen.return_s for setting, seen in tried if seen}
    return {
        setting: time_s
        for setting, time_s in valid.items()
        if is_worth_its_mount(results, setting) and is_worth_its_knobs(results, setting)
    }


def _by_price(results: Results, settings: list[Setting]) -> Iterator[Setting]:
    """The cheapest first; each is looked for when it is asked for."""
    prices = {setting: price_of(results, setting) for setting in settings}
    while prices:
        chosen = cheapest(prices)[0]
        yield chosen
        del prices[chosen]
