"""What a pull tells while it runs and at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profiler.pull.errors import Explanation


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    bytes: int
    objects: int
    total_bytes: int
    total_objects: int
    elapsed_s: float


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Failure:
    """An object that did not arrive, or is not what S3 has; both printable."""

    key: str
    reason: str


@dataclass(frozen=True)
class RequestTimes:
    """The requests of a run, and the seconds of all connections together that they took.

    `first_byte_s` until S3 began to answer, `body_s` to read the bodies,
    `write_s` between two readings, where the block read is written or waits until it can be.
    `repeated_s` are those of attempts that had to be made again, with the pauses after them:
    of these `slow_downs` because S3 asked to slow down.
    """

    count: int
    first_byte_s: float
    body_s: float
    write_s: float = 0.0
    repeated_s: float = 0.0
    slow_downs: int = 0

    @property
    def busy_s(self) -> float:
        """All of them: the time that connections were in use."""
        waited = self.first_byte_s + self.repeated_s
        return waited + self.body_s + self.write_s


@dataclass(frozen=True)
class PullResult:
    """What a run fetched; the files still have the names of their parts.

    `return_s` is from the first object handed out to the last one fetched, `arrived` the
    numbers in the plan of the objects fetched, `bytes` their size, `sizes_bytes` that of each.
    `answers` is what S3 said of objects together with their bytes, by number, in HeadObject's
    names. `requests` is None when the client tells none, `cpu_s` the workers' CPU time,
    None when one was replaced, and `host_busy_share` (0 to 1) the part of all CPUs' time that
    was not idle, None for a program. `ended_by` is what kept the rest from being asked for
    (credentials that expired, a network that went): these objects are among the failures.
    `incomplete` is why a program did not fetch all: what it left may have its size and be damaged.
    """

    started_monotonic_ns: int
    return_s: float
    bytes: int
    arrived: tuple[int, ...]
    failures: tuple[Failure, ...]
    answers: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    requests: RequestTimes | None = None
    cpu_s: float | None = None
    ended_by: Explanation | None = None
    sizes_bytes: tuple[int, ...] = ()
    host_busy_share: float | None = None
    incomplete: str = ""

    @property
    def objects(self) -> int:
        """The number of objects fetched."""
        return len(self.arrived)


@dataclass(frozen=True)
class Verification:
    """How many objects were verified by which method, and those that are not what S3 has.

    What it cost: `elapsed_s` from start to end, `cpu_s` of all workers, `bytes` compared.
    """

    count_by_method: Mapping[str, int]
    failures: tuple[Failure, ...]
    elapsed_s: float
    cpu_s: float = 0.0
    bytes: int = 0
