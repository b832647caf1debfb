"""The price of a setting: bytes at risk, time until they are durable, what else it changes.

Bytes at risk are those that a power loss would take: dirty or under write-back. Where a pull ran
under the setting they are the most that was seen; else the bound that the kernel keeps, the dirty
threshold (`domain_dirty_limits()`, mm/page-writeback.c, as of Linux 6.18), or the whole burst where
that is smaller. A time to durable that nobody waited for is predicted (`sysctl.prediction`), and
said to be.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from contracts.errors import UsageError
from contracts.units import counted, format_seconds, format_size
from sysctl.evidence import thresholds_of
from sysctl.knobs_tried import changed_knobs
from sysctl.mounts_tried import changed_options
from sysctl.prediction import Model, fit
from sysctl.results import Results
from sysctl.setting import Setting

#: Prices that differ by less are the same: a peak is seen by samples, and a device's rate varies.
SAME_SHARE = 0.05


@dataclass(frozen=True)
class Price:
    """What a setting costs; `is_measured` is of `at_risk_bytes`, else they are the bound.

    `ceiling_bytes` is the dirty threshold, which a larger burst may reach; `durable_s` is None
    where no trial waited for the device and no model could predict it. `changed_options` counts the
    mount options and the knobs beside the thresholds that it changes.
    """

    at_risk_bytes: int
    is_measured: bool
    ceiling_bytes: int
    durable_s: float | None
    changed_options: int
    is_durable_predicted: bool = False


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
    context = results.context
    return Limits(context.get("max_at_risk_bytes"), context.get("max_durable_s"))


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

    With a `model` a time to durable that was not measured is the one that it predicts.
    """
    seen = [trial.valid for trial in results.of_setting(setting) if trial.valid]
    durable = [each.durable_s for each in seen if each.durable_s is not None]
    ceiling_bytes = thresholds_of(results, setting).dirty_bytes
    bound_bytes = min(ceiling_bytes, burst_bytes(results) or ceiling_bytes)
    durable_s = statistics.median(durable) if durable else None
    is_predicted = False
    if durable_s is None and model is not None:
        durable_s, is_predicted = model.predict(setting.values).durable_s, True
    return Price(
        at_risk_bytes=max((each.peak_dirty_bytes for each in seen), default=bound_bytes),
        is_measured=bool(seen),
        ceiling_bytes=ceiling_bytes,
        durable_s=durable_s,
        changed_options=len(changed_options(results, setting))
        + len(changed_knobs(results, setting)),
        is_durable_predicted=is_predicted,
    )


def burst_bytes(results: Results) -> int:
    """How much one pull of the sweep brought; 0 where no trial is valid."""
    return results.derived(_burst_bytes)


def _burst_bytes(results: Results) -> int:
    return next((t.valid.bytes for t in results.trials if t.valid), 0)


_Measure = Callable[[Price], Optional[float]]

#: What makes one setting cheaper than another, the weightiest first, and what counts as the same.
CRITERIA: tuple[tuple[_Measure, float], ...] = (
    (lambda price: price.at_risk_bytes, SAME_SHARE),
    (lambda price: price.durable_s, SAME_SHARE),
    (lambda price: price.changed_options, 0.0),
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
