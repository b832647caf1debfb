"""What holds a pull back, told from the trials themselves: the CPUs, a rate, or the connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.shared.units import counted, format_rate
from profiler.pull.settings import TransferSettings
from profiler.tune.space import client_at, settings_at
from profiler.tune.trial import Trial

#: From this share of busy CPUs on more of anything else gains nothing.
CPU_BOUND = 0.90
#: From this share of a core on a worker is held back by it: it is one Python interpreter.
CORE_BOUND = 0.85
#: Rates so close to each other are one and the same.
SAME_RATE = 0.05
#: Numbers of connections must differ by this factor for a comparison of their rates.
APART = 2.0


@dataclass(frozen=True)
class Load:
    """What is pulled: how many `objects` of each size in bytes, by how many worker processes."""

    objects: Mapping[int, int]
    workers: int


def connections(settings: TransferSettings, load: Load) -> int:
    """By how many connections s3transfer's manager fetches these objects at once."""
    if not settings.use_threads:
        return max(1, min(sum(load.objects.values()), load.workers))
    parts = {
        size: 1 if size < settings.multipart_threshold else -(-size // settings.multipart_chunksize)
        for size in load.objects
    }
    requests = sum(parts[size] * count for size, count in load.objects.items())
    at_once = settings.objects_at_once * max(parts.values(), default=0)
    return max(1, min(requests, load.workers * min(settings.max_concurrency, at_once)))


def name_limit(default: Trial, trials: Sequence[Trial], base: TransferSettings, load: Load) -> str:
    """What holds back the defaults, or that the trials do not tell it."""
    client, rate = client_at(default.point), default.rate_bytes_per_s
    if rate is None:
        return _UNKNOWN
    rates = [
        (connections(settings_at(trial.point, base), load), trial.rate_bytes_per_s)
        for trial in trials
        if trial.rate_bytes_per_s is not None and client_at(trial.point) == client
    ]
    told = _cpus(default, load.workers) or _aggregate(rate, rates) or _per_connection(rates)
    return told or _UNKNOWN


_UNKNOWN = "not told by these trials"


def _cpus(default: Trial, workers: int) -> str:
    """All CPUs of the host are busy, or the workers, of which none can use more than a core."""
    busy = sum(pull.busy_share for pull in default.pulls) / len(default.pulls)
    if busy >= CPU_BOUND:
        return f"the CPUs: {busy:.0%} of their time were used while the defaults pulled"
    seconds = sum(pull.seconds for pull in default.pulls)
    core = sum(pull.cpu_s for pull in default.pulls) / (seconds * workers)
    if core >= CORE_BOUND:
        return (
            f"the CPU: a worker is one Python interpreter, and used {core:.0%} of a core while the "
            "defaults pulled"
        )
    return ""


def _aggregate(default_rate: float, rates: Sequence[tuple[int, float]]) -> str:
    """The best rates, and the defaults' among them, are the same with any number of connections."""
    lowest = max(rate for _, rate in rates) * (1 - SAME_RATE)
    near = [count for count, rate in rates if rate >= lowest]
    if default_rate < lowest or max(near) < APART * min(near):
        return ""
    best = max(rate for _, rate in rates)
    return (
        f"an aggregate rate of {format_rate(best)}: {min(near)} and {max(near)} connections "
        "reach the same"
    )


def _per_connection(rates: Sequence[tuple[int, float]]) -> str:
    """The rate of each connection is the same, however many there are."""
    each = sorted((count, rate / count) for count, rate in rates)
    if each[-1][0] < APART * each[0][0]:
        return ""
    values = [rate for _, rate in each]
    if max(values) > min(values) * (1 + 2 * SAME_RATE):
        return ""
    most = counted(each[-1][0], "connection")
    return f"the rate of a connection: {format_rate(min(values))} each, with up to {most}"
