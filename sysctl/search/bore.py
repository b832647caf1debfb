# SPDX-License-Identifier: Apache-2.0
"""Proposals of Syne Tune's BORE (AWS's library, with the interface of version 0.16).

BORE needs only the package (BOTorch would need PyTorch). Syne Tune is an extra (`syne-tune`) and
imported late; it declares Python 3.8 but needs 3.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from contracts.shared.errors import RequirementError
from sysctl.search.bayes import Known, Ranks

_METRIC = "return_s"


def propose(sizes: Mapping[str, int], known: Sequence[Known], seed: int) -> Iterator[Ranks]:
    """See `sysctl.search.bayes.Propose`. A stopped trial counts with the time it had taken.

    A running trial counts as the slowest one, so that its neighbours are avoided. Raises
    RequirementError if the installed Syne Tune is incompatible.
    """
    import numpy

    try:
        from syne_tune.backend.trial_status import Trial
        from syne_tune.config_space import randint
        from syne_tune.optimizer.baselines import BORE
        from syne_tune.optimizer.schedulers.ask_tell_scheduler import AskTellScheduler
    except (ImportError, TypeError) as error:  # TypeError: its annotations on Python 3.9
        raise RequirementError(
            f"the installed Syne Tune cannot be used: {error}",
            "use Python 3.10 or newer and syne-tune 0.16, or --strategy bayes",
        ) from error
    numpy.random.seed(seed)  # BORE also uses the global state
    space = {name: randint(0, size - 1) for name, size in sizes.items()}
    scheduler = AskTellScheduler(BORE(space, metric=_METRIC, random_seed=seed))
    times_s = [time_s for each in known for time_s in (each.return_s, each.stopped_s) if time_s]
    slowest_s = max(times_s, default=0.0)
    for number, each in enumerate(known):
        took_s = each.return_s or each.stopped_s or slowest_s
        scheduler.tell(Trial(number, dict(each.ranks), datetime.now()), {_METRIC: took_s})
    while True:
        yield {name: int(rank) for name, rank in scheduler.ask().config.items()}
