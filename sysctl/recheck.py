"""The recheck: what the search found, measured afresh in pairs with the present settings.

At least `MIN_PAIRS` blocks, and more for those finalists that the pairs neither show to be faster
nor show to gain less than `MIN_GAIN`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sysctl.evidence import (
    MAX_PAIRS,
    MIN_GAIN,
    MIN_PAIRS,
    Verdict,
    compare,
    error_of_each,
    pairs_of,
)
from sysctl.results import PRESENT, Results
from sysctl.setting import Setting


def members(results: Results, present: Setting, finalists: Sequence[Setting]) -> list[Setting]:
    """Return the settings of the next block, the present ones first; none when all is decided."""
    open_ones = [each for each in finalists if is_open(results, each, len(finalists))]
    return [present, *open_ones] if open_ones else []


def is_open(results: Results, setting: Setting, finalist_count: int = 1) -> bool:
    """Return whether more pairs could change what is said of a finalist."""
    beside = {trial.pair for trial in results.of_role(PRESENT)} - {None}
    if len(beside & {trial.pair for trial in results.of_setting(setting)}) >= MAX_PAIRS:
        return False
    if len(pairs_of(results, setting)) < MIN_PAIRS:
        return True
    found = compare(results, setting, error=error_of_each(finalist_count))
    if found.verdict is Verdict.FASTER or found.interval is None:
        return False
    return found.interval.low * (1 + MIN_GAIN) < 1
