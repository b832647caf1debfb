# SPDX-License-Identifier: Apache-2.0
"""The records of days that a running watch makes: one for each day (UTC), and one at its end.

The measuring thread makes them, and a second thread writes them (`record_sender`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from contracts.shared.errors import WritewiseError
from contracts.shared.installation import own_version
from contracts.stats import nonzero_buckets
from profiler.bpf.probes.block import RequestStats
from profiler.bpf.stall_session import StallSession
from profiler.fleet.node_state import (
    HostCounts,
    counts_now,
    rollout_here,
    start_text,
    verify_here,
)
from profiler.fleet.record import DayCounts, FleetRecord
from profiler.service.day_tally import DayTally, StallSample
from sysctl.evidence.class_key import ClassKey
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import System

T = TypeVar("T")
UNWRITTEN = "no record of the day was written: "


@dataclass(frozen=True)
class _Beginning:
    """What a day's record is compared with, and the time of its begin (s since 1970)."""

    at_s: float
    settings: dict[str, int]
    counts: HostCounts
    writes: tuple[RequestStats, ...]
    missed: int


class DayRecords:
    """Takes each sample of a watch, and gives each finished record to `send`.

    `node` and `key` are the node's name and class. `say` gets a sentence if a record cannot be
    made.
    """

    def __init__(
        self,
        node: str,
        key: ClassKey,
        stalls: StallSession,
        send: Callable[[FleetRecord], None],
        say: Callable[[str], None],
        system: System | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._node, self._key, self._stalls = node, key, stalls
        self._send, self._say, self._clock_s = send, say, clock_s
        self._system = system or System()
        self._tally = DayTally()
        self._today = ""
        self._beginning: _Beginning | None = None

    def add(self, sample: StallSample) -> None:
        """Add a sample; the first one of a day ends the record of the day before."""
        self._tally.add(sample)
        today = _day(self._clock_s())
        if today != self._today:
            self.finish()
            self._today, self._beginning = today, self._guarded(self._begin)

    def finish(self) -> None:
        """Give the record so far to `send`, if there is one."""
        beginning, tally = self._beginning, self._tally
        self._beginning, self._tally = None, tally.next_day()
        if beginning is None or not tally.watched_ns:
            return
        record = self._guarded(lambda: self._record(beginning, tally))
        if record is not None:
            self._send(record)

    def _guarded(self, make: Callable[[], T]) -> T | None:
        """Return what is made; a failure costs a sentence, never the service."""
        try:
            return make()
        except (WritewiseError, OSError) as error:
            self._say(f"{UNWRITTEN}{error}")
            return None

    def _begin(self) -> _Beginning:
        return _Beginning(
            self._clock_s(),
            read_writeback(self._system),
            counts_now(self._system),
            self._writes(),
            self._stalls.runs_missed(),
        )

    def _writes(self) -> tuple[RequestStats, ...]:
        return tuple(disk.writes for disk in self._stalls.disks())

    def _record(self, begun: _Beginning, tally: DayTally) -> FleetRecord:
        """Return the record. Raises WritewiseError."""
        increase = counts_now(self._system).since(begun.counts)
        pairs = zip(self._writes(), begun.writes)
        writes = [now.since(before) for now, before in pairs]
        present = rollout_here()
        return FleetRecord(
            writewise=own_version(),
            node=self._node,
            start=start_text(datetime.fromtimestamp(begun.at_s, timezone.utc)),
            seconds=round(tally.seconds, 3),
            node_class=self._key,
            settings=begun.settings,
            histograms={"disk_write_ns": nonzero_buckets(_sums(writes))},
            peak_at_risk_bytes=tally.peak_bytes,
            oom_kills=increase.oom_kills,
            memory_psi_full_us=increase.memory_psi_full_us,
            verify=verify_here(self._system, present),
            rollout=present.arm if present else None,
            day=DayCounts(
                watched_ns=tally.watched_ns,
                burst_ns=tally.burst_ns,
                above_freerun_ns=tally.above_freerun_ns,
                stalled_ns=tally.stalled_ns,
                throttled_ns=tally.throttled_ns,
                pauses=tally.pauses,
                written_bytes=sum(each.bytes for each in writes),
                lost_events=self._stalls.runs_missed() - begun.missed,
            ),
        )


def _sums(writes: list[RequestStats]) -> list[int]:
    """Return the sum of the disks' buckets."""
    return [sum(calls) for calls in zip(*(each.buckets for each in writes))]


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, timezone.utc).date().isoformat()
