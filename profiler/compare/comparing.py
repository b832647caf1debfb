# SPDX-License-Identifier: Apache-2.0
"""The comparison of two sides: what differs, and the ratio of each figure that both have."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from profiler.compare.subject import Figure, Size, Subject, Unit, Value
from sysctl.evidence.statistics import Repeats, confidence_of_each, summarize
from sysctl.evidence.unpaired import UnpairedRatio, unpaired_ratio

#: Pulls whose sizes differ by less are comparable: a prefix grows.
SIZE_SLACK = 0.01
#: A smaller difference of memory or credits is none: they are never twice the same.
_MEMORY_SLACK, _CREDIT_SLACK_PERCENT = 0.05, 5.0
_VARYING_MEMORY = ("memory_bytes", "available_bytes", "dirtyable_bytes")
_CREDITS = "credits_percent"


class Obstacle(enum.Enum):
    """Why two files are not comparable."""

    KIND = enum.auto()
    SIZE = enum.auto()
    SCOPE = enum.auto()
    NOTHING_COMMON = enum.auto()


class Significance(str, enum.Enum):
    """What the comparison of one figure says."""

    LOWER = "significantly lower"
    HIGHER = "significantly higher"
    SAME = "no significant difference"
    FEW_RUNS = "unknown: one run"
    ONLY_MEDIANS = "unknown: only medians"
    EXACT = "computed"
    NO_RATIO = "no ratio"
    MISSING = "in one file only"


@dataclass(frozen=True)
class Differing:
    """A setting, a circumstance or an answer that differs; None: not named in that file."""

    name: str
    before: Value | None
    after: Value | None


@dataclass(frozen=True)
class FigureComparison:
    """One figure of both sides. `ratio` is after : before; `interval` needs repeats of both."""

    name: str
    unit: Unit
    is_verdict: bool
    before: Repeats | None
    after: Repeats | None
    outcome: Significance
    ratio: float | None = None
    interval: UnpairedRatio | None = None


@dataclass(frozen=True)
class FileComparison:
    """Two files. With an `obstacle` there are no figures."""

    before: Subject
    after: Subject
    obstacle: Obstacle | None
    settings: tuple[Differing, ...]
    circumstances: tuple[Differing, ...]
    answers: tuple[Differing, ...]
    figures: tuple[FigureComparison, ...]


def compare_subjects(before: Subject, after: Subject) -> FileComparison:
    """Return what differs between two files."""
    obstacle = _obstacle(before, after)
    is_same_kind = before.kind is after.kind
    return FileComparison(
        before,
        after,
        obstacle,
        settings=_changed(before.settings, after.settings) if is_same_kind else (),
        circumstances=_changed(before.circumstances, after.circumstances) if is_same_kind else (),
        answers=() if obstacle else _changed(before.answers, after.answers),
        figures=() if obstacle else _figures(before, after),
    )


def _obstacle(before: Subject, after: Subject) -> Obstacle | None:
    if before.kind is not after.kind:
        return Obstacle.KIND
    if before.scope != after.scope:
        return Obstacle.SCOPE
    if not _is_same_size(before.size, after.size):
        return Obstacle.SIZE
    verdicts = [
        {(each.name, each.unit) for each in side.figures if each.is_verdict}
        for side in (before, after)
    ]
    return None if verdicts[0] & verdicts[1] else Obstacle.NOTHING_COMMON


def _is_same_size(before: Size, after: Size) -> bool:
    pairs = ((before.objects, after.objects), (before.bytes, after.bytes))
    return all(
        not one or not other or math.isclose(one, other, rel_tol=SIZE_SLACK) for one, other in pairs
    )


def _changed(before: Mapping[str, Value], after: Mapping[str, Value]) -> tuple[Differing, ...]:
    """Return what differs, in the order of the files."""
    pairs = ((name, before.get(name), after.get(name)) for name in {**before, **after})
    return tuple(Differing(*pair) for pair in pairs if not _is_same(*pair))


def _is_same(name: str, before: Value | None, after: Value | None) -> bool:
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        if name in _VARYING_MEMORY:
            return math.isclose(before, after, rel_tol=_MEMORY_SLACK)
        if name == _CREDITS:
            return abs(before - after) <= _CREDIT_SLACK_PERCENT
    return before == after


def _figures(before: Subject, after: Subject) -> tuple[FigureComparison, ...]:
    sides = tuple({(f.name, f.unit): f for f in side.figures} for side in (before, after))
    names = list({**sides[0], **sides[1]})
    pairs = [(sides[0].get(name), sides[1].get(name)) for name in names]
    confidence = confidence_of_each(sum(map(_has_verdict, pairs)))
    is_computed = before.is_computed and after.is_computed
    return tuple(
        _comparison(*pair, confidence=confidence, is_computed=is_computed) for pair in pairs
    )


def _has_verdict(pair: tuple[Figure | None, Figure | None]) -> bool:
    """Return whether the verdict is about this pair, and has an interval of it."""
    one, other = pair
    if one is None or other is None:
        return False
    return one.is_verdict and min(len(one.values), len(other.values)) > 1


def _comparison(
    before: Figure | None, after: Figure | None, *, confidence: float, is_computed: bool
) -> FigureComparison:
    named = before or after
    if named is None:
        raise ValueError("a figure of at least one side is needed")
    base = FigureComparison(
        named.name,
        named.unit,
        named.is_verdict,
        before=_repeats(before) if before else None,
        after=_repeats(after) if after else None,
        outcome=Significance.MISSING,
    )
    if before is None or after is None:
        return base
    return _with_ratio(base, before, after, confidence=confidence, is_computed=is_computed)


def _repeats(figure: Figure) -> Repeats:
    found = summarize(figure.values)
    return Repeats(found.median, found.smallest, found.largest, figure.count)


def _with_ratio(
    base: FigureComparison, before: Figure, after: Figure, *, confidence: float, is_computed: bool
) -> FigureComparison:
    values = (*before.values, *after.values)
    if min(values) <= 0:
        return replace(base, outcome=Significance.NO_RATIO)
    medians = [summarize(each.values).median for each in (before, after)]
    ratio = medians[1] / medians[0]
    if is_computed:
        return replace(base, outcome=Significance.EXACT, ratio=ratio)
    if min(before.count, after.count) < 2:
        return replace(base, outcome=Significance.FEW_RUNS, ratio=ratio)
    if min(len(before.values), len(after.values)) < 2:
        return replace(base, outcome=Significance.ONLY_MEDIANS, ratio=ratio)
    found = unpaired_ratio(before.values, after.values, confidence)
    outcome = Significance.SAME
    if found.is_significant:
        outcome = Significance.LOWER if found.high < 1 else Significance.HIGHER
    return replace(base, outcome=outcome, ratio=found.estimate, interval=found)
