# SPDX-License-Identifier: Apache-2.0
"""The loop of `writewise watch`: a sample a second, timeframes, escalation, calls of exporters."""

from __future__ import annotations

import time
from collections.abc import Callable

from contracts.shared.errors import WritewiseError
from profiler.govern.notify import Notifier
from profiler.recording.stopping import Stop
from profiler.service.day_records import DayRecords
from profiler.service.desk import Desk
from profiler.service.escalation import Escalation
from profiler.service.exporting import Exporters
from profiler.service.host_watch import HostWatch
from profiler.watch.ticker import Beat

SAMPLE_NS = 10**9
#: How often probes that could not be attached are tried again: compiling them takes seconds.
RETRY_NS = 60 * 10**9


class WatchService:
    """Runs until `stop` is set. `say` gets a sentence for whatever changes."""

    def __init__(
        self,
        watch: HostWatch,
        desk: Desk,
        exporters: Exporters,
        say: Callable[[str], None],
        notifier: Notifier,
        escalation: Escalation | None = None,
        records: DayRecords | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._watch, self._desk, self._exporters = watch, desk, exporters
        self._say, self._notifier, self._escalation = say, notifier, escalation
        self._records, self._clock_ns = records, clock_ns
        self._said: frozenset[str] = frozenset()
        self._attach_due_ns = 0
        self._sample = Beat(SAMPLE_NS, self.step)

    def run(self, stop: Stop) -> None:
        """Measure until `stop` is set."""
        self._sample.start(self._clock_ns())
        while not stop.is_set:
            beats = [self._sample, *([self._watch.calls.beat] if self._watch.calls.beat else [])]
            beat = min(beats, key=lambda each: each.due_ns)
            self._desk.work(beat.due_ns)
            began_ns = self._clock_ns()
            if began_ns >= beat.due_ns:  # else a signal ended the wait
                beat.run()
                beat.ran(began_ns, self._clock_ns())

    def step(self) -> None:
        """Take a sample, and see to everything that is not measuring."""
        sample = self._watch.sample()
        if self._escalation is not None:
            planned_ns = sample.throttled.planned_ns
            self._count_calls(self._escalation.step(sample.at_ns, planned_ns))
        if self._records is not None:
            self._records.add(sample)
        self._exporters.step()
        for sentence in sorted({*self._watch.problems} - self._said):
            self._say(sentence)
        self._said = frozenset(self._watch.problems)
        self._notifier.alive()

    def _count_calls(self, is_wanted: bool) -> None:
        """Attach or detach the probes of calls; a failure is said once, and tried again."""
        calls = self._watch.calls
        if not is_wanted:
            self._watch.failure = None
        if is_wanted == calls.is_attached:
            return
        self._notifier.alive(before_long_work=True)  # many probes on a busy host: many seconds
        if is_wanted:
            self._attach()
            return
        calls.detach()
        self._say("calls are no longer counted")
        self._notifier.status("level stalls")

    def _attach(self) -> None:
        """Attach the probes of calls, unless that failed a short time ago."""
        now_ns = self._clock_ns()
        if now_ns < self._attach_due_ns:
            return
        try:
            self._watch.calls.attach(now_ns)
        except (OSError, WritewiseError) as error:  # OSError: a full disk, no more processes
            self._watch.failure = f"calls cannot be counted: {_reason(error)}"
            self._attach_due_ns = self._clock_ns() + RETRY_NS
            return
        self._watch.failure = None
        self._say("writers are throttled: calls are counted for a while")
        self._notifier.status("level calls: writers are throttled")


def _reason(error: OSError | WritewiseError) -> str:
    return error.message if isinstance(error, WritewiseError) else error.strerror or str(error)
