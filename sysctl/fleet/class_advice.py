# SPDX-License-Identifier: Apache-2.0
"""The advice for a class: what holds on a node that was not measured.

A setting is recommended for the class if

1. at least `ENOUGH_NODES` nodes measured it in pairs with their current settings,
2. the mean gain is at least `MIN_GAIN`, and its interval excludes 1,
3. the prediction interval for another node is below 1, so a node that was not measured gains, too,
4. writers waited in dirty throttling on most of the nodes, if it changes thresholds: else the gain
   has another cause,
5. no node had more data at risk than the limit.

If it gains on some nodes and not on others, and 2 or 3 does not hold, the class is mixed: more
nodes do not help, and it has to be split (`kinds.py`).

All intervals have a confidence that accounts for the number of settings compared. Of the settings
that are left, those at most `AS_GOOD` slower than the fastest are as good; of these the one with
the least data at risk is recommended.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sysctl.advice.analysis import AS_GOOD
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE, is_gain
from sysctl.evidence.results import grouped
from sysctl.evidence.statistics import confidence_of_each
from sysctl.fleet.claims import ClaimKind, ClaimState, Record, finalists, is_without_finalist
from sysctl.fleet.estimate import LEAST_NODES, ClassEstimate, effects_of, estimate
from sysctl.fleet.kinds import NodeVerdict, is_mixed, verdicts_of
from sysctl.fleet.spec import StudySpec
from sysctl.fleet.summary import RunSummary, ratios_of
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import THRESHOLDS

#: With fewer nodes the prediction is more than 1.55 times as wide as with all.
ENOUGH_NODES = 5


class Objections(str, enum.Enum):
    """Why a setting is not recommended for the class; the value is its name in JSON."""

    TOO_FEW_NODES = "too few nodes"
    MIXED = "it gains on some nodes and not on others"
    NO_GAIN = "no gain on the mean"
    NODES_DIFFER = "another node may be slower"
    NOT_THROTTLED = "writers did not wait"
    AT_RISK = "too much data at risk"


@dataclass(frozen=True)
class TypicalPull:
    """Medians over the runs in pairs: times to return (s), sizes in bytes, and the number of runs.

    `present_s` is under the current settings, `return_s` under the setting.
    """

    present_s: float
    return_s: float
    runs: int
    bytes: int
    dirtyable_bytes: int


@dataclass(frozen=True)
class NodeBefore:
    """A node under the current settings: medians of the time to return (s) and of writers' waits.

    `stall_share` is the share of the writers' time.
    """

    return_s: float
    stall_share: float


@dataclass(frozen=True)
class ClassSetting:
    """A setting of the recheck: its estimate (None with too few nodes), and why not, if not.

    `nodes` is the number of nodes with a pair. `stall_share` is the median over nodes of the share
    of their time that writers waited under the current settings; `at_risk_bytes` the most data at
    risk on any node. `enough_nodes` is how many nodes would probably be enough if they are too few
    or differ; None otherwise, and if no number would be. `typical` is None without a pair.
    `verdicts` are those on the nodes, empty with too few of them.
    """

    setting: Setting
    nodes: int
    found: ClassEstimate | None
    stall_share: float
    at_risk_bytes: int
    objection: Objections | None
    enough_nodes: int | None = None
    typical: TypicalPull | None = None
    verdicts: tuple[NodeVerdict, ...] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether it gains on some nodes and not on others."""
        return self.found is not None and is_mixed(self.found, self.verdicts)


@dataclass(frozen=True)
class ClassAdvice:
    """What a study shows: every setting of the recheck, and the recommended one, if any.

    `before` has each node of the recheck under the current settings. `is_complete`: as many nodes
    as were asked for have measured all their blocks, or the search has ended without a finalist
    (`is_without_finalist`).
    """

    spec: StudySpec
    settings: tuple[ClassSetting, ...]
    best: ClassSetting | None
    nodes: tuple[str, ...]
    before: Mapping[str, NodeBefore]
    is_complete: bool
    is_without_finalist: bool = False


def advise_class(
    spec: StudySpec, records: Sequence[Record], max_at_risk_bytes: int | None = None
) -> ClassAdvice:
    """Return the advice of the claims that are told."""
    told = _first_of_each(
        record
        for record in records
        if record.claim.kind is ClaimKind.BLOCK and record.state is ClaimState.TOLD
    )
    compared = finalists(spec, records) if told else ()
    valid = [record for record in told if record.claim.settings == compared]
    confidence = confidence_of_each(len(compared))
    before = _before(valid)
    found = tuple(
        _advised(_measured(setting, at, valid, confidence, before), max_at_risk_bytes)
        for at, setting in enumerate(compared, 1)
    )
    blocks = grouped((record.claim.node, record.claim.replicate) for record in valid)
    done = sum(len(set(numbers)) >= spec.blocks for numbers in blocks.values())
    has_none = is_without_finalist(spec, records)
    is_complete = has_none or done >= spec.nodes
    nodes = tuple(sorted(blocks))
    return ClassAdvice(spec, found, _best(found), nodes, before, is_complete, has_none)


