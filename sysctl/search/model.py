"""Model search: predict every candidate, try the best, correct the prediction, try what is next.

The model (`sysctl.prediction`) is fitted to the present runs and ranks the candidates; each one
measured then corrects the prediction of those near it. What is tried is the cheapest of those
within `NEAR_BEST` of the fastest, by the prices that the advice goes by (`sysctl/price.py`), until
that one has been measured; then its neighbours that may be as fast. When those turn out slower than
was promised, the largest thresholds are tried; also, in a last trial, where writers waited under
all that was tried.

What would break the limits of the sweep is not proposed, as far as the prediction tells; as that
may miss, the best with room to the limits is tried, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contracts.errors import UsageError
from sysctl.evidence import NEGLIGIBLE_SHARE
from sysctl.prediction import Model, fit
from sysctl.price import cheapest, limits_of
from sysctl.results import CANDIDATE, Results, Trial
from sysctl.search.affordable import affordable, expected_price
from sysctl.search.grid import untried
from sysctl.setting import Setting, replace_values
from sysctl.writeback import Thresholds, effective_thresholds

#: The last of them is for the largest thresholds alone.
MAX_TRIALS = 5
#: Times this near to the fastest are as good as it: the cheapest of them is tried.
NEAR_BEST = 0.02
#: A neighbour is tried where its time is expected this near to the fastest.
WORTH_TRYING = 0.10
#: Where the fastest measured is this far above the fastest predicted, the model is doubted.
DOUBTED = 0.15


@dataclass(frozen=True)
class ModelSearch:
    """At most `max_trials` of the candidates; `context` is that of the results."""

    candidates: tuple[Setting, ...]
    context: Mapping[str, Any] = field(repr=False)
    max_trials: int = MAX_TRIALS

    def next_setting(self, done: Sequence[Trial]) -> Setting | None:
        """The setting to measure next, or None when nothing better is to be expected."""
        left = untried(self.candidates, done)
        tried = len(self.candidates) - len(left)
        if not left or tried >= self.max_trials:
            return None
        known = Results(dict(self.context), {}, trials=list(done))
        try:
            model = fit(known)
        except UsageError:
            return self._unguided(tried, left)
        ranking = _Ranking(self.candidates, model, known)
        chosen = ranking.next_setting(left) if tried < self.max_trials - 1 else None
        return chosen or ranking.last_resort(left)

    def remaining(self, done: Sequence[Trial]) -> int:
        """How many candidates are still to come at most."""
        if self.next_setting(done) is None:
            return 0
        left = len(untried(self.candidates, done))
        return min(left, self.max_trials - (len(self.candidates) - left))

    def _unguided(self, tried: int, left: Sequence[Setting]) -> Setting:
        """Without a model: spread evenly over the candidates, from the last one down."""
        last = len(self.candidates) - 1
        wanted = last - last * tried // max(1, self.max_trials - 1)
        return min(left, key=lambda setting: abs(self.candidates.index(setting) - wanted))


class _Ranking:
    """The candidates by their predicted times, corrected by what was measured so far."""

    def __init__(self, candidates: Sequence[Setting], model: Model, results: Results) -> None:
        self._model = model
        self._places = _places(candidates)
        self._measured = measured = _measured_s(results.trials, model)
        self._errors = [
            (self._freerun_bytes(setting), math.log(time_s / self._predicted_s(setting)))
            for setting, time_s in measured.items()
        ]
        limits = limits_of(results)
        self._with_room = affordable(candidates, results, model, limits.with_room)
        allowed = affordable(candidates, results, model, limits) or self._cheapest(candidates)
        self._times_s = {s: measured.get(s) or self._corrected_s(s) for s in allowed}
        self._largest = max(self._times_s, key=self._ceilings)
        tried = [t for t in results.of_role(CANDIDATE) if t.setting in self._times_s]
        self._stall_shares = [t.valid.stall_share for t in tried if t.valid]

    def next_setting(self, left: Sequence[Setting]) -> Setting | None:
        """The cheapest of the fastest, or a neighbour of it that may be as fast.

        Once the model is doubted: what lets writers wait the least, which needs no model.
        """
        if self._largest in left and self._is_doubted(left):
            return self._largest
        chosen = self._best_of(list(self._times_s))
        for best in (chosen, self._best_of(self._with_room) if self._with_room else chosen):
            if best in left:
                return best
        best_s = min(self._times_s.values())
        worth = set(self._within(best_s * (1 + WORTH_TRYING), self._times_s))
        near = [s for s in left if s in worth and self._are_neighbours(s, chosen)]
        return min(near, key=lambda setting: self._times_s[setting], default=None)

    def last_resort(self, left: Sequence[Setting]) -> Setting | None:
        """What lets writers wait the least, where they did wait under all that was tried."""
        waited = self._stall_shares and min(self._stall_shares) >= NEGLIGIBLE_SHARE
        return self._largest if waited and self._largest in left else None

    def _best_of(self, settings: Sequence[Setting]) -> Setting:
        best_s = min(self._times_s[setting] for setting in settings)
        return self._cheapest(self._within(best_s * (1 + NEAR_BEST), settings))[0]

    def _cheapest(self, settings: Sequence[Setting]) -> list[Setting]:
        return cheapest({setting: expected_price(self._model, setting) for setting in settings})

    def _is_doubted(self, left: Sequence[Setting]) -> bool:
        """Whether none of those tried is nearly as fast as the fastest was said to be."""
        tried = set(self._measured).intersection(self._times_s).difference(left)
        promised_s = min(map(self._predicted_s, self._times_s))
        fastest_s = min((self._measured[setting] for setting in tried), default=promised_s)
        return fastest_s > (1 + DOUBTED) * promised_s

    def _within(self, time_s: float, settings: Iterable[Setting]) -> list[Setting]:
        return [setting for setting in settings if self._times_s[setting] <= time_s]

    def _thresholds(self, setting: Setting) -> Thresholds:
        values = replace_values(self._model.present, setting.values)
        return effective_thresholds(values, self._model.dirtyable_bytes)

    def _freerun_bytes(self, setting: Setting) -> int:
        return max(1, self._thresholds(setting).freerun_bytes)

    def _ceilings(self, setting: Setting) -> tuple[int, int]:
        at = self._thresholds(setting)
        return at.dirty_bytes, at.background_bytes

    def _predicted_s(self, setting: Setting) -> float:
        return self._model.predict(setting.values).return_s

    def _corrected_s(self, setting: Setting) -> float:
        """As predicted, times by how much that was wrong of the settings measured nearby."""
        freerun_bytes = self._freerun_bytes(setting)
        weights = [1 / (math.log(freerun_bytes / at) ** 2 + 0.01) for at, _ in self._errors]
        total = sum(weight * error for weight, (_, error) in zip(weights, self._errors))
        return self._predicted_s(setting) * math.exp(total / (sum(weights) or 1.0))

    def _are_neighbours(self, one: Setting, other: Setting) -> bool:
        """Whether they differ in one knob only, and by one step of the values it has."""
        steps = [abs(a - b) for a, b in zip(self._places[one], self._places[other])]
        return sum(steps) == 1


def _measured_s(done: Sequence[Trial], model: Model) -> dict[Setting, float]:
    """Median time to return of each setting; a trial that was stopped took at least that long."""
    times_s: dict[Setting, list[float]] = {}
    for trial in done:
        if trial.valid:
            times_s.setdefault(trial.setting, []).append(trial.valid.return_s)
        elif trial.stopped_s is not None:
            predicted_s = model.predict(trial.setting.values).return_s
            times_s.setdefault(trial.setting, []).append(max(trial.stopped_s, predicted_s))
    return {setting: statistics.median(times) for setting, times in times_s.items()}


def _places(candidates: Sequence[Setting]) -> dict[Setting, tuple[int, ...]]:
    """For each candidate, which of the values of each knob it has: the first, the second, …"""
    knobs = [_knobs(setting) for setting in candidates]
    names = dict.fromkeys(name for row in knobs for name in row)
    axes = [(name, sorted({row.get(name, "") for row in knobs}, key=_in_order)) for name in names]
    places = (tuple(axis.index(row.get(name, "")) for name, axis in axes) for row in knobs)
    return dict(zip(candidates, places))


def _knobs(setting: Setting) -> dict[str, int | str]:
    mount = {} if setting.mount_options is None else {"mount": setting.mount_options}
    return {**setting.values, **dict(setting.device), **mount, **dict(setting.transfer)}


def _in_order(value: int | str) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (-1, value)
