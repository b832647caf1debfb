# SPDX-License-Identifier: Apache-2.0
"""Proposals of Optuna's TPE. Optuna is an extra (`bayes`) and imported late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sysctl.search.bayes import Known, Ranks

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

#: Random trials before TPE begins; its default of 10 would be a whole sweep.
STARTUP_TRIALS = 4


def propose(sizes: Mapping[str, int], known: Sequence[Known], seed: int) -> Iterator[Ranks]:
    """See `sysctl.search.bayes.Propose`. Running trials count as bad, so neighbours are avoided."""
    import optuna
    from optuna.distributions import BaseDistribution, IntDistribution

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    axes: dict[str, BaseDistribution] = {
        name: IntDistribution(0, size - 1) for name, size in sizes.items()
    }
    sampler = optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=STARTUP_TRIALS, constant_liar=True
    )
    study = optuna.create_study(sampler=sampler)
    study.add_trials([_optuna_trial(each, axes) for each in known])
    while True:
        yield study.ask(axes).params


def _optuna_trial(known: Known, axes: Mapping[str, Any]) -> FrozenTrial:
    """Return a trial for Optuna; a stopped one (pruned) is worse than all that ended."""
    from optuna.trial import TrialState, create_trial

    where: dict[str, Any] = {"params": dict(known.ranks), "distributions": dict(axes)}
    if known.return_s is not None:
        return create_trial(value=known.return_s, **where)
    if known.stopped_s is not None:
        reported = {0: known.stopped_s}
        return create_trial(state=TrialState.PRUNED, intermediate_values=reported, **where)
    return create_trial(state=TrialState.RUNNING, **where)
