# SPDX-License-Identifier: Apache-2.0
"""The order of the pulls: one row after the other, and in each the clients in turns.

Each row begins with a pull by every client that does not count. It is verified by checksums, and
after it everything that is read from the source is in memory.
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

#: An even number, because drift affects all clients equally only over two rounds.
DEFAULT_PULLS = 4


class RowBench(Protocol):
    """Pulls one row."""

    @property
    def objects(self) -> int:
        """Number of objects in the row."""

    @property
    def bytes(self) -> int:
        """Total size of the objects."""

    @property
    def worker_count(self) -> int:
        """Number of processes that pull, except for programs."""

    @property
    def shape(self) -> ServerShape | None:
        """Shape of the workload's server on this host; None for another source."""

    def pull(self, client: Client, *, with_checksum: bool) -> ClientRun:
        """Pull once, verified at least by size. Raises PullError."""


class Source(Protocol):
    """The source of a row's objects."""

    @property
    def name(self) -> str:
        """Name of the row."""

    def opened(self) -> AbstractContextManager[RowBench]:
        """Yield the bench, while the source exists. Raises WritewiseError."""


#: Called with the row's name, the client and its pull; round 0 does not count.
OnPull = Callable[[str, str, ClientRun], None]


@dataclass
class _Measured:
    """A row while it is measured."""

    name: str
    bench: RowBench
    clients: Sequence[Client]
    on_pull: OnPull
    samples: dict[str, list[ClientRun]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def run(self, pulls: int) -> None:
        for number in range(pulls + 1):
            for client in order_of(self.clients, max(0, number - 1)):  # ABBA from round 1 on
                if client.name not in self.problems:
                    self._pull(client, number)

    def _pull(self, client: Client, number: int) -> None:
        try:
            sample = self.bench.pull(client, with_checksum=number == 0)
        except PullError as error:  # the other clients continue
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
    """Pull every row `pulls` times with each client, after one pull that does not count.

    Ctrl-C and SIGTERM end it with the measurements up to then. A source that fails ends only its
    row. Raises the first source's WritewiseError if none could be opened.
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
