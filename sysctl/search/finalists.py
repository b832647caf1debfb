# SPDX-License-Identifier: Apache-2.0
"""The finalists of a search by time: the candidates to measure in pairs.

Each candidate ran once, and the fastest of many single runs is partly luck, so a finalist is only
worth measuring again.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sysctl.evidence.comparison import is_gain
from sysctl.evidence.price import Limits, cheapest, limits_of, model_of, price_of
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting, replace_values

#: Candidates this near to the fastest may be as fast: one run does not decide.
NEAR_FASTEST = 0.10


def cheapest_and_fastest(runs: Runs) -> Sequence[Setting]:
    """Return the cheapest candidate near the fastest, and the fastest; none without a gain.

    They are within the limits of the sweep. Near a limit one run does not show on which side a
    setting is, so if neither has room, the cheapest one with room is returned too. If the fastest
    changes both the host and the pull, so are its two halves, because one may be enough.
    """
    known = runs.search
    times_s, limits = known.candidates_s, limits_of(known.circumstances)
    within = within_limits(known, times_s, limits)
    found = _best(known, {each: times_s[each] for each in within})
    with_room = within_limits(known, within, limits.with_room)
    if found and not set(found) & set(with_room):
        found += _best(known, {each: times_s[each] for each in with_room})[:1]
    parts = _separated(found[-1], known.baseline.setting) if found else ()
    return tuple(dict.fromkeys([*found, *parts]))


def _separated(setting: Setting, present: Setting) -> tuple[Setting, ...]:
    """Return the setting with only its transfer settings, and with only its host settings.

    () if it changes only one of the two.
    """
    host_changes = replace_values(present.values, setting.values) != present.values
    if not host_changes or setting.transfer == present.transfer:
        return ()
    is_named = set(setting.values) <= set(present.values)
    kept = {name: present.values[name] for name in (setting.values if is_named else present.values)}
    pull = replace(setting, sysctls=tuple(kept.items()))
    return pull, replace(setting, transfer=present.transfer)


def _best(runs: Runs, times_s: Mapping[Setting, float]) -> list[Setting]:
    present_s = runs.present_alone_s
    if not present_s or not times_s:
        return []
    fastest = min(times_s, key=lambda each: times_s[each])
    if not is_gain(times_s[fastest] / statistics.median(present_s)):
        return []
    reach_s = times_s[fastest] * (1 + NEAR_FASTEST)
    near = [setting for setting, time_s in times_s.items() if time_s <= reach_s]
    kept = cheapest({setting: price_of(runs, setting) for setting in near})
    return list(dict.fromkeys([min(kept, key=lambda each: times_s[each]), fastest]))


def within_limits(runs: Runs, settings: Iterable[Setting], limits: Limits) -> list[Setting]:
    """Return the settings within the limits; unmeasured times to durable are predicted."""
    if limits == Limits():
        return list(settings)
    model = model_of(runs) if limits.max_durable_s is not None else None
    return [each for each in settings if not limits.breaks(price_of(runs, each, model))]
