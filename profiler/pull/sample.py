# SPDX-License-Identifier: Apache-2.0
"""A sample of a large prefix that keeps the distribution of object sizes.

The objects are sorted by size and key and divided into strata of equal numbers, and the middle
object of each is chosen. So the sample depends only on the listing, and its quantiles are those of
all sizes, within one stratum. There are as many strata as the bytes allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contracts.shared.errors import UsageError
from contracts.shared.units import format_size
from profiler.pull.clients.interface import Client
from profiler.pull.source import PullPlan, RemoteObject


def sampled(plan: PullPlan, max_bytes: int | None) -> PullPlan:
    """Return a plan of at most `max_bytes`; the same plan if it is not larger, or for None.

    Raises UsageError if not even the object of median size fits.
    """
    if max_bytes is None or plan.bytes <= max_bytes:
        return plan
    chosen = choose(plan.objects, max_bytes)
    if not chosen:
        middle = _middles(_by_size(plan.objects), 1)[0]
        raise UsageError(
            f"--max-bytes {format_size(max_bytes)} is smaller than the object of median size "
            f"({format_size(middle.size_bytes)})",
            "pass a size that several objects fit into",
        )
    return replace(plan, objects=chosen, whole_objects=len(plan.objects), whole_bytes=plan.bytes)


def check_sampling(client: Client, max_bytes: int | None) -> None:
    """Raise UsageError for a client that fetches a whole prefix by itself."""
    if max_bytes is not None and client.takes_prefixes:
        raise UsageError(
            f"--max-bytes cannot be used with {client.name}, which fetches the whole prefix",
            "use a client that fetches single objects: see `writewise clients`",
        )


def choose(objects: Sequence[RemoteObject], max_bytes: int) -> tuple[RemoteObject, ...]:
    """Return the sample in the order of the listing; () for a limit that is too small."""
    ordered = _by_size(objects)
    fits, above = 0, len(ordered) + 1
    while above - fits > 1:
        strata = (fits + above) // 2
        if sum(each.size_bytes for each in _middles(ordered, strata)) <= max_bytes:
            fits = strata
        else:
            above = strata
    taken = {each.key for each in _middles(ordered, fits)}
    return tuple(each for each in objects if each.key in taken)


def _by_size(objects: Sequence[RemoteObject]) -> list[RemoteObject]:
    return sorted(objects, key=lambda each: (each.size_bytes, each.key))


def _middles(ordered: Sequence[RemoteObject], strata: int) -> list[RemoteObject]:
    """Return the middle object of each stratum; there are at most as many strata as objects."""
    return [ordered[(2 * at + 1) * len(ordered) // (2 * strata)] for at in range(strata)]
