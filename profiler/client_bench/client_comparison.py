"""What a comparison of pull clients measured, and what follows from it.

Times are compared within rounds only: what drifts during a run meets all clients of a round alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from profiler.pull.clients.catalogue import DEFAULT
from sysctl.evidence.comparison import MIN_GAIN
from sysctl.evidence.statistics import CONFIDENCE, Interval, confidence_of_each, ratio_interval

#: What times are divided by, where it was measured; else the default client.
YARDSTICK = "aws-sync"
_MIB, _GIB = 2**20, 2**30
T = TypeVar("T")


@dataclass(frozen=True)
class ClientRun:
    """One pull by one client.

    `time_s` is until the last object had arrived, the listing included; `start_s`, which
    the worker processes took to start before, is not part of it. CPU time is that of the workers
    and the programs that they ran, and of this process for the listing and for handing objects
    out; of the server where it runs on this host. `peak_rss_bytes` is the largest sum seen of the
    workers and programs, looked at every 100 ms. `stalled_share` is the
    share of the writing threads' time that they slept for dirty throttling, None without BPF.
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
    """The pulls of one row by one client; medians of them, None without any or if one failed.

    `problem` is why it failed: what is measured of such a client is that of lucky pulls.
    """

    client: str
    samples: tuple[ClientRun, ...]
    problem: str = field(default="", compare=False)

    @property
    def is_measured(self) -> bool:
        """Whether it has pulls, none of which failed."""
        return bool(self.samples) and not self.problem

    def _median(self, of: Callable[[ClientRun], float | None]) -> float | None:
        if not self.is_measured:
            return None
        values = [value for value in map(of, self.samples) if value is not None]
        return median(values) if values else None

    @property
    def time_s(self) -> float | None:
        """The time of a pull."""
        return self._median(lambda sample: sample.time_s)

    @property
    def mib_per_s(self) -> float | None:
        """The rate in MiB/s."""
        return self._median(lambda sample: sample.bytes / _MIB / sample.time_s)

    @property
    def objects_per_s(self) -> float | None:
        """Objects in a second."""
        return self._median(lambda sample: sample.objects / sample.time_s)

    @property
    def cpu_s_per_gib(self) -> float | None:
        """CPU time of the client for each GiB; None where there is not a byte."""
        return self._median(lambda sample: _per_gib(sample.cpu_s, sample.bytes))

    @property
    def server_cpu_s_per_gib(self) -> float | None:
        """CPU time of the server for each GiB; None where it is not on this host."""
        return self._median(lambda sample: _per_gib(sample.server_cpu_s, sample.bytes))

    @property
    def peak_rss_bytes(self) -> float | None:
        """Resident memory, of all processes of the client together."""
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
    """What a server on this host, whose cores it shares, does to each connection.

    A rate of 0 is none.
    """

    first_byte_latency_ns: int
    rate_bytes_per_s: int


@dataclass(frozen=True)
class Row:
    """One set of objects, pulled by each client.

    `workers` is by how many processes, except for programs; `shape` is that of a workload's
    server, None where the objects come from elsewhere.
    """

    name: str
    objects: int
    bytes: int
    cells: tuple[Cell, ...]
    workers: int
    shape: ServerShape | None = None

    def cell(self, client: str) -> Cell | None:
        """The cell of a client, None if it has no pull or failed."""
        found = (each for each in self.cells if each.client == client and each.is_measured)
        return next(found, None)

    @property
    def yardstick(self) -> str | None:
        """The client that times are divided by; None when neither that nor the default ran."""
        return next((name for name in (YARDSTICK, DEFAULT.name) if self.cell(name)), None)

    def ratio(
        self, client: str, base: str | None, confidence: float = CONFIDENCE
    ) -> Interval | None:
        """Time of a client by that of `base`, in pairs of a round; None without a pair."""
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
        """The clients that are compared with the default one."""
        names = (cell.client for cell in self.cells if cell.is_measured)
        return tuple(name for name in names if name != DEFAULT.name)

    @property
    def faster_than_default(self) -> tuple[tuple[str, Interval], ...]:
        """Clients that are faster for certain and by a gain worth having, the fastest first.

        That is when the gain is more than `MIN_GAIN` and the interval of the paired ratios
        excludes equality. It is wider than 95 %: of several rivals one looks faster by chance.
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
    """All rows; `context` is where, when and with what versions they were measured.

    `ended_by` is the signal's exception that ended it before its time: what was measured counts.
    `failed_sources` has a sentence for each row that could not be measured, or not to its end.
    """

    rows: tuple[Row, ...]
    context: dict[str, object]
    ended_by: BaseException | None = None
    failed_sources: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each row that failed, and for each client that could not pull one."""
        return self.failed_sources + tuple(
            f"{row.name}: {cell.client}: {cell.problem}"
            for row in self.rows
            for cell in row.cells
            if cell.problem
        )


def _per_gib(seconds: float | None, size_bytes: int) -> float | None:
    return None if seconds is None or not size_bytes else seconds / (size_bytes / _GIB)


def order_of(clients: Sequence[T], round_number: int) -> tuple[T, ...]:
    """The order of a round: each second round backwards, the pairs of rounds rotated.

    So in every two rounds each client is once before and once after any other (ABBA).
    """
    start = round_number // 2 % len(clients) if clients else 0
    rotated = (*clients[start:], *clients[:start])
    return rotated[::-1] if round_number % 2 else rotated
