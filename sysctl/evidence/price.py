"""The price of a setting: bytes at risk, time until they are durable, what programs notice.

Bytes at risk are those that a host loses when it fails: dirty or under write-back. Where a pull ran
under the setting they are the most that was seen; else the bound that the kernel keeps, the dirty
threshold (`domain_dirty_limits()`, mm/page-writeback.c, as of Linux 6.18), or the whole burst where
that is smaller. A time to durable that nobody waited for is predicted
(`sysctl.evidence.prediction`), and said to be. What other programs notice is known where a run
with a neighbour showed it (role `price`), and `sysctl.evidence.price_label` puts it all in a word.
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

    @property
    def measured_durable_s(self) -> float | None:
        """The time to durable where a run waited for it; None where it is predicted, or unknown."""
        return None if self.is_durable_predicted else self.durable_s


class Exceeded(enum.Enum):
    """Which limit a price exceeds, as far as is known."""

    AT_RISK = enum.auto()
    DURABLE = enum.auto()
    DURABLE_UNKNOWN = enum.auto()


@dataclass(frozen=True)
class Objection:
    """Why a setting of that price is out of the question for somebody with these limits."""

    exceeded: Exceeded
    price: Price
    limits: Limits


@dataclass(frozen=True)
class Limits:
    """What a person is ready to pay; None is no limit."""

    max_at_risk_bytes: int | None = None
    max_durable_s: float | None = None

    def objection(self, price: Price) -> Objection | None:
        """Return why a setting of this price is out of the question; None if it is not."""
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
        """Return whether a setting of this price is beyond them as far as is known.

        A time to durable that nobody waited for nor could predict may turn out to be within.
        """
        return self._exceeded(price) in (Exceeded.AT_RISK, Exceeded.DURABLE)

    @property
    def with_room(self) -> Limits:
        """The same, lower by what one run does not tell, or a prediction misses (`SAME_SHARE`)."""
        at_risk, durable_s = self.max_at_risk_bytes, self.max_durable_s
        return Limits(
            None if at_risk is None else int(at_risk / (1 + SAME_SHARE)),
            None if durable_s is None else durable_s / (1 + SAME_SHARE),
        )


def limits_of(circumstances: Circumstances) -> Limits:
    """Return the limits that the sweep was given, by which its finalists were chosen."""
    asked = circumstances.node_class
    return Limits(asked.max_at_risk_bytes, asked.max_durable_s)


def model_of(runs: Runs) -> Model | None:
    """Return the model of the runs; None where they do not suffice for one."""
    try:
        return fit(runs)
    except UsageError:
        return None


def price_of(runs: Runs, setting: Setting, model: Model | None = None) -> Price:
    """Return the price of a setting, from its valid trials, or the bound where it has none.

    A run with a neighbour counts for the bytes at risk and the time to durable as well. With a
    `model` a time to durable that was not measured is the one that it predicts.
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


_Measure = Callable[[Price], Optional[float]]

#: What makes one setting cheaper than another, the weightiest first, and what counts as the same.
#: A time to durable that is predicted makes none cheaper.
CRITERIA: tuple[tuple[_Measure, float], ...] = (
    (lambda price: price.change_count, 0.0),
    (lambda price: price.at_risk_bytes, SAME_SHARE),
    (lambda price: price.measured_durable_s, SAME_SHARE),
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
