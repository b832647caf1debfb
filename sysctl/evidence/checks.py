# SPDX-License-Identifier: Apache-2.0
"""Checks of the numbers in a results file; each raises ValueError for an invalid one."""

from __future__ import annotations

LARGEST = 2**63 - 1
#: Times that a pull can take: others show damage, and calculations with them would overflow.
SHORTEST_S, LONGEST_S = 1e-6, 1e9


def whole(value: int) -> int:
    """Return a number of bytes or objects."""
    if not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise ValueError(f"invalid number of bytes or objects: {value!r}")
    return value


def whole_or_none(value: int | None) -> int | None:
    """Return the same, or None for None."""
    return None if value is None else whole(value)


def seconds(value: float) -> float:
    """Return a time that a pull can take, in s."""
    if not SHORTEST_S <= float(value) <= LONGEST_S:
        raise ValueError(f"invalid time: {value!r}")
    return float(value)


def share(value: float) -> float:
    """Return a share, 0 to 1."""
    if not 0 <= float(value) <= 1:
        raise ValueError(f"invalid share: {value!r}")
    return float(value)


def share_or_time(value: float) -> float:
    """Return a share of the writers' time, which may exceed 1, or a time in s or ns."""
    if not 0 <= float(value) < LARGEST:
        raise ValueError(f"invalid share or time: {value!r}")
    return float(value)


def words(value: object, name: str) -> tuple[str, ...]:
    """Return a list of words as a tuple. Raises TypeError for anything else."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TypeError(f"{name} is not a list of words")
    return tuple(value)
