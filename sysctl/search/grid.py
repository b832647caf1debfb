"""Grid search: every valid combination of the values asked for, in an order that saves settling.

The kernel's dirty limit rises at once and falls slowly (`domain_update_dirty_limit()`), so
thresholds are tried from the smallest to the largest, mount options one after the other within
each.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.results import CANDIDATE, LeftOut, Trial
from sysctl.setting import Setting, invalid_reason, replace_values, threshold_bytes


@dataclass(frozen=True)
class Grid:
    """The candidates of a grid, in the order in which they are tried."""

    candidates: tuple[Setting, ...]

    def next_setting(self, done: Sequence[Trial]) -> Setting | None:
        """The first candidate that was not tried."""
        return next(iter(self._left(done)), None)

    def remaining(self, done: Sequence[Trial]) -> int:
        """How many candidates were not tried."""
        return len(self._left(done))

    def _left(self, done: Sequence[Trial]) -> list[Setting]:
        tried = {trial.setting for trial in done if trial.role == CANDIDATE}
        return [setting for setting in self.candidates if setting not in tried]


def build_grid(
    values: Mapping[str, Sequence[int]],
    mount_options: Sequence[str],
    present: Setting,
    dirtyable_bytes: int,
) -> tuple[Grid, list[LeftOut]]:
    """All combinations of sysctl `values` and `mount_options`, without those that cannot be.

    `dirtyable_bytes` is what the ratios are a percentage of. A sysctl that is not in `values` stays
    as in `present`. Returns the grid and what was left out of it, with the reason.
    """
    options_tried: Sequence[str | None] = mount_options or (None,)
    candidates: list[Setting] = []
    left_out: list[LeftOut] = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination))
        why = invalid_reason(replace_values(present.values, chosen), dirtyable_bytes)
        settings = [_setting(chosen, options) for options in options_tried]
        if why:
            left_out.append(LeftOut(str(_setting(chosen, None)), why))
        else:
            candidates += settings

    def rank(setting: Setting) -> tuple[int, int, tuple[int, ...]]:
        complete = replace_values(present.values, setting.values)
        return (
            threshold_bytes(complete, DIRTY_PAIR, dirtyable_bytes),
            threshold_bytes(complete, BACKGROUND_PAIR, dirtyable_bytes),
            tuple(setting.values.values()),
        )

    return Grid(tuple(sorted(dict.fromkeys(candidates), key=rank))), left_out


def _setting(values: Mapping[str, int], mount_options: str | None) -> Setting:
    return Setting(tuple(values.items()), mount_options)
