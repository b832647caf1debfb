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

from profiler.recording.command import ENDING, Signals
from profiler.running.at_risk import AtRisk
from sysctl.host.holding import Hold

INTERVAL_S = 0.1
_MAX_DESCRIPTOR = 2**20
_STANDARD = (0, 1, 2)
_DONE = b"1"

#: Starts a process that ends when the data is on the devices, and returns its pid.
StartSync = Callable[[], int]


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
    _close_all_but(kept)
    if not hold.take_over():
        return
    os.write(writer, _DONE)
    os.close(writer)
    drain(signals, at_risk, lambda _: None)
    hold.leave()


def _close_all_but(kept: list[int]) -> None:
    """Close every other descriptor: a reader of our output, or a lock, must not wait for us."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in _STANDARD:
        os.dup2(nowhere, number)
    first = len(_STANDARD)
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, _MAX_DESCRIPTOR)
