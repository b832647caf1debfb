"""The recheck: the finalists measured afresh, each in pairs with the present settings.

The runs go in blocks: the present settings and then the finalists, in the next block the finalists
backwards and then the present settings (ABBA), so that a drift meets both sides alike. The trials
of a block have its number as their `pair`. After `MIN_PAIRS` blocks those finalists go on for which
the pairs do not decide yet, and which may still be preferred to one that they do decide. From the
results alone, so a resumed sweep goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sysctl.budget import Budget
from sysctl.choice import MAX_FINALISTS, MIN_GAIN, finalists
from sysctl.evidence import Verdict, compare
from sysctl.protocol import concluded
from sysctl.results import PRESENT, RECHECK, Results
from sysctl.setting import Setting

MIN_PAIRS = 2
#: Without a budget no more pairs than these.
MAX_PAIRS = 6
#: An interval is too wide if its ends differ by more than this factor, whatever it excludes.
MAX_WIDTH = 3.0


@dataclass(frozen=True)
class PairedRun:
    """One run of a block; `block_left` run after it in the same one."""

    role: str
    setting: Setting
    pair: int
    block_left: int


def has_begun(results: Results) -> bool:
    """Whether a run of it was made: then the search is over."""
    return any(trial.pair is not None for trial in results.trials)


def next_run(results: Results, present: Setting, budget: Budget) -> PairedRun | None:
    """The next run, or None when the pairs decide, or the budget is used.

    A block in which the present settings could not be measured ends there: it can give no pair.
    """
    chosen = affordable_finalists(results, budget)
    block, runs = 0, block_of(present, chosen, 0)
    while runs:
        ended = [trial for trial in concluded(results.trials) if trial.pair == block]
        is_void = any(trial.role == PRESENT and trial.problem for trial in ended)
        if len(ended) < len(runs) and not is_void:
            role, setting = runs[len(ended)]
            begins = not ended and block >= MIN_PAIRS
            if begins and not budget.affords(results, [role for role, _ in runs]):
                return None
            return PairedRun(role, setting, block, len(runs) - len(ended) - 1)
        block += 1
        runs = block_of(present, _members(results, chosen, block, budget), block)
    return None


def block_of(present: Setting, members: list[Setting], block: int) -> list[tuple[str, Setting]]:
    """The runs of a block as (role, setting), in their order; none without members."""
    if not members:
        return []
    runs = [(PRESENT, present), *((RECHECK, setting) for setting in members)]
    return runs[::-1] if block % 2 else runs


def minimum(results: Results) -> list[str]:
    """The roles of the runs that a recheck of the present finalists takes at least."""
    count = max(1, len(finalists(results)))
    return [PRESENT, *[RECHECK] * count] * MIN_PAIRS


def affordable_finalists(results: Results, budget: Budget) -> list[Setting]:
    """The finalists, only so many as the budget left after the search can compare; at least one."""
    searched = replace(results, trials=[t for t in results.trials if t.pair is None])
    chosen = finalists(searched)
    for count in range(min(len(chosen), MAX_FINALISTS), 1, -1):
        if budget.affords(searched, [PRESENT, *[RECHECK] * count] * MIN_PAIRS, syncs=1):
            return chosen[:count]
    return chosen[:1]


def _members(results: Results, chosen: list[Setting], block: int, budget: Budget) -> list[Setting]:
    """The finalists that a block compares: after the first ones, those not decided before it."""
    if block < MIN_PAIRS:
        return chosen
    if block >= MAX_PAIRS and not budget.is_limited:
        return []
    before = [t for t in results.trials if t.pair is None or t.pair < block]
    known = replace(results, trials=before)
    still_open = [setting for setting in chosen if is_open(known, setting)]
    decided = [setting for setting in chosen if setting not in still_open]
    return [s for s in still_open if _may_be_preferred(known, s, decided)]


def _may_be_preferred(results: Results, setting: Setting, decided: Sequence[Setting]) -> bool:
    """Whether an open finalist looks faster by more than `MIN_GAIN` than each decided gain."""
    comparisons = [compare(results, each) for each in decided]
    gains = [c.interval.estimate for c in comparisons if c.interval and c.verdict is Verdict.FASTER]
    interval = compare(results, setting).interval
    if interval is None or not gains:
        return True
    return interval.estimate * (1 + MIN_GAIN) < min(gains)


def is_open(results: Results, setting: Setting) -> bool:
    """Whether more pairs could change what is said of a finalist.

    They could where a gain worth having and no gain at all are both within the interval, or where
    the interval is wide.
    """
    comparison = compare(results, setting)
    interval = comparison.interval
    if interval is None or interval.count < MIN_PAIRS:
        return True
    worthwhile = 1 / (1 + max(comparison.noise_floor, MIN_GAIN))
    is_wide = interval.includes(1.0) or interval.high > MAX_WIDTH * interval.low
    return interval.low < worthwhile and is_wide
