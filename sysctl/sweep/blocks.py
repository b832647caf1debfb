# SPDX-License-Identifier: Apache-2.0
"""Runs in blocks: settings that are compared run next to each other, in random order.

The trials of a block have its number as their `pair`. The random order depends on the start of the
sweep, and every second block has the reverse order of the previous one. So each setting runs before
another as often as after it, and neither drift nor after-effects favour one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sysctl.evidence.protocol import abba, concluded
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting

#: The runs before a block → its settings; none if no more are due.
Members = Callable[[Runs], Sequence[Setting]]


def next_run(runs: Runs, members: Members) -> tuple[Setting, int] | None:
    """Return the setting of the next run and the number of its block; None if none is due.

    It depends only on the runs, so a sweep can be resumed. A block with a run that failed
    permanently is completed: its other runs may be pairs.
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
    """Return the members in the order of a block; every second block reverses the previous one."""
    drawn = list(members)
    random.Random(f"{seed} {block // 2}").shuffle(drawn)  # noqa: S311
    return list(abba(drawn, block))
