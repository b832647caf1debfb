"""Grid search: every valid combination of the values asked for, in an order that saves settling.

The kernel's dirty limit rises at once and falls slowly (`domain_update_dirty_limit()`), so
thresholds are tried from the smallest to the largest, what else is combined with them one after
the other within each.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.results import CANDIDATE, LeftOut, Trial
from sysctl.setting import Setting, invalid_reason, replace_values, threshold_bytes

_NO_DEVICE: Mapping[str, Sequence[str]] = {}
#: Transfer settings as `Setting` has them.
Transfer = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Grid:
    """The candidates of a grid, in the order in which they are tried."""

    candidates: tuple[Setting, ...]

    def next_setting(self, done: Sequence[Trial]) -> Setting | None:
        """The first candidate that was not tried."""
        return next(iter(untried(self.candidates, done)), None)

    def remaining(self, done: Sequence[Trial]) -> int:
        """How many candidates were not tried."""
        return len(untried(self.candidates, done))


def untried(candidates: Sequence[Setting], done: Sequence[Trial]) -> list[Setting]:
    """Those that no trial of the search was of, in their order."""
    tried = {trial.setting for trial in done if trial.role == CANDIDATE}
    return [setting for setting in candidates if setting not in tried]


def build_grid(
    values: Mapping[str, Sequence[int]],
    mount_options: Sequence[str],
    present: Setting,
    dirtyable_bytes: int,
    device: Mapping[str, Sequence[str]] = _NO_DEVICE,
    transfers: Sequence[Transfer] = ((),),
) -> tuple[Grid, list[LeftOut]]:
    """All combinations of sysctl `values`, `mount_options`, knobs of the `device` and `transfers`.

    Without those that cannot be. `dirtyable_bytes` is what the ratios are a percentage of. A sysctl
    that is not in `values` stays as in `present`. Returns the grid and what was left out of it,
    with the reason.
    """
    beside = list(_beside_sysctls(mount_options, device, transfers))
    candidates: list[Setting] = []
    left_out: list[LeftOut] = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination))
        sysctls = tuple(chosen.items())
        why = invalid_reason(replace_values(present.values, chosen), dirtyable_bytes)
        if why:
            left_out.append(LeftOut(str(Setting(sysctls)), why))
        else:
            candidates += [Setting(sysctls, *others) for others in beside]

    def rank(setting: Setting) -> tuple[int, int, tuple[int, ...]]:
        complete = replace_values(present.values, setting.values)
        return (
            threshold_bytes(complete, DIRTY_PAIR, dirtyable_bytes),
            threshold_bytes(complete, BACKGROUND_PAIR, dirtyable_bytes),
            tuple(setting.values.values()),
        )

    return Grid(tuple(sorted(dict.fromkeys(candidates), key=rank))), left_out


def _beside_sysctls(
    mount_options: Sequence[str],
    device: Mapping[str, Sequence[str]],
    transfers: Sequence[Transfer],
) -> itertools.product[tuple[str | None, tuple[tuple[str, str], ...], Transfer]]:
    """Every text of mount options with every combination of the disk's knobs, every transfer."""
    texts: Sequence[str | None] = mount_options or (None,)
    knobs = (tuple(zip(device, chosen)) for chosen in itertools.product(*device.values()))
    return itertools.product(texts, list(knobs), transfers)
