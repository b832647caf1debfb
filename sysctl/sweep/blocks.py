"""Runs in blocks: settings that are compared run next to each other, in random order.

The trials of a block have its number as their `pair`. A block runs in a random order, drawn from
when the sweep began, and the next one in the reverse of it: so each setting is as often before
another as after it, and neither a drift nor what a run leaves behind for the next favours one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sysctl.evidence.protocol import concluded
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting

#: From the runs before a block → its settings; none when no more is due.
Members = Callable[[Runs], Sequence[Setting]]


def next_run(runs: Runs, members: Members) -> tuple[Setting, int] | None:
    """Return the setting of the next run and the number of its block; None when none is due.

    From the runs alone, so a resumed sweep goes on where it stopped. A block whose run failed
    for good is still run to its end: its other runs may be pairs.
    """
    pairs = [trial.pair for trial in runs.trials]
    begun = [pair for pair in pairs if pair is not None]
    for block in (*begun[-1:], len(set(begun))):
        start = pairs.index(block) if block in pairs else len(pairs)
        order = _order(members(runs.first(start)), block, str(runs.circumstances.node.started_at))
        ended = [trial for trial in concluded(runs.trials) if trial.pair == block]
        if len(ended) < len(order):
            return order[len(ended)], block
    return None


def _order(members: Sequence[Setting], block: int, seed: str) -> list[Setting]:
    """Return the members in the order of a block: every second one is the reverse of the last."""
    drawn = list(members)
    random.Random(f"{seed} {block // 2}").shuffle(drawn)  # noqa: S311
    return drawn[::-1] if block % 2 else drawn
