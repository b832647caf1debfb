# SPDX-License-Identifier: Apache-2.0
"""The lab's processes: each is in the journal before it begins, so `lab down` ends it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar, cast

from contracts.shared.environment import for_programs
from contracts.shared.errors import WritewiseError
from contracts.shared.own_module import own_module
from sysctl.host.host import Host
from sysctl.host.system import System

T = TypeVar("T")

START_S = 20
_LOOK_S = 0.02
#: Starts the program once its process is in the journal, and not at all if the parent died before.
#: With -I, here and for the program, no module comes from the current directory, which other users
#: may be able to write to.
_GATE = "import os, sys\nif sys.stdin.readline(): os.execv(sys.executable, sys.argv[1:])"

#: A process by pid and start time (clock ticks), because pids are reused.
ProcessId = tuple[int, int]


def start(
    host: Host, module: str, arguments: Sequence[str], log: Path
) -> tuple[subprocess.Popen[bytes], ProcessId]:
    """Start one of our modules as a process of its own that outlives this one."""
    program = (sys.executable, *own_module(module), *arguments)
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _GATE, *program],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=for_programs(),
            start_new_session=True,
        )
    started = host.adopt_process(process.pid)
    with cast("IO[bytes]", process.stdin) as gate:
        gate.write(b"go\n")
    return process, (process.pid, started)


def wait_for(
    look: Callable[[], T | None], process: subprocess.Popen[bytes], log: Path, what: str
) -> T:
    """Return what `look` finds. Raises WritewiseError, with the log's last line, if it never does.

    `what` is the process in words, for the error.
    """
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        found = look()
        if found is not None:
            return found
        time.sleep(_LOOK_S)
    raise WritewiseError(f"{what} did not start: {last_line(log) or 'no answer'}")


def last_line(log: Path) -> str:
    """Return the last line of a log; "" if there is none."""
    try:
        return "".join(log.read_text(errors="replace").strip().splitlines()[-1:])
    except OSError:
        return ""


def this_process(system: System) -> ProcessId:
    """Return the id of this process."""
    return os.getpid(), system.process_start_ticks(os.getpid()) or 0


def is_running(system: System, process: ProcessId) -> bool:
    """Return whether a process runs, rather than a later one with its pid."""
    return system.process_start_ticks(process[0]) == process[1]
