# SPDX-License-Identifier: Apache-2.0
"""Grid search: every valid combination of the requested values, in an order that saves time.

The kernel's dirty limit rises at once and falls slowly (`domain_update_dirty_limit()`), so
thresholds are tried from the smallest to the largest.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.evidence.results import LeftOut
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting, invalid_reason, replace_values, threshold_bytes
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.search import untried
from sysctl.search.finalists import cheapest_and_fastest

#: Transfer settings as `Setting` has them.
Transfer = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Grid:
    """Tries the candidates in their order."""

    candidates: tuple[Setting, ...]

    def next_setting(self, runs: Runs, pending: Sequence[Setting] = ()) -> Setting | None:
        """See `Strategy`."""
        left = untried(self.candidates, runs.trials)
        return next((each for each in left if each not in pending), None)

    def remaining(self, runs: Runs) -> int:
        """See `Strategy`."""
        return len(untried(self.candidates, runs.trials))

    def finalists(self, runs: Runs) -> Sequence[Setting]:
        """See `Strategy`."""
        return cheapest_and_fastest(runs)


def build_grid(
    values: Mapping[str, Sequence[int]],
    present: Setting,
    dirtyable_bytes: int,
    transfers: Sequence[Transfer] = ((),),
) -> tuple[tuple[Setting, ...], list[LeftOut]]:
    """Return all valid combinations of sysctl `values` and `transfers`, and the invalid ones.

    Ratios are percentages of `dirtyable_bytes`. A sysctl that is not in `values` is as in
    `present`.
    """
    candidates: list[Setting] = []
    left_out: list[LeftOut] = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination))
        sysctls = tuple(chosen.items())
        why = invalid_reason(replace_values(present.values, chosen), dirtyable_bytes)
        if why:
            left_out.append(LeftOut(str(Setting(sysctls)), why))
        else:
            candidates += [Setting(sysctls, transfer=transfer) for transfer in transfers]

    def rank(setting: Setting) -> tuple[int, int, tuple[int, ...]]:
        complete = replace_values(present.values, setting.values)
        return (
            threshold_bytes(complete, DIRTY_PAIR, dirtyable_bytes),
            threshold_bytes(complete, BACKGROUND_PAIR, dirtyable_bytes),
            tuple(setting.values.values()),
        )

    return tuple(sorted(dict.fromkeys(candidates), key=rank)), left_out
