"""A process that outlives a session of the root tests, and cleans up after it if it was killed.

    python -m tests.root.guard FOLDER NAMESPACE PID

Fixtures take back what a test made, also after a failure and Ctrl-C. After SIGKILL or SIGTERM no
code of pytest runs any more: then this does it, which waits for the end of its parent by a pidfd. A
session that ends in order, with nothing left, ends its guard before (`Session.end`).
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
#: It is there for as long as this process is.
_OF_MULTIPROCESSING = "from multiprocessing.resource_tracker import main"
#: How long the kernel may take to detach a loop device, and a program to detach its probes.
KERNEL_S, PROGRAMS_S = 10.0, 30.0


class Session:
    """A session of pytest: its folder, its own UTS namespace, and the guard that watches it."""

    def __init__(self, folder: Path) -> None:
        _enter_new_namespace()
        self._own = Owner(folder, namespace_of(), os.getpid())
        #: After which test a process was first there.
        self._first_seen: dict[int, str] = {}
        self._before = self.record()
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tests.root.guard", *map(str, astuple(self._own))],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # what is sent to a terminal's programs is not for it
        )
        if not self._guard.stdout or self._guard.stdout.readline() != b"watching\n":
            raise RuntimeError("the guard of the root tests did not start")

    def record(self) -> Record:
        """The host as it is now."""
        return record_of(self._own)

    def left_by(self, test: str, before: Record) -> list[str]:
        """What a test that has ended left, in words, as soon as the kernel is through with it.

        Processes may take longer, as one does that detaches probes: `end` waits for these.
        Sysctls are written back, so that the next test finds its own.
        """
        for pid in processes_in(self._own.namespace):
            self._first_seen.setdefault(pid, test)
        if wait_until(lambda: not self.record().left_since(before), KERNEL_S):
            return []
        left = self.record().left_since(before)
        restore_sysctls(before)
        return left

    def end(self) -> list[str]:
        """Dismiss the guard if all is taken back; what is not, in words: the guard then does it."""
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
    """For this thread and all that it starts. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUTS) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@contextlib.contextmanager
def _namespace_kept() -> Iterator[str]:
    """The parent's namespace, which this process leaves; no other one gets its number meanwhile."""
    descriptor = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    try:
        namespace = namespace_of()
        _enter_new_namespace()
        yield namespace
    finally:
        os.close(descriptor)


def _wait_for_end_of_parent(pid: int) -> None:
    """Until it is dead, or a zombie."""
    if os.getppid() == pid:
        descriptor = os.pidfd_open(pid)
        select.select([descriptor], [], [])
        os.close(descriptor)


def main() -> None:
    """Watch the parent process; when it ends, take back what it left below FOLDER and elsewhere."""
    owner = Owner(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    with _namespace_kept() as namespace:
        if namespace != owner.namespace:
            sys.exit("no session has started this, so what is in this namespace is not its own")
        before = record_of(owner)
        print("watching", flush=True)
        _wait_for_end_of_parent(owner.pid)
        problems = take_back(owner, before)
    with contextlib.suppress(OSError):  # nobody may read it any more
        for problem in problems:
            print(f"left by the root tests: {problem}", file=sys.stderr, flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
