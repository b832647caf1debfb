"""Which candidates are within the limits of the sweep: as measured, or as the model expects."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from sysctl.prediction import Model
from sysctl.price import Limits, Price, price_of
from sysctl.results import Results
from sysctl.setting import Setting, replace_values
from sysctl.writeback import effective_thresholds


def expected_price(model: Model, setting: Setting) -> Price:
    """What a setting is expected to cost, in the terms by which the advice will choose."""
    expected = model.predict(setting.values)
    values = replace_values(model.present, setting.values)
    return Price(
        at_risk_bytes=expected.peak_dirty_bytes,
        is_measured=False,
        ceiling_bytes=effective_thresholds(values, model.dirtyable_bytes).dirty_bytes,
        durable_s=expected.durable_s,
        changed_options=len(setting.device) + (setting.mount_options is not None),
        is_durable_predicted=True,
    )


def affordable(
    candidates: Sequence[Setting], results: Results, model: Model, limits: Limits
) -> Sequence[Setting]:
    """Those of the candidates that do not break the limits."""
    if limits == Limits():
        return candidates
    seen = {trial.setting for trial in results.trials if trial.valid}
    miss = _miss(results, model, seen)

    def price(setting: Setting) -> Price:
        if setting in seen:
            return price_of(results, setting, model)
        expected = expected_price(model, setting)
        return replace(expected, at_risk_bytes=round(expected.at_risk_bytes * miss))

    return [setting for setting in candidates if not limits.breaks(price(setting))]


def _miss(results: Results, model: Model, seen: set[Setting]) -> float:
    """By what factor there was more at risk than predicted, in the median of what was measured."""
    factors = [
        price_of(results, setting).at_risk_bytes
        / max(1, expected_price(model, setting).at_risk_bytes)
        for setting in seen
    ]
    return statistics.median(factors)
