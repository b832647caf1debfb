# SPDX-License-Identifier: Apache-2.0
"""What a node needs to join a study: a slow lab, a ledger, and a study of its class."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from profiler.lab import lab
from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger
from sysctl.fleet.claims import Record
from sysctl.host.host import Host
from tests.postgresql.server import Server
from tests.root.labs import MIB, SMALL, endpoint_arguments, guarded, writewise

#: Thresholds with which the writers of a pull of 32 MiB wait.
PRESENT = {"vm.dirty_bytes": 8 * MIB, "vm.dirty_background_bytes": 4 * MIB}
HIGH = 256 * MIB


@contextlib.contextmanager
def throttled_lab(folder: Path) -> Iterator[lab.Lab]:
    """Yield a slow lab with settings that make its writers wait; another journal restores them."""
    with (
        guarded(folder),
        lab.running(replace(SMALL, rate_bytes_per_s=24 * MIB)) as slow,
        Host.exclusive("throttled", "test") as host,
    ):
        host.set_writeback(PRESENT)
        yield slow


class Studies:
    """Studies of this host's class, and the words of `study join` for them."""

    def __init__(self, server: Server, throttled: lab.Lab, folder: Path) -> None:
        self._server = server
        results = folder / "results"
        results.mkdir()
        source = (throttled.source, throttled.destination, *endpoint_arguments(throttled))
        self._words = [*source, "--results", str(results), "--max-at-risk", "300MiB"]

    def create(self, name: str, *more: object) -> list[str]:
        """Make a study of this node's class; return the words with which the node joins it."""
        looked = writewise(*self._create(f"{name}-probe", "any"), "--dry-run", "--json")
        assert looked.returncode == 0, looked.stderr
        found = json.loads(looked.stdout)
        assert "the study of any" in found["problem"]
        return self._create(name, found["class_key"], *more)

    def records(self, name: str) -> list[Record]:
        """Return the claims of a study."""
        ledger = Ledger(parse_address(self._server.url()), name)
        found = ledger.records()
        ledger.close()
        return found

    def _create(self, name: str, class_key: str, *more: object) -> list[str]:
        present = ",".join(f"{setting}={value}" for setting, value in PRESENT.items())
        values = ("--dirty-bytes", HIGH, "--dirty-background-bytes", "4MiB", "--present", present)
        url = self._server.url()
        asked = ("--study", name, "--class", class_key, *values, *more)
        made = writewise("study", "create", url, *asked)
        assert made.returncode == 0, made.stderr
        return ["study", "join", url, "--study", name, *map(str, self._words)]
