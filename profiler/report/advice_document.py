# SPDX-License-Identifier: Apache-2.0
"""A recommendation, and what it is made from, as a document for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profiler.report.advice import measured_text
from profiler.report.conclusions import note_texts, verdict_text
from profiler.report.prediction import extrapolated_text
from profiler.report.price import (
    objection_text,
    other_price_documents,
    price_document,
    price_lines,
)
from profiler.report.reasons import reason_texts
from profiler.report.summary import reason_text, sentence_text
from profiler.report.tradeoff import missing_texts, setting_text
from profiler.report.volume import volume_document
from sysctl.advice.advise import Recommendation
from sysctl.advice.analysis import Analysis
from sysctl.advice.tradeoff import Point
from sysctl.evidence.baseline import Baseline
from sysctl.evidence.comparison import Side, pairs_of
from sysctl.evidence.price import Price
from sysctl.evidence.results import Trial
from sysctl.evidence.statistics import Interval
from sysctl.knobs.setting import Setting


def advice_document(
    recommendation: Recommendation, group_lines: Sequence[str] = ()
) -> dict[str, object]:
    """Return the advice as plain data; the names have the units."""
    best, price = recommendation.best, recommendation.price
    interval, trade_off = recommendation.interval, recommendation.trade_off
    analysis = recommendation.analysis
    baseline = analysis.runs.baseline
    return {
        "measured": _measured(recommendation),
        "headline": sentence_text(recommendation),
        "why": reason_text(recommendation),
        "change_recommended": best is not None,
        "case": recommendation.case.value,
        "verdict": verdict_text(recommendation),
        "speedup": recommendation.speedup,
        "time_ratio": _interval_document(interval) if interval else None,
        "noise": analysis.noise.deviation if analysis.noise.degrees else None,
        "present": _side_document(recommendation.present, recommendation.present_price, baseline),
        "recommended": _side_document(best, price, baseline) if best and price else None,
        "cost": list(price_lines(best, price, recommendation.present_price)),
        "other_prices": list(other_price_documents(recommendation.other_prices)),
        "limits": vars(analysis.limits),
        "notes": list(note_texts(recommendation)),
        "excluded": [
            {
                **_setting_document(item.setting, baseline),
                "why": objection_text(item.why),
                "time_ratio": item.ratio,
                "pairs": item.pairs,
            }
            for item in analysis.excluded
        ],
        "trade_off": [_point_document(point, baseline) for point in trade_off.points],
        "comparisons": [
            _comparison_document(analysis, setting) for setting in analysis.comparisons
        ],
        "trials": [
            _trial_document(number, trial, baseline)
            for number, trial in enumerate(analysis.runs.trials, start=1)
        ],
        "not_predicted": missing_texts(trade_off),
        "forms": [vars(form) for form in recommendation.forms or ()],
        "reasons": [{**vars(each), "why": each.why} for each in reason_texts(recommendation)],
        "volume": volume_document(recommendation),
        "memory_group": list(group_lines),
        "left_out": [vars(item) for item in recommendation.left_out],
    }


def _interval_document(interval: Interval) -> dict[str, object]:
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": None if math.isinf(interval.high) else interval.high,
        "pairs": interval.count,
    }


def _side_document(side: Side, price: Price, baseline: Baseline) -> dict[str, object]:
    seen, thresholds = side.observation, side.thresholds
    return {
        **_setting_document(side.setting, baseline),
        "return_s": vars(side.return_s),
        "durable_s": price.durable_s,
        "durable_is_predicted": price.is_durable_predicted,
        "stalled_share": seen.stall_share,
        "held_up_by": seen.held_up_by,
        "background_threshold_bytes": thresholds.background_bytes,
        "dirty_threshold_bytes": thresholds.dirty_bytes,
        "freerun_bytes": thresholds.freerun_bytes,
        "peak_dirty_bytes": price.at_risk_bytes,
        "price": price_document(price),
    }


def _point_document(point: Point, baseline: Baseline) -> dict[str, object]:
    return {
        **_setting_document(point.setting, baseline),
        "names": list(point.names),
        "return_s": point.return_s,
        "shortest_return_s": point.shortest_s,
        "longest_return_s": point.longest_s,
        "at_risk_bytes": point.at_risk_bytes,
        "durable_s": point.durable_s,
        "runs": point.runs,
        "is_measured": point.is_measured,
        "extrapolates": extrapolated_text(point.extrapolates),
    }


def _setting_document(setting: Setting, baseline: Baseline) -> dict[str, object]:
    """Return a setting and its name in reports."""
    return {**setting.to_json(), "text": setting_text(setting, baseline)}


def _comparison_document(analysis: Analysis, setting: Setting) -> dict[str, object]:
    found, runs = analysis.comparisons[setting], analysis.runs
    return {
        **_setting_document(setting, runs.baseline),
        "verdict": found.verdict.value,
        "time_ratio": _interval_document(found.interval) if found.interval else None,
        "pairs": [
            {"current_s": pair.present.return_s, "other_s": pair.other.return_s}
            for pair in pairs_of(runs, setting)
        ],
    }


def _trial_document(number: int, trial: Trial, baseline: Baseline) -> dict[str, object]:
    seen = trial.observation
    return {
        "number": number,
        "role": trial.role,
        "block": trial.pair,
        **_setting_document(trial.setting, baseline),
        "is_valid": trial.valid is not None,
        "return_s": seen.return_s if seen else None,
        "durable_s": seen.durable_s if seen else None,
        "stalled_share": seen.stall_share if seen else None,
        "peak_dirty_bytes": seen.peak_dirty_bytes if seen else None,
        "stopped_s": trial.stopped_s,
        "problem": trial.problem or None,
    }


def _measured(recommendation: Recommendation) -> dict[str, object]:
    circumstances = recommendation.analysis.runs.circumstances
    seen = recommendation.present.observation
    return {
        **dict.fromkeys(("host", "kernel", "started_at", "version")),
        **circumstances.flat(),
        "objects": seen.objects,
        "bytes": seen.bytes,
        "sentence": measured_text(recommendation),
    }
