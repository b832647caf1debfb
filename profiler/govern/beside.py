# SPDX-License-Identifier: Apache-2.0
"""Governs while a command runs: `writewise run --auto`. The governor is a process of its own.

    with governed_beside(request) as governor:   # ready, or following another governor
        run_held(governor, …)
                                                 # restored here, whatever happens

If one of the two processes is killed, the other restores the host. If both are killed, the next
command that changes the host restores it, as after a killed `writewise govern`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from contracts.shared.errors import WritewiseError
from profiler.govern.child import DRAIN, GovernRequest, govern_beside
from profiler.recording.command import Signals
from profiler.running.at_risk import AtRisk
from sysctl.host.governor_state import GovernorState, read_governor_state, state_of
from sysctl.host.host import WRITER, Host
from sysctl.host.lock import LockedError
from sysctl.host.signals import signals_held_back
from sysctl.host.system import HostError

#: The governor restores within a sample or two; after this time it counts as hung, and is killed.
END_S = 10.0
_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class GovernStart:
    """How the governing began.

    `followed` names a governor that already governs this host. `recovered` is what killed programs
    had left and was restored, `left` what was not restored, and why. `low_bound` has the host's own
    dirty threshold and the bound (bytes) if that allows no raise.
    """

    volumes: Sequence[str]
    followed: str | None = None
    recovered: Sequence[str] = ()
    left: Sequence[str] = ()
    counts_every_group: bool = True
    low_bound: Sequence[int] | None = None


class CommandGovernor:
    """The process that governs for a command, seen from the one that runs the command."""

    #: What it did, once it has ended or stays behind; None if a followed governor did all the work.
    state: GovernorState | None = None
    #: Why it ended before the command's data was on the devices, in a sentence.
    problem: str | None = None

    def __init__(self, request: GovernRequest) -> None:
        self._request = request
        self._text, self._is_over, self._is_left = b"", False, False
        self._last: dict[str, Any] = {}
        command_reader, self._commands = os.pipe()
        self._reports, report_writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                govern_beside(request, command_reader, report_writer)
            finally:
                os._exit(0)  # nothing of the caller runs here
        os.close(command_reader)
        os.close(report_writer)

    def begun(self) -> GovernStart:
        """Wait until it governs or follows, and return how. Raises WritewiseError if it cannot."""
        while b"\n" not in self._text and self._receive():
            pass
        document = next(self._documents(), None)
        if document is None:
            self.end()
            raise HostError(self.problem or "the governor ended before it began")
        if "error" in document:
            self.end()
            raise WritewiseError(document["error"], document["hint"])
        return GovernStart(**document)

    def look(self) -> None:
        """Notice a governor that has ended, and restore what it may have left."""
        if not self._is_over and os.waitpid(self.pid, os.WNOHANG)[0]:
            self._is_over = True
            self._take_rest()

    def drain(self) -> None:
        """Do nothing: it governs until `end`."""

    def stay_behind(self, signals: Signals, at_risk: AtRisk) -> bool:
        """Let it wait for the devices alone; return False if it has ended."""
        self.look()
        if self._is_over:
            return False
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, DRAIN)
            self._is_left = True
            state = read_governor_state()
            self.state = state if state and state.pid == self.pid else None
        return self._is_left

    def end(self) -> None:
        """Restore the host, unless the governor stays behind for that. May be called again."""
        if self._commands < 0:
            return
        with signals_held_back():
            os.close(self._commands)
            self._commands = -1
            if not self._is_left and not self._is_over:
                self._wait_for_end()
                self._take_rest(is_expected=True)
            os.close(self._reports)

    def _wait_for_end(self) -> None:
        deadline_s = time.monotonic() + END_S
        while self._receive(max(0.0, deadline_s - time.monotonic())):
            if time.monotonic() >= deadline_s:
                os.kill(self.pid, signal.SIGKILL)
                break
        os.waitpid(self.pid, 0)
        self._is_over = True

    def _take_rest(self, *, is_expected: bool = False) -> None:
        """Take what it has reported; restore what it left if it could not report its end."""
        while self._receive():
            pass
        for _ in self._documents():
            pass
        last = self._last
        if "state" in last:
            self.state = state_of(last["state"])
            if self.state.stood_down is None and not is_expected:
                self.problem = "the governor was ended by a signal; the thresholds are at rest"
        elif "error" in last:
            self.problem = f"the governor ended: {last['error']}"
        elif "followed" not in last or not is_expected:
            self.problem = "the governor was killed; the thresholds are at rest again"
            self._recover()

    def _recover(self) -> None:
        """Restore what the killed governor had raised; whoever holds the lock has done so."""
        try:
            with contextlib.suppress(LockedError), Host.exclusive(WRITER, self._request.purpose):
                pass
        except WritewiseError as error:
            self.problem = f"the governor was killed; not everything is restored: {error.message}"

    def _receive(self, seconds: float | None = None) -> bool:
        """Wait for the next piece of its reports; return False at their end."""
        if seconds is not None and not select.select([self._reports], [], [], seconds)[0]:
            return True
        data = os.read(self._reports, _READ_BYTES)
        self._text += data
        return bool(data)

    def _documents(self) -> Iterator[dict[str, Any]]:
        """Yield the documents that have come; each once."""
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            self._last = json.loads(line)
            yield self._last


@contextlib.contextmanager
def governed_beside(request: GovernRequest) -> Iterator[tuple[CommandGovernor, GovernStart]]:
    """Govern within the block. Raises WritewiseError if that cannot begin."""
    governor: CommandGovernor | None = None
    try:
        with signals_held_back():
            governor = CommandGovernor(request)
        yield governor, governor.begun()
    finally:
        if governor:
            governor.end()
