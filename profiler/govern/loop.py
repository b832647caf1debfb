# SPDX-License-Identifier: Apache-2.0
"""The governor's loop: a sample, a decision, and the host changed accordingly.

While data is dirty there is a sample every 50 ms. A calm host is looked at when a writer dirties
pages, or where the kernel has no such event, every 50 ms, too. `read` returns None if there is
nothing new to decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from profiler.recording.stopping import Stop
from sysctl.govern.bounds import RaiseLimits
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.policy import Decision, Governor, Unhelped
from sysctl.govern.samples import NS_PER_S, HostSample, busy_bytes
from sysctl.host.raising_host import ChangedError, RaisingHost

INTERVAL_NS = 50_000_000
#: A calm host is looked at after this time if no event comes.
_CALM_S = 0.5


@dataclass(frozen=True)
class Changed:
    """Thresholds that another program changed: what they were, what they are, and what is left.

    `left` has a sentence for each that was changed during a raise and is not restored.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    left: tuple[str, ...] = ()


class Listener(Protocol):
    """What the loop reports."""

    def burst(self, account: BurstAccount) -> None:
        """A burst has ended; the thresholds are at rest."""

    def changed(self, changed: Changed) -> None:
        """Another program has changed thresholds."""

    def unhelped(self, burst: Unhelped) -> None:
        """A burst was seen for which a raise would do nothing."""

    def raised(self, is_raised: bool) -> None:
        """Thresholds were raised, or lowered."""

    def alive(self) -> None:
        """The loop is working."""


class EventSource(Protocol):
    """Wakes the loop when more than `least_bytes` are dirty, or under write-back."""

    least_bytes: int

    def wait(self, seconds: float) -> bool:
        """Wait for an event; return whether there was one."""

    def stop(self) -> None:
        """Count nothing until the next wait."""


class Loop:
    """Governs with samples of `read`; without `host` it only reports what it would do."""

    def __init__(
        self,
        read: Callable[[], HostSample | None],
        limits: RaiseLimits,
        listener: Listener,
        host: RaisingHost | None = None,
        *,
        events: EventSource | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read, self._limits, self._listener, self._host = read, limits, listener, host
        self._events, self._clock_ns, self._sleep = events, clock_ns, sleep
        self._may_wait = self._was_woken = False
        self._raised: Decision | None = None
        self._governor: Governor | None = None
        self._own: Mapping[str, int] = {}

    def run(self, stop: Stop) -> Changed | None:
        """Govern until `stop` is set, or another program changes a threshold: return that.

        A dry run continues with the changed thresholds as the host's own. Raises WritewiseError;
        then the caller restores the host.
        """
        due_ns = self._clock_ns()
        while not stop.is_set:
            sample = self._read()
            changed = self._step(sample) if sample else None
            if changed and self._host is not None:
                return changed
            self._listener.alive()
            due_ns = self._pause(sample, due_ns)
        self._lower()
        last = self._governor.end() if self._governor else None
        if last:
            self._listener.burst(last)
        return None

    def _pause(self, sample: HostSample | None, due_ns: int) -> int:
        """Wait until the next sample is due, and return when that was.

        After an event that found the host calm the next wait is by time: else a host with a little
        dirty would be looked at for each event.
        """
        if sample is not None:
            self._may_wait = self._can_wait(sample)
        if self._events and self._may_wait and not self._was_woken:
            self._was_woken = self._events.wait(_CALM_S)
            return self._clock_ns()
        if self._events:
            self._events.stop()
        self._was_woken = False
        now_ns = self._clock_ns()
        due_ns = max(due_ns + INTERVAL_NS, now_ns)
        self._sleep((due_ns - now_ns) / NS_PER_S)
        return due_ns

    def _can_wait(self, sample: HostSample) -> bool:
        """Return whether nothing is to be decided before an event comes.

        The host is busy with more than `busy_bytes`, so one of the two, dirty or under write-back,
        is then more than half of it. With less memory than at the start, that may be less than what
        an event needs.
        """
        if self._events is None or self._raised is not None or sample.is_busy:
            return False
        return 2 * self._events.least_bytes <= busy_bytes(sample.thresholds)

    def _step(self, sample: HostSample) -> Changed | None:
        """Decide, obey and report; return what another program changed, if it has."""
        if self._governor is None:
            self._own = sample.values
            self._governor = Governor(self._limits, self._own, is_dry=self._host is None)
        decision = self._governor.step(sample)
        changed = self._obey(decision)
        if decision.finished:
            self._listener.burst(decision.finished)
        if decision.unhelped:
            self._listener.unhelped(decision.unhelped)
        if changed:
            self._listener.changed(changed)
            self._governor = None  # a dry run begins again with these values
        return changed

    def _obey(self, decision: Decision) -> Changed | None:
        """Put a decision in force; return what another program changed, if it has."""
        if decision.foreign:
            left = self._lower()
            return Changed(decision.foreign.expected, decision.foreign.found, tuple(left))
        if decision.raised is None:
            self._lower()
            return None
        try:
            self._raise(decision)
        except ChangedError:
            found = self._host.thresholds() if self._host else {}
            return Changed(self._own, found)
        return None

    def _raise(self, decision: Decision) -> None:
        before, raised = self._raised, decision.raised
        if self._host is not None and raised is not None:
            if before is None:
                self._host.raise_thresholds(self._own, raised.dirty_bytes, raised.backgrounds)
            if (before.background_bytes if before else None) != decision.background_bytes:
                self._host.set_background(decision.background_bytes)
        self._raised = decision
        if before is None:
            self._listener.raised(True)

    def _lower(self) -> list[str]:
        """Restore the host's own thresholds; return a sentence for each that others changed."""
        if self._raised is None:
            return []
        self._raised = None
        left = self._host.lower() if self._host else []
        self._listener.raised(False)
        return left
