# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison: what a file says, reduced to what can be compared."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

#: A setting or a circumstance: a text, a number, or a name of its absence.
Value = Union[str, int, float]


class Kind(str, enum.Enum):
    """What a file is about, as a noun. Only files of one kind are comparable."""

    PULL = "pull"
    PROFILE = "profile"
    SWEEP = "sweep"
    RUN = "run"
    CLIENTS = "comparison of pull clients"
    PLAN = "plan"


class Unit(str, enum.Enum):
    """The unit of a figure."""

    SECONDS = "s"
    BYTES = "bytes"
    SHARE = "share"
    COUNT = "count"
    USD = "USD"
    RATIO = "ratio"


@dataclass(frozen=True)
class Figure:
    """A measured or computed figure, once for each run of the file.

    `is_verdict` is whether the verdict of a comparison is about it. `runs` is the number of runs
    that a single value is the median of, if the file does not have their values.
    """

    name: str
    unit: Unit
    values: tuple[float, ...]
    is_verdict: bool = False
    runs: int | None = None

    @property
    def count(self) -> int:
        """The number of runs."""
        return self.runs or len(self.values)


@dataclass(frozen=True)
class Size:
    """What was pulled, or written: other sizes are not comparable. 0: unknown."""

    objects: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Subject:
    """The content of a file.

    `runs` is the number of documents in it. `scope` must be equal, too (a command or the whole
    host). `settings` are what a user chooses and can change, `circumstances` the rest. `answers`
    are outcomes in words. `is_computed` is whether the figures are computed and have no noise.
    `failures` are why it may not be representative.
    """

    file: str
    kind: Kind
    runs: int
    size: Size = Size()
    scope: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    circumstances: Mapping[str, Value] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    measured_at: str | None = None
    is_computed: bool = False
