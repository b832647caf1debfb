# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes that can be killed and cut off, and what must hold in the end."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger
from sysctl.fleet.claims import ClaimState, Record
from sysctl.fleet.spec import StudySpec
from sysctl.host.sysctls import read_writeback
from tests.places import REPOSITORY
from tests.postgresql.node import GRACE_S, HEARTBEAT_S, PRESENT, WAITS, make_host
from tests.postgresql.server import Server


class Fleet:
    """A study, its nodes as processes, and their hosts as directories.

    `kinds` has the kind of each node (`tests.postgresql.node.KINDS`) that has not the usual one.
    The study is made, unless it `is_made`.
    """

    def __init__(
        self,
        server: Server,
        spec: StudySpec,
        folder: Path,
        seconds: float,
        kinds: Mapping[str, str] | None = None,
        is_made: bool = False,
    ) -> None:
        self.server, self.spec, self.folder, self.seconds = server, spec, folder, seconds
        self.kinds = kinds or {}
        self.processes: dict[str, subprocess.Popen] = {}
        (folder / "store").mkdir(parents=True)
        self.ledger = Ledger(parse_address(server.url()), spec.name, HEARTBEAT_S, GRACE_S)
        if not is_made:
            self.ledger.create(self.spec)

    def words(self, node: str, host: Path | None) -> list[str]:
        """Return the arguments of the node's program."""
        words = [self.server.url(host=host), self.spec.name, node, str(self.folder / node)]
        return [*words, str(self.seconds), self.kinds.get(node, WAITS)]

    def start(self, node: str, host: Path | None = None) -> None:
        with (self.folder / f"{node}.log").open("a") as log:
            self.processes[node] = subprocess.Popen(
                [sys.executable, "-m", "tests.postgresql.node", *self.words(node, host)],
                cwd=REPOSITORY,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, node: str) -> None:
        self.processes[node].send_signal(signal.SIGKILL)
        self.processes[node].wait()

    def is_running(self, node: str) -> bool:
        return self.processes[node].poll() is None

    def wait(self, within_s: float = 120) -> None:
        until_s = time.monotonic() + within_s
        for node, process in self.processes.items():
            code = process.wait(timeout=max(1, until_s - time.monotonic()))
            assert code == 0, self.log(node)[-3000:]

    def end(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self.ledger.close()

    def log(self, node: str) -> str:
        return (self.folder / f"{node}.log").read_text()

    def settings_of(self, node: str) -> dict[str, int]:
        found = read_writeback(make_host(self.folder / node))
        return {name: found.get(name, 0) for name in PRESENT}

    def is_changed(self, node: str) -> bool:
        return self.settings_of(node) != PRESENT

    def stored(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / "store").rglob("*.json"))

    def told(self) -> list[Record]:
        return [each for each in self.ledger.records() if each.state is ClaimState.TOLD]

    def problems(self) -> list[str]:
        """Return what does not hold: lost or doubled results, changed hosts, claims left."""
        told = Counter(record.claim.key for record in self.told())
        changed = [node for node in self.processes if self.is_changed(node)]
        journals = [str(p) for p in self.folder.glob("*/state/*.journal") if p.stat().st_size]
        pending = [str(path) for path in self.folder.glob("*/state/studies/*/pending/*")]
        running = [r for r in self.ledger.records() if r.state is ClaimState.RUNNING]
        return [
            *(f"told {count} times: {key}" for key, count in told.items() if count > 1),
            *(f"stored, but not told: {key}" for key in set(self.stored()) - set(told)),
            *(f"told, but not stored: {key}" for key in set(told) - set(self.stored())),
            *(f"host left changed: {node}" for node in changed),
            *(f"journal left: {path}" for path in journals),
            *(f"result left: {path}" for path in pending),
            *(f"claim left: {record.claim.key}" for record in running),
            *([f"{self.ledger.broken} broken"] if self.ledger.broken else []),
        ]


class Cable:
    """Forwards connections to the server's socket; it can be cut."""

    def __init__(self, server: Server, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._target = str(server.socket / ".s.PGSQL.5432")
        self._pairs: list[socket.socket] = []
        self._is_cut, self._ended = False, False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._is_cut = True
        for each in self._pairs:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._ended = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended:
            with contextlib.suppress(OSError):
                one, _ = self._listener.accept()
                if self._is_cut:
                    one.close()
                    continue
                other = socket.socket(socket.AF_UNIX)
                other.connect(self._target)
                self._pairs += [one, other]
                threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with one, other, contextlib.suppress(OSError):
            while True:
                for ready in select.select([one, other], [], [])[0]:
                    content = ready.recv(65536)
                    if not content:
                        return
                    (other if ready is one else one).sendall(content)


@contextlib.contextmanager
def fleet_of(
    server: Server, spec: StudySpec, folder: Path, seconds: float = 0.3
) -> Iterator[Fleet]:
    made = Fleet(server, spec, folder, seconds)
    try:
        yield made
    finally:
        made.end()


def until(is_so, within_s: float = 60.0) -> float:
    """Wait until something is so; return how long it took. Raises AssertionError."""
    began_s = time.monotonic()
    while not is_so():
        assert time.monotonic() - began_s < within_s, "it did not come"
        time.sleep(0.05)
    return time.monotonic() - began_s
