# SPDX-License-Identifier: Apache-2.0
"""A process that outlives a session of the root tests and cleans up if the session is killed.

    python -m tests.root.guard FOLDER NAMESPACE PID

Fixtures undo what a test made, also after a failure and Ctrl-C. After SIGKILL or SIGTERM no code of
pytest runs any more. Then the guard cleans up: it waits for the end of its parent with a pidfd. A
session that ends normally and leaves nothing ends its guard first (`Session.end`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

from tests.places import REPOSITORY
from tests.root.labs import wait_until
from tests.root.leftovers import (
    Owner,
    Record,
    namespace_of,
    processes_in,
    record_of,
    restore_sysctls,
    take_back,
)

_CLONE_NEWUTS = 0x04000000  # include/uapi/linux/sched.h
#: Exists as long as this process does.
_OF_MULTIPROCESSING = "from multiprocessing.resource_tracker import main"
#: How long the kernel may take to detach a loop device, and a program to detach its probes.
KERNEL_S, PROGRAMS_S = 10.0, 30.0


class Session:
    """A session of pytest: its folder, its UTS namespace, and the guard that watches it."""

    def __init__(self, folder: Path) -> None:
        _enter_new_namespace()
        self._own = Owner(folder, namespace_of(), os.getpid())
        #: The test after which a process was first seen.
        self._first_seen: dict[int, str] = {}
        self._before = self.record()
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tests.root.guard", *map(str, astuple(self._own))],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # not reached by a terminal's signals
        )
        if not self._guard.stdout or self._guard.stdout.readline() != b"watching\n":
            raise RuntimeError("the guard of the root tests did not start")

    def record(self) -> Record:
        """Return the host's present state."""
        return record_of(self._own)

    def left_by(self, test: str, before: Record) -> list[str]:
        """Return in words what a finished test left, once the kernel has cleaned up its part.

        Processes may take longer, for example to detach probes: `end` waits for them.
        Sysctls are written back, so that the next test finds its own.
        """
        for pid in processes_in(self._own.namespace):
            self._first_seen.setdefault(pid, test)
        if wait_until(lambda: not self.record().left_since(before), KERNEL_S):
            return []
        left = self.record().left_since(before)
        return [*left, *restore_sysctls(before)]

    def end(self) -> list[str]:
        """End the guard if nothing is left; else return what is left, for the guard to clean up."""
        if not wait_until(lambda: not self._left(), PROGRAMS_S):
            return self._left()
        self._guard.kill()
        self._guard.communicate()
        return []

    def _left(self) -> list[str]:
        processes = [
            f"process {pid} ({words}), first seen after {self._first_seen.get(pid, 'all tests')}"
            for pid, words in processes_in(self._own.namespace).items()
            if _OF_MULTIPROCESSING not in words
        ]
        return [*self.record().left_since(self._before), *processes]


def _enter_new_namespace() -> None:
    """Enter a new namespace, for this thread and all that it starts. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUTS) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@contextlib.contextmanager
def _namespace_kept() -> Iterator[str]:
    """Return the parent's namespace and leave it; nobody reuses its number while it is open."""
    descriptor = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    try:
        namespace = namespace_of()
        _enter_new_namespace()
        yield namespace
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[int | None]:
    """Return a pidfd of the parent, or None if it has ended.

    Another process may have got the number of a parent that has ended. So the parent is compared
    after the pidfd is open.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor if os.getppid() == pid else None
    finally:
        os.close(descriptor)


def main() -> None:
    """Watch the parent process; when it ends, clean up what it left below FOLDER and elsewhere."""
    owner = Owner(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    with _namespace_kept() as namespace:
        if namespace != owner.namespace:
            sys.exit("no session has started this, so what is in this namespace is not its own")
        before = record_of(owner)
        with _watched(owner.pid) as parent:
            print("watching", flush=True)
            if parent is not None:
                select.select([parent], [], [])  # until it is dead, or a zombie
        problems = take_back(owner, before)
    with contextlib.suppress(OSError):  # the reader may be gone
        for problem in problems:
            print(f"left by the root tests: {problem}", file=sys.stderr, flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
