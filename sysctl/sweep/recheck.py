# SPDX-License-Identifier: Apache-2.0
"""The recheck: the finalists of the search, measured in pairs with the current settings.

A finalist has at least `MIN_PAIRS` pairs, and more until they show that it is faster, up to
`MAX_PAIRS`: a result without a gain needs as much evidence as a gain. If another finalist is
shown to be faster, a finalist that cannot gain `MIN_GAIN` gets no more pairs.
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
    """Return the settings of the next block, the current ones first; none if all is decided."""
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
    """Return whether it ran with the current settings in `MAX_PAIRS` blocks, failed ones too."""
    blocks = {trial.pair for trial in runs.of_role(PRESENT)} - {None}
    return len(blocks & {trial.pair for trial in runs.of_setting(setting)}) >= MAX_PAIRS


def _is_open(found: Comparison, *, is_one_faster: bool) -> bool:
    """Return whether more pairs could change the verdict on a finalist."""
    if found.verdict is Verdict.FASTER or found.interval is None:
        return False
    return not is_one_faster or found.interval.low * (1 + MIN_GAIN) < 1
