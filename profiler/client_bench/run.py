"""The order of the pulls: rows one after the other, in each the clients in turns.

Each row begins with a pull by every client that does not count: it is verified by checksums, and
whatever is read for the first time is in memory after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.client_bench.client_comparison import (
    Cell,
    ClientComparison,
    ClientRun,
    Row,
    ServerShape,
    order_of,
)
from profiler.pull.clients.interface import Client
from profiler.pull.errors import PullError

#: An even number: what drifts meets all clients alike in each two rounds only.
DEFAULT_PULLS = 4


class RowBench(Protocol):
    """What pulls one row."""

    @property
    def objects(self) -> int:
        """How many objects the row has."""

    @property
    def bytes(self) -> int:
        """The size of all of them."""

    @property
    def worker_count(self) -> int:
        """How many processes pull, except for programs."""

    @property
    def shape(self) -> ServerShape | None:
        """That of the server, where it is a workload's on this host."""

    def pull(self, client: Client, *, with_checksum: bool) -> ClientRun:
        """One pull, compared by size at least. Raises PullError."""


class Source(Protocol):
    """Where the objects of a row come from."""

    @property
    def name(self) -> str:
        """The row's name."""

    def opened(self) -> AbstractContextManager[RowBench]:
        """The bench, for as long as the source is there. Raises WritewiseError."""


#: Gets the row's name, the client and its pull; round 0 is the one that does not count.
OnPull = Callable[[str, str, ClientRun], None]


@dataclass
class _Measured:
    """A row as it grows."""

    name: str
    bench: RowBench
    clients: Sequence[Client]
    on_pull: OnPull
    samples: dict[str, list[ClientRun]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def run(self, pulls: int) -> None:
        for number in range(pulls + 1):
            for client in order_of(self.clients, max(0, number - 1)):  # those that count: ABBA
                if client.name not in self.problems:
                    self._pull(client, number)

    def _pull(self, client: Client, number: int) -> None:
        try:
            sample = self.bench.pull(client, with_checksum=number == 0)
        except PullError as error:  # the other clients go on; what concerns all fails for each
            self.problems[client.name] = error.message
            return
        sample = replace(sample, round=number)
        self.on_pull(self.name, client.name, sample)
        if number:
            self.samples.setdefault(client.name, []).append(sample)

    def row(self) -> Row:
        cells = (
            Cell(name, tuple(self.samples.get(name, ())), self.problems.get(name, ""))
            for name in (client.name for client in self.clients)
        )
        bench = self.bench
        return Row(
            *(self.name, bench.objects, bench.bytes, tuple(cells)),
            workers=bench.worker_count,
            shape=bench.shape,
        )


def compare(
    sources: Sequence[Source],
    clients: Sequence[Client],
    on_pull: OnPull,
    pulls: int = DEFAULT_PULLS,
) -> ClientComparison:
    """Pull every row `pulls` times with each client, and once before that does not count.

    Ctrl-C and SIGTERM end it with what was measured until then, and a source that fails ends its
    row alone. Raises the first one's WritewiseError when none could be opened.
    """
    measured: list[_Measured] = []
    failed: list[tuple[str, WritewiseError]] = []
    ended_by: BaseException | None = None
    try:
        for source in sources:
            try:
                with source.opened() as bench:
                    measured.append(_Measured(source.name, bench, clients, on_pull))
                    measured[-1].run(pulls)
            except WritewiseError as error:
                failed.append((source.name, error))
    except (KeyboardInterrupt, SystemExit) as signal:
        ended_by = signal
    if failed and not measured and ended_by is None:
        raise failed[0][1]
    sentences = tuple(printable(f"{name}: {error.message}") for name, error in failed)
    return ClientComparison(tuple(each.row() for each in measured), {}, ended_by, sentences)
