"""What holds a pull back, told from the trials themselves: the CPUs, a rate, or the connections."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.units import counted, format_rate
from profiler.pull.settings import TransferSettings
from profiler.tune.space import client_at, settings_at
from profiler.tune.trial import Trial

#: From this share of busy CPUs on more of anything else gains nothing.
CPU_BOUND = 0.90
#: Rates so close to each other are one and the same.
SAME_RATE = 0.05
#: Numbers of connections must differ by this factor for a comparison of their rates.
APART = 2.0


def connections(settings: TransferSettings, object_bytes: int) -> int:
    """How many connections fetch one object at once."""
    if not settings.use_threads or object_bytes < settings.multipart_threshold:
        return 1
    parts = -(-object_bytes // settings.multipart_chunksize)
    return max(1, min(settings.max_concurrency, parts))


def name_limit(
    default: Trial, trials: Sequence[Trial], base: TransferSettings, object_bytes: int
) -> str:
    """What holds back the defaults, or that the trials do not tell it."""
    busy = sum(pull.busy_share for pull in default.pulls) / max(1, len(default.pulls))
    if busy >= CPU_BOUND:
        return f"the CPUs: {busy:.0%} of their time were used while the defaults pulled"
    client = client_at(default.point)
    complete = [
        trial
        for trial in trials
        if trial.rate_bytes_per_s is not None and client_at(trial.point) == client
    ]
    rates = [
        (connections(settings_at(trial.point, base), object_bytes), trial.rate_bytes_per_s or 0.0)
        for trial in complete
    ]
    return _aggregate(rates) or _per_connection(rates) or _UNKNOWN


_UNKNOWN = "not told by these trials"


def _aggregate(rates: Sequence[tuple[int, float]]) -> str:
    """The best rates are the same whatever the number of connections."""
    best = max((rate for _, rate in rates), default=0.0)
    near = [count for count, rate in rates if rate >= best * (1 - SAME_RATE)]
    if not near or max(near) < APART * min(near):
        return ""
    return (
        f"an aggregate rate of {format_rate(best)}: {min(near)} and {max(near)} connections "
        "reach the same"
    )


def _per_connection(rates: Sequence[tuple[int, float]]) -> str:
    """The rate of each connection is the same, however many there are."""
    each = sorted((count, rate / count) for count, rate in rates)
    if not each or each[-1][0] < APART * each[0][0]:
        return ""
    values = [rate for _, rate in each]
    if max(values) > min(values) * (1 + 2 * SAME_RATE):
        return ""
    most = counted(each[-1][0], "connection")
    return f"the rate of a connection: {format_rate(min(values))} each, with up to {most}"
