"""Settings that are faster and beyond the limits, and what there is to say of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.shared.units import counted, format_seconds, format_size
from sysctl.evidence.comparison import is_gain
from sysctl.evidence.price import Limits, durable_text, limits_of, model_of, price_of
from sysctl.evidence.results import CANDIDATE, PRESENT, RECHECK, Results
from sysctl.knobs.setting import Setting
from sysctl.search.finalists import search_times, within_limits


@dataclass(frozen=True)
class Excluded:
    """A faster setting that the limits exclude, why, and the share of the present time it took.

    `pairs` is how many pairs tell that share, 0 where it is from one run of the search.
    """

    setting: Setting
    why: str
    ratio: float
    pairs: int

    def __str__(self) -> str:
        """`dirty_ratio=80 took 19% of the present time: 1.70 GiB at risk, more than 1.00 GiB.`"""
        once = " in one run" * (not self.pairs)
        return f"{self.setting} took {self.ratio:.0%} of the present time{once}: {self.why}."


def excluded_in_search(results: Results, limits: Limits) -> Excluded | None:
    """The fastest setting with a gain that was not measured again since it is beyond the limits."""
    gains = dict(_gains(results))
    within = set(within_limits(results, gains, limits))
    beyond = {setting: ratio for setting, ratio in gains.items() if setting not in within}
    if not beyond:
        return None
    setting = min(beyond, key=lambda each: beyond[each])
    why = limits.objection(price_of(results, setting, model_of(results)))
    return Excluded(setting, why, beyond[setting], 0)


def not_within(results: Results, excluded: Sequence[Excluded], limits: Limits) -> str:
    """That nothing faster is within the limits, and what of the search might be."""
    sentence = f"every setting that is faster costs too much. {' '.join(map(str, excluded))}"
    gains = dict(_gains(results))
    within = within_limits(results, gains, limits)
    if not within:
        is_new = limits != limits_of(results)
        return sentence + " The sweep looked for no others: sweep with these limits." * is_new
    setting = min(within, key=lambda each: gains[each])
    present_s = statistics.median(search_times(results))
    is_new = limits != limits_of(results)
    remedy = ": sweep with these limits to have it measured in pairs" * is_new
    return (
        f"{sentence} Of the others, {setting} was fastest, "
        f"{format_seconds(gains[setting] * present_s)} in one run{remedy}."
    )


def to_keep_limits(results: Results, limits: Limits) -> str:
    """The fastest measured setting but the present one that keeps them, and its time."""
    times_s = _measured_times(results)
    within = within_limits(results, times_s, limits)
    if not within:
        remedy = ": sweep with them" * (limits != limits_of(results))
        return f"No other setting that was measured keeps your limits{remedy}."
    setting = min(within, key=lambda each: statistics.median(times_s[each]))
    took_s = statistics.median(times_s[setting])
    paired_s = [trial.valid.return_s for trial in results.of_role(PRESENT) if trial.valid]
    present_s = statistics.median(search_times(results) or paired_s)
    price = price_of(results, setting, model_of(results))
    durable = f", durable after {durable_text(price)}" * (limits.max_durable_s is not None)
    return (
        f"To keep your limits: {setting}, {format_size(price.at_risk_bytes)} at risk{durable}; it "
        f"took {format_seconds(took_s)} ({counted(len(times_s[setting]), 'run')}), "
        f"{took_s / present_s:.0%} of the present time."
    )


def _measured_times(results: Results) -> dict[Setting, list[float]]:
    """The times to return (s) of every setting but the present one."""
    present = results.of_role(PRESENT)[0].setting
    times_s: dict[Setting, list[float]] = {}
    for trial in results.timed:
        if trial.valid and trial.setting != present:
            times_s.setdefault(trial.setting, []).append(trial.valid.return_s)
    return times_s


def cost_of_limits(
    results: Results, limits: Limits, excluded: Sequence[Excluded], ratio: float
) -> list[str]:
    """What they exclude that is faster than a recommended setting of that `ratio`; or nothing."""
    searched = excluded_in_search(results, limits)
    is_faster = searched is not None and is_gain(searched.ratio / ratio)
    beyond = [*excluded, *([searched] if searched and is_faster else [])]
    return [f"Beyond your limits: {' '.join(map(str, beyond))}"] if beyond else []


def _gains(results: Results) -> Iterator[tuple[Setting, float]]:
    """The candidates that were not measured again, with a gain in their one run: the time's share.

    Of the present settings' median time before the recheck.
    """
    times_s = search_times(results)
    present_s = statistics.median(times_s) if times_s else 0.0
    rechecked = {trial.setting for trial in results.of_role(RECHECK)}
    for trial in results.of_role(CANDIDATE):
        if trial.valid and present_s and trial.setting not in rechecked:
            ratio = trial.valid.return_s / present_s
            if is_gain(ratio):
                yield trial.setting, ratio
