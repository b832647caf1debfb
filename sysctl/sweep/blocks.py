"""Runs in blocks: settings that are compared run next to each other, in random order.

The trials of a block have its number as their `pair`. A block runs in a random order, drawn from
when the sweep began, and the next one in the reverse of it: so each setting is as often before
another as after it, and neither a drift nor what a run leaves behind for the next favours one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from sysctl.evidence.protocol import concluded
from sysctl.evidence.results import Results
from sysctl.knobs.setting import Setting

#: From the results of the blocks before → the settings of the next block; none when no more is due.
Members = Callable[[Results], Sequence[Setting]]


def next_run(results: Results, members: Members) -> tuple[Setting, int] | None:
    """Return the setting of the next run and the number of its block; None when none is due.

    From the results alone, so a resumed sweep goes on where it stopped. A block whose run failed
    for good is still run to its end: its other runs may be pairs.
    """
    pairs = [trial.pair for trial in results.trials]
    begun = [pair for pair in pairs if pair is not None]
    for block in (*begun[-1:], len(set(begun))):
        start = pairs.index(block) if block in pairs else len(pairs)
        known = replace(results, trials=results.trials[:start])
        order = _order(members(known), block, str(results.circumstances.node.started_at))
        ended = [trial for trial in concluded(results.trials) if trial.pair == block]
        if len(ended) < len(order):
            return order[len(ended)], block
    return None


def _order(members: Sequence[Setting], block: int, seed: str) -> list[Setting]:
    """Return the members in the order of a block: every second one is the reverse of the last."""
    drawn = list(members)
    random.Random(f"{seed} {block // 2}").shuffle(drawn)  # noqa: S311
    return drawn[::-1] if block % 2 else drawn
