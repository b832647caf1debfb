# SPDX-License-Identifier: Apache-2.0
"""A fleet for benchmarks: many starts and kills, whose costs are not those of starting Python."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import psycopg  # noqa: F401 - imported once, before the workers are forked
import sqlalchemy  # noqa: F401

from tests.postgresql import node as node_process
from tests.postgresql.fleet import Fleet

_FORK = multiprocessing.get_context("fork")


class ForkedFleet(Fleet):
    """A fleet whose nodes are forked, so that a start takes no time of the CPU."""

    mode = ""

    def start(self, node: str, host: Path | None = None) -> None:
        words = [*self.words(node, host), self.mode]
        process = _FORK.Process(target=self._child, args=(node, words), daemon=True)
        process.start()
        self.forked[node] = process

    def _child(self, node: str, words: list[str]) -> None:
        log = os.open(self.folder / f"{node}.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        node_process.main(*words)

    @property
    def forked(self) -> dict:
        return self.__dict__.setdefault("_forked", {})

    def kill(self, node: str) -> None:
        self.forked[node].kill()
        self.forked[node].join()

    def is_running(self, node: str) -> bool:
        return self.forked[node].is_alive()

    def wait(self, within_s: float = 600) -> None:
        until_s = time.monotonic() + within_s
        for node, process in self.forked.items():
            process.join(max(1.0, until_s - time.monotonic()))
            assert process.exitcode == 0, self.log(node)[-3000:]

    def end(self) -> None:
        for process in self.forked.values():
            process.kill()
            process.join()
        self.ledger.close()

    def problems(self) -> list[str]:
        self.processes = dict.fromkeys(self.forked)
        return super().problems()
