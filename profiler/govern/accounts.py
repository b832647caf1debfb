# SPDX-License-Identifier: Apache-2.0
"""What a governor has done, by day, and the file that shows it to other programs.

The file is written after a raise or its end, never before one, and else once a minute. It is in
memory, so no device delays it. A host that cannot keep it is governed all the same.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sysctl.govern.bounds import UNLIMITED_NS, RaiseLimits
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.samples import NS_PER_S
from sysctl.host.governor_state import (
    MAX_DAYS,
    BurstSums,
    GovernedDay,
    GovernorState,
    LastBurst,
    StoodDown,
    read_governor_state,
    write_governor_state,
)
from sysctl.host.system import System

#: The bursts that are kept one by one; the sums have all.
MAX_BURSTS = 1000
_EVERY_NS = 60 * NS_PER_S


def local_now() -> datetime:
    """Return the local time with its offset."""
    return datetime.now().astimezone()


@dataclass(frozen=True)
class Governed:
    """Who governs which volumes, within which limits, and the host's own thresholds."""

    purpose: str
    volumes: Sequence[str]
    limits: RaiseLimits
    at_rest: Mapping[str, int]


class Accounts:
    """Adds up the bursts of a governor's life by local day; with `is_kept` also in the file.

    A day counts what ended on it. Without `is_kept` (a dry run) nothing is written or read.
    """

    def __init__(
        self,
        governed: Governed,
        *,
        is_kept: bool,
        system: System | None = None,
        now: Callable[[], datetime] = local_now,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._is_kept, self._now, self._clock_ns = is_kept, now, clock_ns
        self._targets = tuple(governed.volumes)
        limit_ns = governed.limits.max_raise_ns
        host, earlier = system or System(), read_governor_state() if is_kept else None
        at = self._time()
        self._state = GovernorState(
            pid=os.getpid(),
            start_ticks=host.process_start_ticks(os.getpid()) or 0,
            boot_id=host.boot_id(),
            purpose=governed.purpose,
            since=at,
            written_at=at,
            volumes=self._targets,
            max_at_risk_bytes=governed.limits.max_at_risk_bytes,
            max_raise_s=limit_ns / NS_PER_S if limit_ns < UNLIMITED_NS else None,
            at_rest=dict(governed.at_rest),
            days=earlier.days if earlier else (),
        )
        self.began_ns = self._counted_ns = self._clock_ns()
        self.recent: deque[BurstAccount] = deque(maxlen=MAX_BURSTS)
        self._write()

    @property
    def state(self) -> GovernorState:
        """What the file has, or would have."""
        return self._state

    def burst(self, account: BurstAccount) -> None:
        """Add a burst."""
        last = LastBurst(
            began_at=self._time(ago_ns=self._clock_ns() - account.began_ns),
            volumes=tuple(self._targets[volume] for volume in account.volumes),
            arrived_bytes=account.arrived_bytes,
            return_s=account.return_s,
            raised_s=account.raised_ns / NS_PER_S,
            peak_at_risk_bytes=account.peak_held_bytes,
            saved_s=account.saved_s,
            ended_by=account.ended_by,
        )
        self.recent.append(account)
        self._state = replace(self._state, last_burst=last)
        self._add(_sums_of(account))
        self._write()

    def raised(self, is_raised: bool) -> None:
        """Note that thresholds were raised, or lowered."""
        self._state = replace(self._state, is_raised=is_raised, changed_at=self._time())
        self._write()

    def stood_down(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Note what another program has changed, so that the governor changes nothing more."""
        why = StoodDown(self._time(), dict(before), dict(after))
        self._state = replace(self._state, stood_down=why)
        self._write()

    def beat(self) -> bool:
        """Write the file if nothing did for a minute; return whether. To be called often."""
        is_due = self._clock_ns() - self._counted_ns >= _EVERY_NS
        if is_due:
            self._write()
        return is_due

    def ended(self) -> None:
        """Note the end, with which nothing stays raised."""
        self._state = replace(self._state, is_raised=False, ended_at=self._time())
        self._write()

    def finished_days(self) -> list[GovernedDay]:
        """Return the days that are over and were not returned before; they count as reported.

        The clock may jump: a day is over if it is before the present one.
        """
        today = self._today()
        over = [each for each in self._state.days if each.date < today and not each.is_reported]
        if over:
            days = (replace(e, is_reported=e.is_reported or e in over) for e in self._state.days)
            self._state = replace(self._state, days=tuple(days))
            self._write()
        return over

    def _add(self, sums: BurstSums) -> None:
        """Add to the sums of this process and of the day."""
        today = self._state.day(self._today())
        added = replace(today, sums=today.sums + sums)
        if today in self._state.days:
            days = tuple(added if each is today else each for each in self._state.days)
        else:
            days = (*self._state.days, added)[-MAX_DAYS:]
        self._state = replace(self._state, sums=self._state.sums + sums, days=days)

    def _write(self) -> None:
        now_ns = self._clock_ns()
        self._add(BurstSums(governed_s=(now_ns - self._counted_ns) / NS_PER_S))
        self._counted_ns = now_ns
        self._state = replace(self._state, written_at=self._time())
        if self._is_kept:
            with contextlib.suppress(OSError):  # no space: the next one may succeed
                write_governor_state(self._state)

    def _today(self) -> str:
        return self._now().date().isoformat()

    def _time(self, ago_ns: int = 0) -> str:
        at = self._now() - timedelta(microseconds=ago_ns / 1000)
        return at.isoformat(timespec="seconds")


def _sums_of(account: BurstAccount) -> BurstSums:
    return BurstSums(
        bursts=1,
        arrived_bytes=account.arrived_bytes,
        return_s=account.return_s,
        raised_s=account.raised_ns / NS_PER_S,
        saved_s=account.saved_s or 0.0,
        unknown_savings=int(account.saved_s is None),
        peak_at_risk_bytes=account.peak_held_bytes,
    )
