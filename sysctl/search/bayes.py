# SPDX-License-Identifier: Apache-2.0
"""Bayesian search over candidates; the model is rebuilt from the runs each time.

Each knob is an axis with the ranks of its values, so a model knows which values are neighbours. The
model comes from a library: a function from known candidates to proposals, in a file of its own
(`tpe.py`, `bore.py`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sysctl.evidence.results import CANDIDATE
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.search import untried
from sysctl.search.finalists import cheapest_and_fastest

MAX_TRIALS = 12
#: A model may propose a tried or an invalid setting; it is asked again this often.
_MAX_ASKED = 64
#: Without this factor, searches with neighbouring seeds would draw the same, one trial later.
_SEEDS_APART = 1_000_003
_SEEDS = 2**32  # NumPy's range

#: The rank of a candidate's value on each axis, by the knob's name.
Ranks = Mapping[str, int]


@dataclass(frozen=True)
class Known:
    """What a model knows about one candidate.

    `return_s` is its time; None if it was stopped after `stopped_s`, or is still running (both
    None).
    """

    ranks: Ranks
    return_s: float | None = None
    stopped_s: float | None = None


#: The number of values on each axis, the known candidates and a seed → an endless iterator.
Propose = Callable[[Mapping[str, int], Sequence[Known], int], Iterator[Ranks]]


@dataclass(frozen=True)
class BayesSearch:
    """Tries at most `max_trials` candidates; the same runs and seed give the same proposal."""

    candidates: tuple[Setting, ...]
    propose: Propose
    seed: int = 0
    max_trials: int = MAX_TRIALS

    def next_setting(self, runs: Runs, pending: Sequence[Setting] = ()) -> Setting | None:
        """See `Strategy`: the setting that the model expects to be the fastest."""
        not_tried = untried(self.candidates, runs.trials)
        begun = [each for each in not_tried if each in pending]
        left = [each for each in not_tried if each not in pending]
        if not left or self.remaining(runs) <= len(begun):
            return None
        axes = _axes(self.candidates)
        by_ranks = {_key(_ranks(setting, axes), axes): setting for setting in left}
        known = [*self._tried(runs, axes), *(Known(_ranks(each, axes)) for each in begun)]
        sizes = {name: len(values) for name, values in axes.items()}
        seed = (self.seed * _SEEDS_APART + len(known)) % _SEEDS
        for ranks in itertools.islice(self.propose(sizes, known, seed), _MAX_ASKED):
            setting = by_ranks.get(_key(ranks, axes))
            if setting is not None:
                return setting
        return random.Random(seed).choice(left)  # noqa: S311

    def remaining(self, runs: Runs) -> int:
        """See `Strategy`."""
        left = len(untried(self.candidates, runs.trials))
        tried = len(self.candidates) - left
        return max(0, min(self.max_trials - tried, left))

    def finalists(self, runs: Runs) -> Sequence[Setting]:
        """See `Strategy`."""
        return cheapest_and_fastest(runs)

    def _tried(self, runs: Runs, axes: Mapping[str, Sequence[int]]) -> list[Known]:
        """Return the candidates that ended or were stopped; failed ones tell nothing."""
        candidates = {*self.candidates}
        return [
            Known(
                _ranks(trial.setting, axes),
                trial.valid.return_s if trial.valid else None,
                trial.stopped_s,
            )
            for trial in runs.of_role(CANDIDATE)
            if trial.setting in candidates and (trial.valid or trial.stopped_s is not None)
        ]


def _named(setting: Setting) -> dict[str, int]:
    """Return the numeric values of a setting by knob."""
    return {**setting.values, **dict(setting.transfer)}


def _axes(candidates: Sequence[Setting]) -> dict[str, tuple[int, ...]]:
    """Return the sorted values of each knob in which candidates differ."""
    named = [_named(setting) for setting in candidates]
    names = dict.fromkeys(name for values in named for name in values)
    axes = {name: tuple(sorted({v[name] for v in named if name in v})) for name in names}
    return {name: values for name, values in axes.items() if len(values) > 1}


def _ranks(setting: Setting, axes: Mapping[str, Sequence[int]]) -> Ranks:
    named = _named(setting)
    return {name: values.index(named[name]) for name, values in axes.items()}


def _key(ranks: Ranks, axes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    return tuple(ranks[name] for name in axes)
