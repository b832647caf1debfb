# SPDX-License-Identifier: Apache-2.0
"""The change that the advice recommends, as data; foreign text is bounded and printable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from contracts.shared.text import printable
from profiler.report.conclusions import verdict_text
from profiler.report.groups import starved_text
from profiler.report.reasons import ReasonText, reason_texts
from profiler.report.volume_words import known_volume_text
from sysctl.advice.advise import Recommendation
from sysctl.advice.group_advice import starved_by
from sysctl.advice.reasons import LEAVE_OUT, MOUNT_OPTIONS, SET
from sysctl.change.forms import BYTES, RATIO
from sysctl.change.recommendation import (
    MAX_SENTENCE,
    DiskAdvice,
    DiskIdentity,
    Evidence,
    KnobAdvice,
    Measured,
    MountAdvice,
    OtherForm,
    RecommendedChange,
    SysctlAdvice,
)
from sysctl.change.recommendation_file import is_acceptable
from sysctl.evidence.circumstances import Circumstances, Node
from sysctl.evidence.comparison import Side
from sysctl.evidence.runs import Runs
from sysctl.knobs.mount import split_options
from sysctl.knobs.vm import BY_NAME, THRESHOLDS


def change_of(recommendation: Recommendation) -> RecommendedChange | None:
    """Return the change that `advise` recommends; None if it recommends none."""
    best = recommendation.best
    if best is None:
        return None
    runs, reasons = recommendation.analysis.runs, reason_texts(recommendation)
    before = recommendation.present.setting.values
    sysctls = tuple(
        SysctlAdvice(r.name, int(r.value), before.get(r.name, 0), _sentence(r.why))
        for r in reasons
        if r.name in BY_NAME and r.action != LEAVE_OUT
    )
    change = RecommendedChange(
        sysctls=sysctls,
        evidence=_evidence(recommendation, best),
        originals=before,
        mount=_mount(runs.circumstances, reasons, best),
        disk=_disk(runs.circumstances.node, reasons, best),
        other_form=_other_form(recommendation),
        transfer=_transfer(runs, best),
    )
    starved = starved_by(change.sysctl_values, runs)
    return _in_ratios(change, starved_text(starved)) if starved else change


def _in_ratios(change: RecommendedChange, starved: str) -> RecommendedChange:
    """Move bytes that starve groups of the host to the second file, and ratios to the first.

    If no whole percentages give the same thresholds, the bytes stay, and each reason says so.
    """
    measured = {advice.name: advice for advice in change.sysctls}
    form = change.other_form
    if form is None or form.kind != RATIO:
        with_it = (replace(a, reason=_sentence(f"{a.reason}. {starved}")) for a in change.sysctls)
        return replace(change, sysctls=tuple(with_it))
    ratios = []
    for name, value in form.values.items():
        advice = measured.get(name) or measured.get(str(BY_NAME[name].counterpart))
        why = f"{advice.reason if advice else form.note}. As a ratio: {starved}"
        present = change.originals.get(name, 0)
        ratios.append(SysctlAdvice(name, value, present, _sentence(why)))
    others = [advice for advice in change.sysctls if advice.name not in THRESHOLDS]
    values = {n: v for n, v in change.sysctl_values.items() if n in THRESHOLDS}
    in_bytes = OtherForm(BYTES, values, _sentence(f"WARNING: measured in this form, but {starved}"))
    return replace(change, sysctls=(*ratios, *others), other_form=in_bytes)


def _sentence(text: object) -> str:
    """Return foreign text safe to print, and bounded."""
    return printable(str(text))[:MAX_SENTENCE]


def _mount(
    circumstances: Circumstances, reasons: Sequence[ReasonText], best: Side
) -> MountAdvice | None:
    whys = [r.why for r in reasons if r.name == MOUNT_OPTIONS and r.action == SET]
    if not whys or best.setting.mount_options is None:
        return None
    shared, node = circumstances.node_class, circumstances.node
    return MountAdvice(
        target=node.mount_target or "",
        device=node.device or "",
        fstype=shared.fstype,
        value=split_options(best.setting.mount_options),
        present=shared.mount_words,
        policy=shared.mount_policy,
        reason=_sentence("; ".join(whys)),
        # a line with words that no snippet may repeat is left alone
        fstab=node.fstab if node.fstab and is_acceptable(node.fstab) else None,
    )


def _disk(node: Node, reasons: Sequence[ReasonText], best: Side) -> DiskAdvice | None:
    if not best.setting.device:
        return None
    whys = {r.name: r for r in reasons if r.action == SET}
    knobs = tuple(
        KnobAdvice(name, value, _sentence(whys[name].before), _sentence(whys[name].why))
        for name, value in best.setting.device
        if name in whys  # a knob that does not change has none
    )
    disk = node.disk or DiskIdentity("")
    return DiskAdvice(
        target=node.mount_target or "",
        device=node.device or "",
        knobs=knobs,
        name=_sentence(disk.name),
        serial=_sentence(disk.serial or ""),
        wwid=_sentence(disk.wwid or ""),
    )


def _transfer(runs: Runs, best: Side) -> dict[str, int]:
    """Return all settings of the pull if one changes; those not varied keep their values."""
    if not runs.baseline.changed_transfer(best.setting):
        return {}
    used = runs.circumstances.node_class.transfer_settings
    return {**(used or {}), **dict(best.setting.transfer)}


def _other_form(recommendation: Recommendation) -> OtherForm | None:
    for form in recommendation.forms or ():
        if not form.is_measured and form.values:
            return OtherForm(form.kind, dict(form.values), _sentence(form.note))
    return None


def _evidence(recommendation: Recommendation, best: Side) -> Evidence:
    runs, seen = recommendation.analysis.runs, best.observation
    shared, node = runs.circumstances.node_class, runs.circumstances.node
    interval, price = recommendation.interval, recommendation.price
    if interval is None or price is None:
        raise AssertionError("a change that is recommended has an interval and a price")
    return Evidence(
        verdict=_sentence(verdict_text(recommendation)),
        ratio=interval.estimate,
        ratio_low=interval.low,
        ratio_high=interval.high if math.isfinite(interval.high) else None,
        pairs=interval.count,
        dirtyable_bytes=runs.dirtyable_bytes,
        memory_bytes=node.memory_bytes,
        available_bytes=node.available_bytes,
        objects=seen.objects,
        bytes=seen.bytes,
        at_risk_bytes=price.at_risk_bytes,
        ceiling_bytes=price.ceiling_bytes,
        present=_measured(recommendation.present),
        recommended=_measured(best),
        measured_at=_sentence(node.started_at or ""),
        version=_sentence(node.version or ""),
        host=_sentence(node.host or ""),
        instance=_sentence(shared.instance or ""),
        kernel=_sentence(shared.kernel or ""),
        source=_sentence(node.source or ""),
        destination=_sentence(node.destination or ""),
        fstype=_sentence(shared.fstype),
        client=_sentence(shared.client or ""),
        volume=_sentence(known_volume_text(runs.circumstances) or ""),
    )


def _measured(side: Side) -> Measured:
    return Measured(side.return_s.median, side.return_s.count, side.durable_s)
