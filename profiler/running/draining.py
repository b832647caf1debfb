# SPDX-License-Identifier: Apache-2.0
"""Waiting until what was written is on the devices, here or in a process that stays behind.

sync(2) writes what was dirty when it was called, on all file systems, and returns when the devices
have it. What other programs write after that does not prolong it. It cannot be interrupted (a file
server may hang), so a process of its own calls it, which is left behind if a signal ends the wait.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Protocol

from profiler.recording.command import ENDING, Signals
from profiler.running.at_risk import AtRisk
from sysctl.host.holding import Hold

INTERVAL_S = 0.1
_MAX_DESCRIPTOR = 2**20
_STANDARD = (0, 1, 2)
_DONE = b"1"

#: Starts a process that ends when the data is on the devices, and returns its pid.
StartSync = Callable[[], int]


class Keeper(Protocol):
    """Keeps settings in force while a command runs and until its data is on the devices."""

    def look(self) -> None:
        """Look whether they are; called about every 0.1 s while the command runs."""

    def drain(self) -> None:
        """The command has returned, and this process waits for the devices."""

    def stay_behind(self, signals: Signals, at_risk: AtRisk) -> bool:
        """Leave the wait to a process that stays behind; return whether there is one."""


class HoldKeeper:
    """Keeps what a `Hold` has set: nothing is to be done for it while the command runs."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def look(self) -> None:
        """Do nothing."""

    def drain(self) -> None:
        """Mark the holder as one that waits."""
        self._hold.drain()

    def stay_behind(self, signals: Signals, at_risk: AtRisk) -> bool:
        """Start a process that takes this one's place as holder."""
        return drain_behind(self._hold, signals, at_risk)


def start_sync() -> int:
    """Start a process that calls sync(2), and return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            os.closerange(0, _MAX_DESCRIPTOR)  # a reader of our output must not wait for it
            os.sync()
        finally:
            os._exit(0)
    return pid


def drain(
    signals: Signals,
    at_risk: AtRisk,
    on_progress: Callable[[int], None],
    sync: StartSync = start_sync,
) -> bool:
    """Wait until the data is on the devices; return False if a signal ended the wait.

    `on_progress` is called with the bytes that are still only in memory.
    """
    pid = sync()
    while True:
        at_risk.sample()
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        on_progress(at_risk.bytes)
        came = signals.take(INTERVAL_S)
        if came is not None and came.si_signo in ENDING:
            os.kill(pid, signal.SIGKILL)
            return False


def drain_behind(hold: Hold, signals: Signals, at_risk: AtRisk) -> bool:
    """Start a process that takes this one's place as holder, drains and leaves.

    Returns whether it did; if not (a full disk), this process still holds the settings. The process
    has a session of its own and no open file of this one. SIGTERM ends its wait. If it is killed,
    the next writer restores, as after this one's SIGKILL.
    """
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            _stay_behind(hold, signals, at_risk, writer)
        finally:
            os._exit(0)  # nothing of the caller runs here
    os.close(writer)
    took_over = os.read(reader, 1) == _DONE
    os.close(reader)
    if took_over:
        hold.hand_over()
    return took_over


def _stay_behind(hold: Hold, signals: Signals, at_risk: AtRisk, writer: int) -> None:
    os.setsid()
    os.chdir("/")
    kept = [each for each in (writer, hold.presence) if each is not None]
    close_all_but(kept)
    if not hold.take_over():
        return
    os.write(writer, _DONE)
    os.close(writer)
    drain(signals, at_risk, lambda _: None)
    hold.leave()


def close_all_but(kept: list[int]) -> None:
    """Close every other descriptor of a forked process, and let its streams lead nowhere.

    Else a reader of our output, or who waits for a lock, would wait for it.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in _STANDARD:
        os.dup2(nowhere, number)
    first = len(_STANDARD)
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, _MAX_DESCRIPTOR)
