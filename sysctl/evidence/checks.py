"""Numbers in a results file: each is what it should be, or a ValueError says what is wrong."""

from __future__ import annotations

LARGEST = 2**63 - 1
#: Times that a pull can take: others are damage, and would overflow what is calculated from them.
SHORTEST_S, LONGEST_S = 1e-6, 1e9


def whole(value: int) -> int:
    """Return a number of bytes or objects."""
    if not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise ValueError(f"{value!r} is no number of bytes or objects")
    return value


def whole_or_none(value: int | None) -> int | None:
    """Return the same; None stays."""
    return None if value is None else whole(value)


def seconds(value: float) -> float:
    """Return a time that a pull can take, in s."""
    if not SHORTEST_S <= float(value) <= LONGEST_S:
        raise ValueError(f"{value!r} is no time")
    return float(value)


def share(value: float) -> float:
    """Return a part, 0 to 1."""
    if not 0 <= float(value) <= 1:
        raise ValueError(f"{value!r} is no share")
    return float(value)


def share_or_time(value: float) -> float:
    """Return a share of the writers' time, which may exceed 1, or a time in s or ns."""
    if not 0 <= float(value) < LARGEST:
        raise ValueError(f"{value!r} is neither a share nor a time")
    return float(value)


def words(value: object, name: str) -> tuple[str, ...]:
    """Return a list of words as a tuple. Raises TypeError for anything else."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise TypeError(f"{name} is not a list of words")
    return tuple(value)
