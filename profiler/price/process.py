# SPDX-License-Identifier: Apache-2.0
"""The process of a neighbour: started before a pull, run during it, and read after it.

A failure of it means missing figures, and never ends a trial.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from contracts.shared.environment import for_programs
from contracts.shared.errors import WritewiseError
from contracts.shared.own_module import own_module
from profiler.price.neighbour import BEGUN, BLOCK_BYTES, FAILED, FSYNC, INTERVAL_NS, READ, TOOK
from profiler.pull.destination import Destination
from sysctl.evidence.price_seen import Latency

#: The size of the file that is read: 4,096 blocks, and small compared with a pull.
READ_FILE_BYTES = 16 * 2**20
#: How long to wait for a running call once everything else is durable; then it counts as a sample.
_GRACE_S = 10.0
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Calls:
    """A neighbour's answers about one kind of call: how long each took, in ns.

    `running_since_ns` is when a call began that has not ended, on the monotonic clock. `failure` is
    why there are no more calls.
    """

    took_ns: list[int] = field(default_factory=list)
    running_since_ns: int | None = None
    failure: str = ""

    @property
    def begun(self) -> int:
        """Number of calls that began."""
        return len(self.took_ns) + (self.running_since_ns is not None) + bool(self.failure)

    def latency(self) -> Latency | None:
        """Return the median and the maximum, in s; None if no call has ended."""
        times_s = [time_ns / 1e9 for time_ns in self.took_ns]
        if not times_s:
            return None
        return Latency(statistics.median(times_s), max(times_s), len(times_s))

    def end(self, now_ns: int) -> None:
        """Count a call that is still running as one that took until now."""
        if self.running_since_ns is not None:
            self.took_ns.append(now_ns - self.running_since_ns)
            self.running_since_ns = None


def parse_answer(text: str) -> dict[str, Calls]:
    """Return the calls by kind; an incomplete line is ignored."""
    calls = {kind: Calls() for kind in (FSYNC, READ)}
    for line in text.splitlines(keepends=True):
        kind, _, rest = line.partition(" ")
        what, _, value = rest.partition(" ")
        if kind not in calls or not value.endswith("\n"):
            continue
        found = calls[kind]
        if what == BEGUN:
            found.running_since_ns = int(value)
        elif what == TOOK:
            found.took_ns.append(int(value))
            found.running_since_ns = None
        elif what == FAILED:
            found.failure, found.running_since_ns = value.strip(), None
    return calls


class Neighbour:
    """A neighbour in the folder of one trial, for one pull.

    Enter it before the host settles: it writes its files, waits until they are on the device, and
    starts the process. Enter `running` while the pull is observed; afterwards `fsync` and `read`
    have the calls. The folder's owner deletes the files with the folder. `clock_ns` is the
    monotonic clock.
    """

    def __init__(
        self,
        folder: Path,
        *,
        interval_ns: int = INTERVAL_NS,
        grace_s: float = _GRACE_S,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.fsync = self.read = Calls()
        self._folder = folder
        self._interval_ns = interval_ns
        self._grace_s = grace_s
        self._clock_ns = clock_ns
        self._problems: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._answer_fd = -1
        self._resources = ExitStack()

    @property
    def problem(self) -> str | None:
        """Why figures are missing or incomplete; None if they are complete."""
        return "; ".join(self._problems) or None

    @property
    def dirtied_bytes(self) -> int:
        """Bytes that it dirtied, which are neither the pull's nor another program's."""
        return self.fsync.begun * BLOCK_BYTES

    @property
    def pid(self) -> int | None:
        """Its process id; None before it starts and after it has ended."""
        return self._process.pid if self._process else None

    @property
    def answered_bytes(self) -> int:
        """Size of its answers so far, which grows with each call."""
        return os.fstat(self._answer_fd).st_size

    def __enter__(self) -> Neighbour:
        try:
            self._prepare()
        except (OSError, WritewiseError) as error:
            reason = error.message if isinstance(error, WritewiseError) else error.strerror
            self._problems.append(f"the neighbour could not run: {reason}")
            self._close()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run it within the block.

        A call that is running at the end is waited for, at most for `grace_s`; if the block raises,
        it is killed at once.
        """
        if self._process is None:
            yield
            return
        try:
            self._send(b"go\n")
            yield
        except BaseException:
            self._close()
            raise
        self._end(self._process)

    def _prepare(self) -> None:
        """Make the files and start the process. Raises OSError and WritewiseError."""
        with ExitStack() as files:
            folder_fd = files.enter_context(Destination(self._folder).open())
            write_fd = _closed_by(files, file_to_append(folder_fd))
            read_fd = self._readable(files, folder_fd)
            self._answer_fd = _closed_by(self._resources, os.memfd_create("neighbour"))
            descriptors = (write_fd, read_fd, self._answer_fd)
            numbers = [str(each) for each in (os.getpid(), *descriptors, self._interval_ns)]
            self._process = subprocess.Popen(
                [sys.executable, *own_module("profiler.price.neighbour"), *numbers],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=for_programs(),
                pass_fds=[each for each in descriptors if each >= 0],
                start_new_session=True,  # Ctrl-C goes to the sweep, which ends the neighbour
            )

    def _readable(self, files: ExitStack, folder_fd: int) -> int:
        """Return a descriptor of the file to read; -1 if it cannot be read with O_DIRECT."""
        try:
            return _closed_by(files, _random_file(folder_fd))
        except OSError as error:
            is_refused = error.errno == errno.EINVAL
            why = "the file system refuses O_DIRECT" if is_refused else error.strerror
            self._problems.append(f"reads were not timed: {why}")
            return -1

    def _send(self, line: bytes) -> None:
        """Write to its standard input; if it has already ended, its answers show it."""
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Let it end, and read its answers."""
        if process.stdin:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            code: int | None = process.wait(self._grace_s)
        except subprocess.TimeoutExpired:
            code = None
        now_ns = self._clock_ns()
        self._close_process(process)
        text = os.pread(self._answer_fd, self.answered_bytes, 0).decode()
        calls = parse_answer(text)
        self.fsync, self.read = calls[FSYNC], calls[READ]
        self._problems += _problems(code, calls)
        if code is None:
            for each in calls.values():
                each.end(now_ns)

    def _close(self) -> None:
        if self._process is not None:
            self._close_process(self._process)
        self._resources.close()

    def _close_process(self, process: subprocess.Popen[bytes]) -> None:
        """Kill it if it is running, and wait for its end.

        A call that waits for the device must end first, so nothing of it outlives the trial.
        """
        process.kill()
        process.wait()
        if process.stdin:
            with contextlib.suppress(OSError):
                process.stdin.close()
        self._process = None


def _problems(code: int | None, calls: dict[str, Calls]) -> Iterator[str]:
    """Yield the problems shown by its exit code (None: it did not end) and its answers."""
    for kind, of_kind in calls.items():
        if of_kind.failure:
            count = len(of_kind.took_ns)
            yield f"the neighbour's {kind} failed after {count} calls: {of_kind.failure}"
        elif code is None and of_kind.running_since_ns is not None:
            yield f"the neighbour's last {kind} had not ended when everything else was durable"
    if code is not None and code < 0:
        yield f"the neighbour was killed by {signal.Signals(-code).name}"
    elif code:
        yield f"the neighbour failed (exit {code})"


def _closed_by(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def file_to_append(folder_fd: int) -> int:
    """Make a file to append to, with its first block on the device. Raises OSError."""
    flags = _NEW_FILE | os.O_WRONLY | os.O_APPEND
    descriptor = os.open(_name("fsync"), flags, 0o600, dir_fd=folder_fd)
    try:
        os.write(descriptor, bytes(BLOCK_BYTES))
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _random_file(folder_fd: int) -> int:
    """Write a file of random bytes to the device and open it with O_DIRECT.

    Raises OSError, with EINVAL if the file system refuses O_DIRECT; then no file is left.
    """
    name = _name("reads")
    written = os.open(name, _NEW_FILE | os.O_WRONLY, 0o600, dir_fd=folder_fd)
    try:
        _write_all(written, secrets.token_bytes(READ_FILE_BYTES))
        os.fsync(written)
        flags = os.O_RDONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=folder_fd)
    except BaseException:
        os.unlink(name, dir_fd=folder_fd)
        raise
    finally:
        os.close(written)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _name(kind: str) -> str:
    return f".writewise-neighbour-{secrets.token_hex(8)}-{kind}"
