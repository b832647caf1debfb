"""The recheck: what the search found, measured afresh in pairs with the present settings.

A finalist has at least `MIN_PAIRS` pairs, and more until they show that it is faster, at most
`MAX_PAIRS`: that nothing is to be gained shall be as well founded as a gain. Where another finalist
is shown to be faster, one that gains less than `MIN_GAIN` has no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from sysctl.evidence.comparison import (
    MAX_PAIRS,
    MIN_GAIN,
    MIN_PAIRS,
    Comparison,
    Verdict,
    compare,
    error_of_looks,
    pairs_of,
)
from sysctl.evidence.results import PRESENT
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting


def members(runs: Runs, present: Setting, finalists: Sequence[Setting]) -> list[Setting]:
    """Return the settings of the next block, the present ones first; none when all is decided."""
    error = error_of_looks(runs, finalists)
    found = {each: compare(runs, each, error=error) for each in finalists}
    is_one_faster = any(each.verdict is Verdict.FASTER for each in found.values())
    open_ones = []
    for setting, comparison in found.items():
        lacks_pairs = len(pairs_of(runs, setting)) < MIN_PAIRS
        is_open = lacks_pairs or _is_open(comparison, is_one_faster=is_one_faster)
        if is_open and not _has_all_pairs(runs, setting):
            open_ones.append(setting)
    return [present, *open_ones] if open_ones else []


def _has_all_pairs(runs: Runs, setting: Setting) -> bool:
    """Whether it ran beside the present settings in `MAX_PAIRS` blocks, failed runs included."""
    beside = {trial.pair for trial in runs.of_role(PRESENT)} - {None}
    return len(beside & {trial.pair for trial in runs.of_setting(setting)}) >= MAX_PAIRS


def _is_open(found: Comparison, *, is_one_faster: bool) -> bool:
    """Whether more pairs could change what is said of a finalist."""
    if found.verdict is Verdict.FASTER or found.interval is None:
        return False
    return not is_one_faster or found.interval.low * (1 + MIN_GAIN) < 1
