# SPDX-License-Identifier: Apache-2.0
"""When stalls begin, so that calls are counted for a while (`--escalate`): from samples alone.

Counting slows down the counted calls, and on tracepoints every system call of the host, so it ends
after the wanted time, and then rests as long: at most half of the time has that cost, however long
the stalls go on.
"""

from __future__ import annotations

from collections import deque

#: Stalls have begun if the planned sleeps in the window are a tenth of it.
WINDOW_NS = 5 * 10**9
BEGIN_NS = WINDOW_NS // 10


class Escalation:
    """Decides from the totals of planned sleeps whether calls are to be counted now."""

    def __init__(self, duration_ns: int) -> None:
        self._duration_ns = duration_ns
        self._seen: deque[tuple[int, int]] = deque()
        self._until_ns: int | None = None
        self._rests_until_ns = 0

    def step(self, now_ns: int, planned_ns: int) -> bool:
        """Take a sample, at growing times, and return whether calls are to be counted."""
        self._seen.append((now_ns, planned_ns))
        while len(self._seen) > 1 and self._seen[1][0] <= now_ns - WINDOW_NS:
            self._seen.popleft()
        if self._until_ns is not None and now_ns >= self._until_ns:
            self._until_ns, self._rests_until_ns = None, now_ns + self._duration_ns
        has_begun = planned_ns - self._seen[0][1] >= BEGIN_NS
        if self._until_ns is None and has_begun and now_ns >= self._rests_until_ns:
            self._until_ns = now_ns + self._duration_ns
        return self._until_ns is not None
