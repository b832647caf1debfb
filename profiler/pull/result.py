# SPDX-License-Identifier: Apache-2.0
"""What a pull reports while it runs and at its end."""

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
    """An object that did not arrive or differs from what S3 has; key and reason are printable."""

    key: str
    reason: str


@dataclass(frozen=True)
class RequestTimes:
    """The number of requests of a run, and the time they took, summed over all connections.

    `first_byte_s` is the time until S3 began to answer, `body_s` the time to read bodies, `write_s`
    the time between reads, in which a block is written or waits to be. `repeated_s` is the time of
    repeated attempts with their pauses; `slow_downs` of these were answered with SlowDown.
    """

    count: int
    first_byte_s: float
    body_s: float
    write_s: float = 0.0
    repeated_s: float = 0.0
    slow_downs: int = 0

    @property
    def busy_s(self) -> float:
        """The time that connections were in use."""
        waited = self.first_byte_s + self.repeated_s
        return waited + self.body_s + self.write_s


@dataclass(frozen=True)
class PullResult:
    """What a run fetched; the files still have the names of part files.

    `return_s` is the time from the first object handed out to the last one fetched. `arrived` holds
    the plan numbers of the fetched objects, `bytes` their total size, `sizes_bytes` the size of
    each. `answers` maps numbers to what S3 sent with an object's bytes, in HeadObject's names.
    `requests` is None if the client does not report them. `cpu_s` is the workers' CPU time, None if
    one was replaced. `host_busy_share` (0 to 1) is the share of all CPUs' time that was not idle,
    None for a program. `ended_by` is why the remaining objects were not requested (expired
    credentials, a lost network); they are among the failures. `incomplete` is why a program did not
    fetch everything: its files may have the right size and be damaged.
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
    """The number of objects verified by each method, and those that differ from what S3 has.

    `elapsed_s` is its duration, `cpu_s` the CPU time of all workers, `bytes` the amount compared.
    """

    count_by_method: Mapping[str, int]
    failures: tuple[Failure, ...]
    elapsed_s: float
    cpu_s: float = 0.0
    bytes: int = 0
