"""The price of a setting: bytes at risk, time until they are durable, what programs notice.

Bytes at risk are those that a host loses when it fails: dirty or under write-back. Where a pull ran
under the setting they are the most that was seen; else the bound that the kernel keeps, the dirty
threshold (`domain_dirty_limits()`, mm/page-writeback.c, as of Linux 6.18), or the whole burst where
that is smaller. A time to durable that nobody waited for is predicted
(`sysctl.evidence.prediction`), and said to be. What other programs notice is known where a run
with a neighbour showed it (role `price`), and `sysctl.evidence.price_label` puts it all in a word.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from contracts.shared.errors import UsageError
from contracts.shared.units import counted, format_seconds, format_size
from sysctl.evidence.comparison import dirtyable_bytes_of, thresholds_of
from sysctl.evidence.differences import change_count
from sysctl.evidence.prediction import Model, fit
from sysctl.evidence.price_label import Figures, Rating, rate
from sysctl.evidence.price_seen import PriceSeen
from sysctl.evidence.results import PRESENT, Observation, Results
from sysctl.knobs.setting import Setting

#: Prices that differ by less are the same: a peak is seen by samples, and a device's rate varies.
SAME_SHARE = 0.05


@dataclass(frozen=True)
class Price:
    """What a setting costs; `is_measured` is of `at_risk_bytes`, else they are the bound.

    `ceiling_bytes` is the dirty threshold, which a larger burst may reach; `durable_s` is None
    where no trial waited for the device and no model could predict it. `change_count` is how many
    values a person would have to change. `after_return_s` is how long after the return data of the
    pull was not yet durable, predicted where `durable_s` is. `seen` is what other programs noticed,
    None where no neighbour ran; `rating` is the label with its reasons.
    """

    at_risk_bytes: int
    is_measured: bool
    ceiling_bytes: int
    durable_s: float | None
    change_count: int
    is_durable_predicted: bool = False
    after_return_s: float | None = None
    seen: PriceSeen | None = None
    rating: Rating | None = None


@dataclass(frozen=True)
class Limits:
    """What a person is ready to pay; None is no limit."""

    max_at_risk_bytes: int | None = None
    max_durable_s: float | None = None

    def objection(self, price: Price) -> str:
        """Why a setting of this price is out of the question; empty when it is not."""
        allowed, durable_s = self.max_at_risk_bytes, self.max_durable_s
        if allowed is not None and price.at_risk_bytes > allowed:
            seen = "" if price.is_measured else "up to "
            at_risk, most = _told_apart(price.at_risk_bytes, allowed)
            return f"{seen}{at_risk} at risk, more than {most}"
        if durable_s is None:
            return ""
        if price.durable_s is None:
            return "its time to durable was not measured"
        if price.durable_s <= durable_s:
            return ""
        return f"durable after {durable_text(price)}, later than {format_seconds(durable_s)}"

    def breaks(self, price: Price) -> bool:
        """Whether a setting of this price is beyond them as far as is known.

        A time to durable that nobody waited for nor could predict may turn out to be within.
        """
        is_known = price.durable_s is not None
        limits = self if is_known else replace(self, max_durable_s=None)
        return bool(limits.objection(price))

    @property
    def with_room(self) -> Limits:
        """The same, lower by what one run does not tell, or a prediction misses (`SAME_SHARE`)."""
        at_risk, durable_s = self.max_at_risk_bytes, self.max_durable_s
        return Limits(
            None if at_risk is None else int(at_risk / (1 + SAME_SHARE)),
            None if durable_s is None else durable_s / (1 + SAME_SHARE),
        )

    def __str__(self) -> str:
        """`at most 1.00 GiB at risk, durable after 60.0 s at the latest`; empty without any."""
        at_risk, durable_s = self.max_at_risk_bytes, self.max_durable_s
        words = [] if at_risk is None else [f"at most {format_size(at_risk)} at risk"]
        if durable_s is not None:
            words.append(f"durable after {format_seconds(durable_s)} at the latest")
        return ", ".join(words)


def _told_apart(size_bytes: int, limit_bytes: int) -> tuple[str, str]:
    """Both sizes for reading, in exact bytes where they would read alike."""
    shown = format_size(size_bytes), format_size(limit_bytes)
    if shown[0] != shown[1]:
        return shown
    return counted(size_bytes, "byte"), counted(limit_bytes, "byte")


def limits_of(results: Results) -> Limits:
    """The limits that the sweep was given, by which its finalists were chosen."""
    asked = results.circumstances.node_class
    return Limits(asked.max_at_risk_bytes, asked.max_durable_s)


def durable_text(price: Price) -> str:
    """`31.4 s`, `31.4 s predicted` or `not measured`."""
    if price.durable_s is None:
        return "not measured"
    return f"{format_seconds(price.durable_s)}{' predicted' * price.is_durable_predicted}"


def model_of(results: Results) -> Model | None:
    """The model of the runs; None where they do not suffice for one."""
    try:
        return fit(results)
    except UsageError:
        return None


def price_of(results: Results, setting: Setting, model: Model | None = None) -> Price:
    """The price of a setting, from its valid trials, or the bound where it has none.

    A run with a neighbour counts for the bytes at risk and the time to durable as well. With a
    `model` a time to durable that was not measured is the one that it predicts.
    """
    runs = [trial.valid for trial in results.of_setting(setting) if trial.valid]
    ceiling_bytes = thresholds_of(results, setting).dirty_bytes
    bound_bytes = min(ceiling_bytes, burst_bytes(results) or ceiling_bytes)
    durable = _durable(runs)
    is_predicted = durable is None and model is not None
    if durable is None and model is not None:
        told = model.predict(setting.values)
        durable = told.durable_s, told.durable_s - told.return_s
    durable_s, after_return_s = durable or (None, None)
    figures = Figures(
        memory_bytes=max(1, dirtyable_bytes_of(results)),
        at_risk_bytes=max((each.peak_dirty_bytes for each in runs), default=bound_bytes),
        ceiling_bytes=ceiling_bytes,
        after_return_s=after_return_s,
        seen=_seen(results).get(setting),
        present_seen=_present_seen(results),
    )
    return Price(
        at_risk_bytes=figures.at_risk_bytes,
        is_measured=bool(runs),
        ceiling_bytes=ceiling_bytes,
        durable_s=durable_s,
        change_count=change_count(results, setting),
        is_durable_predicted=is_predicted,
        after_return_s=after_return_s,
        seen=figures.seen,
        rating=rate(figures),
    )


def _durable(runs: Sequence[Observation]) -> tuple[float, float] | None:
    """When all was durable, from the start and from the return, in s: the medians of the runs.

    None where no run waited for the device.
    """
    waited = [(run.durable_s, run.return_s) for run in runs if run.durable_s is not None]
    if not waited:
        return None
    return (
        statistics.median(durable_s for durable_s, _ in waited),
        max(0.0, statistics.median(durable_s - return_s for durable_s, return_s in waited)),
    )


def _seen(results: Results) -> Mapping[Setting, PriceSeen]:
    """What other programs noticed, by setting: of its last run with a neighbour."""
    return results.derived(_seen_by_setting)


def _seen_by_setting(results: Results) -> dict[Setting, PriceSeen]:
    valid = ((trial.setting, trial.valid) for trial in results.trials if trial.valid)
    return {setting: run.price for setting, run in valid if run.price is not None}


def _present_seen(results: Results) -> PriceSeen | None:
    present = results.of_role(PRESENT)
    return _seen(results).get(present[0].setting) if present else None


def burst_bytes(results: Results) -> int:
    """How much one pull of the sweep brought; 0 where no trial is valid."""
    return results.derived(_burst_bytes)


def _burst_bytes(results: Results) -> int:
    return next((t.valid.bytes for t in results.trials if t.valid), 0)


_Measure = Callable[[Price], Optional[float]]

#: What makes one setting cheaper than another, the weightiest first, and what counts as the same.
CRITERIA: tuple[tuple[_Measure, float], ...] = (
    (lambda price: price.change_count, 0.0),
    (lambda price: price.at_risk_bytes, SAME_SHARE),
    (lambda price: price.durable_s, SAME_SHARE),
    (lambda price: price.ceiling_bytes, 0.0),
)


def cheapest(prices: Mapping[Setting, Price]) -> list[Setting]:
    """The settings that no other is cheaper than, in the order given; by one criterion at a time.

    At each criterion those within its tolerance of the lowest stay in; one of which it is not
    known stays in too.
    """
    left = list(prices)
    for measure, tolerance in CRITERIA:
        left = _lowest(left, {setting: measure(prices[setting]) for setting in left}, tolerance)
    return left


def _lowest(
    settings: Sequence[Setting], values: Mapping[Setting, float | None], tolerance: float
) -> list[Setting]:
    known = [value for value in values.values() if value is not None]
    least = min(known, default=0.0)
    reach = max(least, least * (1 + tolerance))  # a float may be below a large whole number
    kept: list[Setting] = []
    for setting in settings:
        value = values[setting]
        if value is None or value <= reach:
            kept.append(setting)
    return kept
