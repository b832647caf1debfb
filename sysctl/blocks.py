"""Runs in blocks: settings that are compared run next to each other, in random order.

The trials of a block have its number as their `pair`. A block runs in an order drawn from its
number, and the next one in the reverse of it: so each setting is as often before another as after
it, and neither a drift nor what a run leaves behind for the next favours one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sysctl.protocol import concluded
from sysctl.results import PRESENT, RECHECK, Results
from sysctl.setting import Setting

#: From the results of the blocks before → the settings of the next block; none when all is said.
Members = Callable[[Results], Sequence[Setting]]


@dataclass(frozen=True)
class PairedRun:
    """One run of a block; `left` run after it in the same one."""

    role: str
    setting: Setting
    pair: int
    left: int
    is_first: bool


def next_run(results: Results, present: Setting, members: Members) -> PairedRun | None:
    """Return the next run of the block that has begun, or of a new one; None when none is due.

    From the results alone, so a resumed sweep goes on where it stopped. A block whose run failed
    for good is still run to its end: its other runs may be pairs.
    """
    begun = [trial.pair for trial in results.trials if trial.pair is not None]
    for block in ([begun[-1]] if begun else []) + [len(set(begun))]:
        before = replace(results, trials=[t for t in results.trials if _is_before(t.pair, block)])
        order = _order(members(before), block)
        ended = [trial for trial in concluded(results.trials) if trial.pair == block]
        if len(ended) < len(order):
            setting = order[len(ended)]
            role = PRESENT if setting == present else RECHECK
            return PairedRun(role, setting, block, len(order) - len(ended) - 1, not ended)
    return None


def _is_before(pair: int | None, block: int) -> bool:
    return pair is None or pair < block


def _order(members: Sequence[Setting], block: int) -> list[Setting]:
    """Return the members in the order of a block: every second one is the reverse of the last."""
    drawn = list(members)
    random.Random(block // 2).shuffle(drawn)  # noqa: S311
    return drawn[::-1] if block % 2 else drawn