def _first_of_each(records: Iterable[Record]) -> list[Record]:
    """Return one record of each block of a node: a lost one that was late may be there twice."""
    kept: dict[tuple[str, int], Record] = {}
    for record in records:
        kept.setdefault((record.claim.node, record.claim.replicate), record)
    return list(kept.values())


def _measured(
    setting: Setting,
    at: int,
    records: Sequence[Record],
    confidence: float,
    before: Mapping[str, NodeBefore],
) -> ClassSetting:
    """Return what was measured of a setting, without an objection."""
    by_node: Mapping[str, list[float]] = grouped(
        (record.claim.node, ratio) for record in records for ratio in ratios_of(record.runs, at)
    )
    effects = effects_of(by_node)
    pairs = sum(len(effect.ratios) for effect in effects)
    is_known = len(effects) >= LEAST_NODES and pairs > len(effects)
    found = estimate(effects, confidence) if is_known else None
    runs = [run for record in records for run in record.runs]
    peaks = [run.peak_dirty_bytes for run in runs if run.at == at and run.return_s]
    return ClassSetting(
        setting=setting,
        nodes=len(effects),
        found=found,
        stall_share=statistics.median([each.stall_share for each in before.values()] or [0.0]),
        at_risk_bytes=max(peaks, default=0),
        objection=None,
        typical=_typical(runs, at),
        verdicts=verdicts_of(found) if found else (),
    )


def _advised(measured: ClassSetting, max_at_risk_bytes: int | None) -> ClassSetting:
    """Return the setting with the objection to it, if there is one."""
    why = _objection(measured, max_at_risk_bytes)
    return replace(measured, objection=why, enough_nodes=_enough_nodes(measured.found, why))


def _enough_nodes(found: ClassEstimate | None, why: Objections | None) -> int | None:
    if why is Objections.TOO_FEW_NODES:
        enough = found.enough_nodes() if found else ENOUGH_NODES
        return None if enough is None else max(ENOUGH_NODES, enough)
    return found.enough_nodes() if found and why is Objections.NODES_DIFFER else None


def _typical(runs: Sequence[RunSummary], at: int) -> TypicalPull | None:
    paired = [run for run in runs if run.pair is not None and run.return_s]
    before_s = [run.return_s or 0.0 for run in paired if run.at == 0]
    under = [run for run in paired if run.at == at]
    if not before_s or not under:
        return None
    return TypicalPull(
        present_s=statistics.median(before_s),
        return_s=statistics.median([run.return_s or 0.0 for run in under]),
        runs=len(under),
        bytes=round(statistics.median([run.bytes for run in under])),
        dirtyable_bytes=round(statistics.median([run.dirtyable_bytes for run in under])),
    )


def _before(records: Sequence[Record]) -> dict[str, NodeBefore]:
    """Return each node under the current settings."""
    by_node: Mapping[str, list[RunSummary]] = grouped(
        (record.claim.node, run)
        for record in records
        for run in record.runs
        if run.at == 0 and run.return_s
    )
    return {
        node: NodeBefore(
            statistics.median([run.return_s or 0.0 for run in runs]),
            statistics.median([run.stall_share for run in runs]),
        )
        for node, runs in sorted(by_node.items())
    }


def _objection(measured: ClassSetting, max_at_risk_bytes: int | None) -> Objections | None:
    found = measured.found
    if found is None or measured.nodes < ENOUGH_NODES:
        return Objections.TOO_FEW_NODES
    has_gain = is_gain(found.mean.estimate) and found.mean.high < 1
    if measured.is_mixed and not (has_gain and found.predicted.high < 1):
        return Objections.MIXED
    if not has_gain:
        return Objections.NO_GAIN
    changes_thresholds = bool(set(measured.setting.values) & set(THRESHOLDS))
    if changes_thresholds and measured.stall_share < NEGLIGIBLE_SHARE:
        return Objections.NOT_THROTTLED
    if measured.at_risk_bytes > (math.inf if max_at_risk_bytes is None else max_at_risk_bytes):
        return Objections.AT_RISK
    return Objections.NODES_DIFFER if found.predicted.high >= 1 else None


def _best(found: Sequence[ClassSetting]) -> ClassSetting | None:
    able = [(each, each.found.mean.estimate) for each in found if each.found and not each.objection]
    if not able:
        return None
    fastest = min(ratio for _, ratio in able)
    near = [each for each, ratio in able if ratio <= fastest * (1 + AS_GOOD)]
    return min(near, key=lambda each: each.at_risk_bytes)
