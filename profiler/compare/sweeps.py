# SPDX-License-Identifier: Apache-2.0
"""Sweeps: results, documents of `sweep`, `advise` and `transfer tune`, recommendations.

Only a file of results has the times of single runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contracts.shared.errors import UsageError
from profiler.compare.checked import CheckedObject
from profiler.compare.measured import (
    TRANSFER,
    circumstances_of,
    figure,
    measured_at,
    settings_in_force,
)
from profiler.compare.subject import Figure, Kind, Size, Subject, Unit, Value
from sysctl.advice.advise import Recommendation, advise
from sysctl.advice.conclusions import Case
from sysctl.change.recommendation import Evidence, Measured, RecommendedChange
from sysctl.change.recommendation_file import from_json
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.comparison import Side
from sysctl.evidence.results import results_of
from sysctl.knobs.setting import Setting

CURRENT, RECOMMENDED = "current", "recommended"
_RETURN, _DURABLE, _AT_RISK = "time to return", "time to durable", "data at risk"
_NO_CHANGE = "none"


def results_subject(document: Mapping[str, Any], file: str) -> Subject:
    """Return what a file of results says, and what follows from it. Raises WritewiseError."""
    recommendation = advise(results_of(document, file))
    circumstances = recommendation.analysis.runs.circumstances
    seen, best = recommendation.present.observation, recommendation.best
    sides = [(CURRENT, recommendation.present), *([(RECOMMENDED, best)] if best else [])]
    interval = recommendation.interval
    return Subject(
        file=file,
        kind=Kind.SWEEP,
        runs=1,
        size=Size(seen.objects, seen.bytes),
        settings=_settings(recommendation, circumstances),
        circumstances=_scalars(circumstances.flat()),
        figures=(
            *(
                each
                for name, side in sides
                for each in _measured_figures(recommendation, name, side)
            ),
            *([_paired(interval.estimate)] if interval else []),
        ),
        answers={"recommendation": recommendation.case.value},
        measured_at=circumstances.node.started_at,
    )


def _scalars(flat: Mapping[str, Any]) -> dict[str, Value]:
    others = ("started_at", "sysctls", "knobs", TRANSFER)
    names = [name for name in flat if name not in others]
    return {name: flat[name] for name in names}


def _settings(recommendation: Recommendation, circumstances: Circumstances) -> dict[str, Value]:
    shared, best = circumstances.node_class, recommendation.best
    return {
        **shared.present,
        **shared.present_device,
        **({TRANSFER: shared.transfer} if shared.transfer else {}),
        **_limits(shared.max_at_risk_bytes, shared.max_durable_s),
        RECOMMENDED: _words(_values_of(best.setting)) if best else _NO_CHANGE,
    }


def _limits(at_risk_bytes: float | None, durable_s: float | None) -> dict[str, Value]:
    limits = {"max_at_risk_bytes": at_risk_bytes, "max_durable_s": durable_s}
    return {name: value for name, value in limits.items() if value is not None}


def _values_of(setting: Setting) -> dict[str, Value]:
    mount = setting.mount_options
    return {
        **setting.values,
        **dict(setting.device),
        **dict(setting.transfer),
        **({} if mount is None else {"mount options": mount or "defaults"}),
    }


def _words(values: Mapping[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))


def _measured_figures(recommendation: Recommendation, name: str, side: Side) -> list[Figure]:
    runs = recommendation.analysis.runs
    price = recommendation.present_price if name == CURRENT else recommendation.price
    valid = runs.valid_by_setting.get(side.setting, ())
    durable = [run.durable_s for run in valid]
    return [
        *_figure(name, _RETURN, Unit.SECONDS, runs.times_s(side.setting), is_verdict=True),
        *_figure(name, _DURABLE, Unit.SECONDS, durable),
        *_figure(name, _AT_RISK, Unit.BYTES, [price.at_risk_bytes] if price else []),
    ]


def _figure(
    side: str, name: str, unit: Unit, values: Iterable[float | None], *, is_verdict: bool = False
) -> list[Figure]:
    return figure(f"{name} ({side})", unit, values, is_verdict=is_verdict)


def _paired(ratio: float) -> Figure:
    """Return the ratio of times within a sweep, which is from pairs."""
    return Figure("recommended time : current time", Unit.RATIO, (ratio,))


def advice_subject(documents: Sequence[CheckedObject]) -> Subject:
    """Return what `sweep`, `advise` or `transfer tune` printed. Raises UsageError."""
    document = documents[0]
    if len(documents) > 1:
        raise UsageError(f"{document.file} has several sweeps", "keep one in a file")
    measured, limits = document.child("measured"), document.child("limits")
    best = document.child_or_none("recommended")
    sides = [(CURRENT, document.child("present")), *([(RECOMMENDED, best)] if best else [])]
    ratio = document.child("time_ratio").number_or_none("estimate")
    return Subject(
        file=document.file,
        kind=Kind.SWEEP,
        runs=1,
        size=Size(measured.whole("objects"), measured.whole("bytes")),
        settings={
            **settings_in_force(document),
            **_limits(
                limits.number_or_none("max_at_risk_bytes"), limits.number_or_none("max_durable_s")
            ),
            RECOMMENDED: _words(_setting_of(best)) if best else _NO_CHANGE,
        },
        circumstances=circumstances_of(document),
        figures=(
            *(each for name, side in sides for each in _side_figures(name, side)),
            *([_paired(ratio)] if ratio else []),
        ),
        answers={"recommendation": document.text("case")},
        measured_at=measured_at(documents),
    )


def _setting_of(side: CheckedObject) -> dict[str, Value]:
    mount = side.text_or_none("mount_options")
    return {
        **side.values("sysctls"),
        **side.values("device"),
        **side.values("transfer"),
        **({"mount options": mount} if mount else {}),
    }


def _side_figures(name: str, side: CheckedObject) -> list[Figure]:
    times = side.child("return_s")
    durable_s = side.number_or_none("durable_s")
    if side.data.get("durable_is_predicted") is True:
        durable_s = None
    runs = times.whole("count")
    median = Figure(f"{_RETURN} ({name})", Unit.SECONDS, (times.number("median"),), True, runs or 1)
    return [
        median,
        *_figure(name, _DURABLE, Unit.SECONDS, [durable_s]),
        *_figure(name, _AT_RISK, Unit.BYTES, [side.number_or_none("peak_dirty_bytes")]),
    ]


def change_subject(document: Mapping[str, Any], file: str) -> Subject:
    """Return what a recommendation.json says. Raises UsageError."""
    change = from_json(document, file)
    evidence = change.evidence
    sides = ((CURRENT, evidence.present), (RECOMMENDED, evidence.recommended))
    return Subject(
        file=file,
        kind=Kind.SWEEP,
        runs=1,
        size=Size(evidence.objects, evidence.bytes),
        settings={**change.originals, RECOMMENDED: _words(_values_of_change(change))},
        circumstances=_circumstances_of(evidence),
        figures=(
            *(each for name, side in sides for each in _evidence_figures(name, side)),
            Figure(f"{_AT_RISK} ({RECOMMENDED})", Unit.BYTES, (float(evidence.at_risk_bytes),)),
            _paired(evidence.ratio),
        ),
        answers={"recommendation": Case.CHANGE.value},
        measured_at=evidence.measured_at or None,
    )


def _values_of_change(change: RecommendedChange) -> dict[str, Value]:
    knobs = change.disk.knobs if change.disk else ()
    mount = {"mount options": ",".join(change.mount.value)} if change.mount else {}
    knob_values = {knob.name: knob.value for knob in knobs}
    return {**change.sysctl_values, **knob_values, **dict(change.transfer), **mount}


def _circumstances_of(evidence: Evidence) -> dict[str, Value]:
    names = (
        *("host", "instance", "kernel", "version", "memory_bytes", "available_bytes"),
        *("dirtyable_bytes", "fstype", "source", "destination", "client", "volume", "class_key"),
    )
    return {name: value for name in names if (value := getattr(evidence, name))}


def _evidence_figures(name: str, side: Measured) -> list[Figure]:
    return [
        Figure(f"{_RETURN} ({name})", Unit.SECONDS, (side.return_s,), True, max(1, side.runs)),
        *_figure(name, _DURABLE, Unit.SECONDS, [side.durable_s]),
    ]
