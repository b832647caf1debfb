# SPDX-License-Identifier: Apache-2.0
"""The price of a setting: bytes at risk, time until they are durable, what programs notice.

Bytes at risk are those that are lost if the instance terminates or the host fails: dirty or under
write-back. If a pull ran under the setting, they are its peak. Else they are the kernel's bound,
the dirty threshold (`domain_dirty_limits()`, mm/page-writeback.c, as of Linux 6.18), or the whole
burst if that is smaller. A time to durable that was not measured is predicted
(`sysctl.evidence.prediction`) and marked so. What other programs notice is known from a run with a
neighbour (role `price`). `sysctl.evidence.price_label` summarises the price in one word.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from contracts.shared.errors import UsageError
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.prediction import Model, fit
from sysctl.evidence.price_label import Figures, Rating, rate
from sysctl.evidence.price_seen import PriceSeen
from sysctl.evidence.results import Observation
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting

#: Prices that differ by less are equal: a peak is sampled, and a device's rate varies.
SAME_SHARE = 0.05


@dataclass(frozen=True)
class Price:
    """The price of a setting. `at_risk_bytes` are measured if `is_measured`, else the bound.

    `ceiling_bytes` is the dirty threshold, which a larger burst may reach. `durable_s` is None if
    no trial waited for the device and no model could predict it. `change_count` is the number of
    values to change. `after_return_s` is how long after the return all data was durable, predicted
    if `durable_s` is. `seen` is what other programs noticed, None without a run with a neighbour.
    `rating` is the label with its reasons.
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

    @property
    def measured_durable_s(self) -> float | None:
        """The measured time to durable; None if it is predicted or unknown."""
        return None if self.is_durable_predicted else self.durable_s


class Exceeded(enum.Enum):
    """The limit that a price exceeds, or may exceed."""

    AT_RISK = enum.auto()
    DURABLE = enum.auto()
    DURABLE_UNKNOWN = enum.auto()


@dataclass(frozen=True)
class Objection:
    """Why the limits exclude a setting with this price."""

    exceeded: Exceeded
    price: Price
    limits: Limits


@dataclass(frozen=True)
class Limits:
    """The user's limits on the price; None is no limit."""

    max_at_risk_bytes: int | None = None
    max_durable_s: float | None = None

    def objection(self, price: Price) -> Objection | None:
        """Return why the limits exclude a setting with this price; None if they do not."""
        exceeded = self._exceeded(price)
        return Objection(exceeded, price, self) if exceeded else None

    def _exceeded(self, price: Price) -> Exceeded | None:
        at_risk, durable_s = self.max_at_risk_bytes, self.max_durable_s
        if at_risk is not None and price.at_risk_bytes > at_risk:
            return Exceeded.AT_RISK
        if durable_s is None:
            return None
        if price.durable_s is None:
            return Exceeded.DURABLE_UNKNOWN
        return Exceeded.DURABLE if price.durable_s > durable_s else None

    def breaks(self, price: Price) -> bool:
        """Return whether the price is known to exceed a limit.

        An unknown time to durable does not: it may turn out to be within the limit.
        """
        return self._exceeded(price) in (Exceeded.AT_RISK, Exceeded.DURABLE)

    @property
    def with_room(self) -> Limits:
        """The limits lowered by the uncertainty of one run or of a prediction (`SAME_SHARE`)."""
        at_risk, durable_s = self.max_at_risk_bytes, self.max_durable_s
        return Limits(
            None if at_risk is None else int(at_risk / (1 + SAME_SHARE)),
            None if durable_s is None else durable_s / (1 + SAME_SHARE),
        )


def limits_of(circumstances: Circumstances) -> Limits:
    """Return the limits of the sweep, by which its finalists were chosen."""
    asked = circumstances.node_class
    return Limits(asked.max_at_risk_bytes, asked.max_durable_s)


def model_of(runs: Runs) -> Model | None:
    """Return the model of the runs; None if they are insufficient."""
    try:
        return fit(runs)
    except UsageError:
        return None


def price_of(runs: Runs, setting: Setting, model: Model | None = None) -> Price:
    """Return the price of a setting, from its valid trials or, without any, the bound.

    Runs with a neighbour count for the bytes at risk and the time to durable too. If the time to
    durable was not measured, a `model` predicts it.
    """
    seen = runs.valid_by_setting.get(setting, ())
    ceiling_bytes = runs.thresholds_of(setting).dirty_bytes
    bound_bytes = min(ceiling_bytes, runs.burst_bytes or ceiling_bytes)
    durable = _durable(seen)
    is_predicted = durable is None and model is not None
    if durable is None and model is not None:
        predicted = model.predict(setting.values)
        durable = predicted.durable_s, predicted.durable_s - predicted.return_s
    durable_s, after_return_s = durable or (None, None)
    figures = Figures(
        memory_bytes=max(1, runs.dirtyable_bytes),
        at_risk_bytes=max((each.peak_dirty_bytes for each in seen), default=bound_bytes),
        ceiling_bytes=ceiling_bytes,
        after_return_s=after_return_s,
        seen=runs.seen_prices.get(setting),
        present_seen=runs.seen_prices.get(runs.baseline.setting),
    )
    return Price(
        at_risk_bytes=figures.at_risk_bytes,
        is_measured=bool(seen),
        ceiling_bytes=ceiling_bytes,
        durable_s=durable_s,
        change_count=runs.baseline.change_count(setting),
        is_durable_predicted=is_predicted,
        after_return_s=after_return_s,
        seen=figures.seen,
        rating=rate(figures),
    )


def _durable(runs: Sequence[Observation]) -> tuple[float, float] | None:
    """Return the median times to durable in s, from the start and from the return.

    None if no run waited for the device.
    """
    waited = [(run.durable_s, run.return_s) for run in runs if run.durable_s is not None]
    if not waited:
        return None
    return (
        statistics.median(durable_s for durable_s, _ in waited),
        max(0.0, statistics.median(durable_s - return_s for durable_s, return_s in waited)),
    )


_Measure = Callable[[Price], Optional[float]]

#: The criteria for a cheaper setting, the most important first, each with its tolerance. A
#: predicted time to durable does not count.
CRITERIA: tuple[tuple[_Measure, float], ...] = (
    (lambda price: price.change_count, 0.0),
    (lambda price: price.at_risk_bytes, SAME_SHARE),
    (lambda price: price.measured_durable_s, SAME_SHARE),
    (lambda price: price.ceiling_bytes, 0.0),
)


def cheapest(prices: Mapping[Setting, Price]) -> list[Setting]:
    """Return the cheapest settings, in the order given; one criterion is applied after another.

    Each criterion keeps the settings within its tolerance of the lowest value, and those whose
    value is unknown.
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
    reach = max(least, least * (1 + tolerance))  # a float may be less than a large integer
    kept: list[Setting] = []
    for setting in settings:
        value = values[setting]
        if value is None or value <= reach:
            kept.append(setting)
    return kept
