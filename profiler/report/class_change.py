# SPDX-License-Identifier: Apache-2.0
"""The change that a shared study recommends for a class, for `apply`, snippets and roll-outs."""

from __future__ import annotations

import math
from datetime import datetime, timezone

from contracts.shared.installation import own_version
from profiler.report.class_study import headline
from sysctl.change.recommendation import (
    MAX_SENTENCE,
    Evidence,
    Measured,
    RecommendedChange,
    SysctlAdvice,
)
from sysctl.fleet.class_advice import ClassAdvice, ClassSetting, TypicalPull
from sysctl.fleet.estimate import ClassEstimate
from sysctl.knobs.setting import replace_values
from sysctl.knobs.writeback import effective_thresholds


def class_change(advice: ClassAdvice) -> RecommendedChange | None:
    """Return the recommended change; None if nothing is recommended.

    The ratio and its interval are the mean's; the verdict has the interval of another node. Node
    names are not in it: it is of a class.
    """
    best, present = advice.best, advice.spec.present
    if best is None or best.found is None or best.typical is None:
        return None
    reason = (
        f"measured on {best.nodes} nodes of {advice.spec.class_key}: on another node the time is "
        f"{best.found.predicted.low:.0%} to {best.found.predicted.high:.0%} of the current one"
    )
    sysctls = tuple(
        SysctlAdvice(name, value, present.get(name, 0), reason[:MAX_SENTENCE])
        for name, value in best.setting.sysctls
    )
    evidence = _evidence(advice, best, best.found, best.typical)
    return RecommendedChange(sysctls=sysctls, evidence=evidence, originals=dict(present))


def _evidence(
    advice: ClassAdvice, best: ClassSetting, found: ClassEstimate, typical: TypicalPull
) -> Evidence:
    values = replace_values(advice.spec.present, best.setting.values)
    high = found.mean.high if math.isfinite(found.mean.high) else None
    return Evidence(
        verdict=headline(advice)[:MAX_SENTENCE],
        ratio=found.mean.estimate,
        ratio_low=found.mean.low,
        ratio_high=high,
        pairs=sum(len(node.ratios) for node in found.nodes),
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        version=own_version(),
        host="",
        instance="",
        kernel="",
        dirtyable_bytes=typical.dirtyable_bytes,
        available_bytes=typical.dirtyable_bytes,
        source="",
        destination="",
        fstype="",
        objects=0,
        bytes=typical.bytes,
        at_risk_bytes=best.at_risk_bytes,
        ceiling_bytes=effective_thresholds(values, typical.dirtyable_bytes).dirty_bytes,
        present=Measured(typical.present_s, typical.runs),
        recommended=Measured(typical.return_s, typical.runs),
        class_key=advice.spec.class_key,
    )
