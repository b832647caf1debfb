# SPDX-License-Identifier: Apache-2.0
"""Writes records of days in a thread of its own, without privileges: S3 may hang.

All nodes end their day together, so each waits a random time before it writes.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable

from contracts.shared.errors import WritewiseError
from profiler.fleet.record import FleetRecord
from profiler.fleet.writing import RecordPlace, write_record
from profiler.pull.access import S3Access
from profiler.service.day_records import UNWRITTEN

#: S3 takes at least 3,500 PUT/s for a prefix; a million nodes are 1,111/s.
SPREAD_S = 900.0
#: How long the end of a watch waits for its last record: less than TimeoutStopSec of the unit.
CLOSE_S = 10.0
_NEXT_DAY = "check --record and the variables AWS_…; the next day is tried again"


class RecordSender:
    """A thread that writes what `send` takes. A record that cannot be written costs a sentence."""

    def __init__(
        self,
        place: RecordPlace,
        say: Callable[[str], None],
        drop_privileges: Callable[[], None],
        *,
        access: S3Access | None = None,
        delay_s: Callable[[], float] = lambda: random.uniform(0, SPREAD_S),  # noqa: S311
    ) -> None:
        self._place, self._say, self._drop_privileges = place, say, drop_privileges
        self._access, self._delay_s = access or S3Access(), delay_s
        self._ending = threading.Event()
        self._records: queue.SimpleQueue[FleetRecord | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writewise-records", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def send(self, record: FleetRecord) -> None:
        """Have a record written, in a while."""
        self._records.put(record)

    def close(self) -> None:
        """Have what is left written at once, and wait for it, but not for long."""
        self._ending.set()
        self._records.put(None)
        self._thread.join(timeout=CLOSE_S)
        if self._thread.is_alive():
            self._say(f"{UNWRITTEN}{self._place} does not answer")

    def _run(self) -> None:
        self._drop_privileges()
        while (record := self._records.get()) is not None:
            if self._place.path is None:
                self._ending.wait(self._delay_s())
            self._write(record)

    def _write(self, record: FleetRecord) -> None:
        try:
            write_record(record, self._place, self._access, environment={})
        except (WritewiseError, OSError) as error:
            self._say(f"{UNWRITTEN}{error}; {_NEXT_DAY}")
