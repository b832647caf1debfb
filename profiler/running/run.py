# SPDX-License-Identifier: Apache-2.0
"""Runs a command while its process holds settings, and then drains: `writewise run`."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profiler.recording.command import Poll, signals_taken, start_command, wait_for_command
from profiler.recording.identity import Identity
from profiler.running.at_risk import AtRisk, IoWait
from profiler.running.draining import INTERVAL_S, Keeper, StartSync, drain, start_sync
from sysctl.host.system import System


class Drained(enum.Enum):
    """How the drain after the command ended."""

    DONE = "done"
    SKIPPED = "skipped"
    BEHIND = "behind"


@dataclass(frozen=True)
class Run:
    """A command that has run. Times are in s, from its start.

    `durable_s` is None unless its data is on the devices. `peak_bytes` were dirty or under
    write-back, above what was there at the start. `io_wait_s` is the time until it returned in
    which some program of the host waited for I/O; None if the kernel does not count it.
    """

    exit_code: int
    return_s: float
    durable_s: float | None
    drained: Drained
    peak_bytes: int
    io_wait_s: float | None


@dataclass(frozen=True)
class HeldCommand:
    """What to run, as which user (None: the current one), and its standard output if redirected."""

    argv: Sequence[str]
    identity: Identity | None = None
    stdout_fd: int | None = None


def run_held(
    keeper: Keeper,
    command: HeldCommand,
    on_progress: Callable[[int], None],
    *,
    waits: bool = True,
    system: System | None = None,
    clock: Callable[[], float] = time.monotonic,
    sync: StartSync = start_sync,
) -> Run:
    """Run the command, then wait until its data is on the devices (`waits`), or leave that behind.

    `keeper` keeps the settings in force until then. `on_progress` is called with the bytes that are
    still only in memory. Signals are passed to the command; a signal after its end ends the wait.
    Raises WritewiseError with exit code 126 or 127 if the command cannot be started.
    """
    host = system or System()
    with signals_taken() as signals:
        at_risk, io_wait = AtRisk(host), IoWait(host)
        began_s = clock()
        pid = start_command(command.argv, signals, command.identity, command.stdout_fd)

        def look() -> None:
            at_risk.sample()
            keeper.look()

        exit_code = wait_for_command(pid, signals, Poll(INTERVAL_S, look))
        return_s, io_wait_s = clock() - began_s, io_wait.seconds()
        at_risk.sample()
        signals.drop()  # a Ctrl-C that ended the command reached this process, too
        if not waits and keeper.stay_behind(signals, at_risk):
            drained = Drained.BEHIND
        else:
            keeper.drain()
            is_done = drain(signals, at_risk, on_progress, sync)
            drained = Drained.DONE if is_done else Drained.SKIPPED
        return Run(
            exit_code=exit_code,
            return_s=return_s,
            durable_s=clock() - began_s if drained is Drained.DONE else None,
            drained=drained,
            peak_bytes=at_risk.peak_bytes,
            io_wait_s=io_wait_s,
        )
