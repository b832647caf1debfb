# SPDX-License-Identifier: Apache-2.0
"""The measurements of a comparison of pull clients, and the conclusions.

Times are compared only within rounds, because drift affects all clients of a round equally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from profiler.pull.clients.catalogue import DEFAULT
from sysctl.evidence.comparison import MIN_GAIN
from sysctl.evidence.protocol import abba
from sysctl.evidence.statistics import CONFIDENCE, Interval, confidence_of_each, ratio_interval

#: Times are given relative to this client if it was measured, else to the default client.
YARDSTICK = "aws-sync"
_MIB, _GIB = 2**20, 2**30
T = TypeVar("T")


@dataclass(frozen=True)
class ClientRun:
    """One pull by one client.

    `time_s` is the time until the last object arrived, including the listing but not `start_s`, the
    start of the worker processes. `cpu_s` is the CPU time of the workers and their programs, and of
    this process for the listing and for handing out objects. `server_cpu_s` is that of the server,
    None if it runs on another host. `peak_rss_bytes` is the largest sum over workers and programs,
    sampled every 100 ms. `stalled_share` is the share of the writing threads' time in dirty
    throttling, None without BPF.
    """

    round: int
    time_s: float
    objects: int
    bytes: int
    cpu_s: float
    peak_rss_bytes: int
    start_s: float
    server_cpu_s: float | None = None
    stalled_share: float | None = None


@dataclass(frozen=True)
class Cell:
    """The pulls of one row by one client, and their medians (None without pulls or if one failed).

    `problem` is why one failed: the remaining pulls would not be representative.
    """

    client: str
    samples: tuple[ClientRun, ...]
    problem: str = field(default="", compare=False)

    @property
    def is_measured(self) -> bool:
        """Whether there are pulls, and none failed."""
        return bool(self.samples) and not self.problem

    def _median(self, of: Callable[[ClientRun], float | None]) -> float | None:
        if not self.is_measured:
            return None
        values = [value for value in map(of, self.samples) if value is not None]
        return median(values) if values else None

    @property
    def time_s(self) -> float | None:
        """Time of a pull."""
        return self._median(lambda sample: sample.time_s)

    @property
    def mib_per_s(self) -> float | None:
        """Rate in MiB/s."""
        return self._median(lambda sample: sample.bytes / _MIB / sample.time_s)

    @property
    def objects_per_s(self) -> float | None:
        """Objects per second."""
        return self._median(lambda sample: sample.objects / sample.time_s)

    @property
    def cpu_s_per_gib(self) -> float | None:
        """CPU time of the client per GiB; None for empty objects."""
        return self._median(lambda sample: _per_gib(sample.cpu_s, sample.bytes))

    @property
    def server_cpu_s_per_gib(self) -> float | None:
        """CPU time of the server per GiB; None if it is on another host."""
        return self._median(lambda sample: _per_gib(sample.server_cpu_s, sample.bytes))

    @property
    def peak_rss_bytes(self) -> float | None:
        """Peak resident memory of all processes of the client."""
        return self._median(lambda sample: sample.peak_rss_bytes)

    @property
    def stalled_share(self) -> float | None:
        """See ClientRun."""
        return self._median(lambda sample: sample.stalled_share)

    @property
    def start_s(self) -> float | None:
        """See ClientRun."""
        return self._median(lambda sample: sample.start_s)


@dataclass(frozen=True)
class ServerShape:
    """The latency and rate that a server on this host emulates; a rate of 0 means no limit."""

    first_byte_latency_ns: int
    rate_bytes_per_s: int


@dataclass(frozen=True)
class Row:
    """One set of objects, pulled by each client.

    `workers` is the number of processes, except for programs. `shape` is that of a workload's
    server, None if the objects come from elsewhere.
    """

    name: str
    objects: int
    bytes: int
    cells: tuple[Cell, ...]
    workers: int
    shape: ServerShape | None = None

    def cell(self, client: str) -> Cell | None:
        """Return the cell of a client; None if it has no pulls or one failed."""
        found = (each for each in self.cells if each.client == client and each.is_measured)
        return next(found, None)

    @property
    def yardstick(self) -> str | None:
        """The client that times are relative to; None if it and the default did not run."""
        return next((name for name in (YARDSTICK, DEFAULT.name) if self.cell(name)), None)

    def ratio(
        self, client: str, base: str | None, confidence: float = CONFIDENCE
    ) -> Interval | None:
        """Return the ratio of a client's times to those of `base`, in pairs; None without pairs."""
        one, other = self.cell(client), self.cell(base) if base else None
        if one is None or other is None:
            return None
        seconds = {sample.round: sample.time_s for sample in other.samples}
        ratios = [
            sample.time_s / seconds[sample.round]
            for sample in one.samples
            if sample.round in seconds
        ]
        return ratio_interval(ratios, confidence) if ratios else None

    @property
    def rivals(self) -> tuple[str, ...]:
        """The clients that are compared with the default client."""
        names = (cell.client for cell in self.cells if cell.is_measured)
        return tuple(name for name in names if name != DEFAULT.name)

    @property
    def faster_than_default(self) -> tuple[tuple[str, Interval], ...]:
        """Clients that are significantly and notably faster, the fastest first.

        The gain exceeds `MIN_GAIN`, and the interval of the paired ratios excludes 1. With several
        rivals the interval is wider than 95 %, because one of them may look faster by chance.
        """
        confidence = confidence_of_each(len(self.rivals))
        compared = [(name, self.ratio(name, DEFAULT.name, confidence)) for name in self.rivals]
        certain = [
            (name, ratio)
            for name, ratio in compared
            if ratio and ratio.high < 1 and ratio.estimate * (1 + MIN_GAIN) <= 1
        ]
        return tuple(sorted(certain, key=lambda item: item[1].estimate))


@dataclass(frozen=True)
class ClientComparison:
    """All rows; `context` has the place, the time and the versions of the measurement.

    `ended_by` is the exception of a signal that ended it early; the measurements up to then count.
    `failed_sources` has a sentence for each row that was not measured completely.
    """

    rows: tuple[Row, ...]
    context: dict[str, object]
    ended_by: BaseException | None = None
    failed_sources: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each row that failed, and for each client that failed in a row."""
        return self.failed_sources + tuple(
            f"{row.name}: {cell.client}: {cell.problem}"
            for row in self.rows
            for cell in row.cells
            if cell.problem
        )


def _per_gib(seconds: float | None, size_bytes: int) -> float | None:
    return None if seconds is None or not size_bytes else seconds / (size_bytes / _GIB)


def order_of(clients: Sequence[T], round_number: int) -> tuple[T, ...]:
    """Return the order of a round: every second round is reversed, pairs of rounds are rotated.

    So in two rounds each client runs once before and once after any other (ABBA).
    """
    start = round_number // 2 % len(clients) if clients else 0
    return tuple(abba((*clients[start:], *clients[:start]), round_number))
