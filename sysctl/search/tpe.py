"""What Optuna's TPE proposes. Optuna is an extra (`bayes`), imported late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sysctl.search.bayes import Known, Ranks

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

#: Trials before TPE has a say; its own default of 10 is a whole sweep here.
STARTUP_TRIALS = 4


def propose(sizes: Mapping[str, int], known: Sequence[Known], seed: int) -> Iterator[Ranks]:
    """See `sysctl.search.bayes.Propose`. What is under way counts as bad, to be kept away from."""
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
    study.add_trials([_told(each, axes) for each in known])
    while True:
        yield study.ask(axes).params


def _told(known: Known, axes: Mapping[str, Any]) -> FrozenTrial:
    """A trial as Optuna knows it: one stopped early was worse than all that ended."""
    from optuna.trial import TrialState, create_trial

    where: dict[str, Any] = {"params": dict(known.ranks), "distributions": dict(axes)}
    if known.return_s is not None:
        return create_trial(value=known.return_s, **where)
    if known.stopped_s is not None:
        reported = {0: known.stopped_s}
        return create_trial(state=TrialState.PRUNED, intermediate_values=reported, **where)
    return create_trial(state=TrialState.RUNNING, **where)
