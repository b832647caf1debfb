# SPDX-License-Identifier: Apache-2.0
"""A neighbour of a pull: a program that once a second writes 4 KiB with fsync, and reads 4 KiB.

It represents a database or a log on the same volume. It is a separate process, because a thread of
the profiler would wait up to 5 ms for Python's global lock after each system call.

- Each second it appends 4 KiB to a file and calls fsync; write and fsync are timed together.
- Half a second later it reads 4 KiB at a random position of another file with O_DIRECT. That file
  was written before the pull, so each read reaches the device. On a file system that refuses
  O_DIRECT, reads would say nothing about a device, so none are timed.

Each has its own thread, so that a read does not wait for an fsync. A call that is due while the one
before is running is skipped: an fsync of 20 s is one sample of 20 s.

It starts when its standard input has a line and ends when that is closed. It writes its answers to
a file in memory, which its parent reads however the neighbour ends (`profiler/price/process.py`):
lines of `KIND begun NS`, with the monotonic clock, and `KIND took NS` or `KIND failed REASON`.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from contracts.shared.processes import die_with_parent
from profiler.watch.ticker import Beat, Ticker

#: The size of its writes and reads: a page of the kernel.
BLOCK_BYTES = 4096
INTERVAL_NS = 10**9
#: The two kinds of calls, as named in the answers.
FSYNC, READ = "fsync", "read"
BEGUN, TOOK, FAILED = "begun", "took", "failed"


def timed(kind: str, call: Callable[[], object], answer: Callable[[str], object]) -> None:
    """Make one call and answer how long it took. Raises OSError, after answering it."""
    answer(f"{kind} {BEGUN} {time.monotonic_ns()}\n")
    begun_ns = time.monotonic_ns()
    try:
        call()
    except OSError as error:
        answer(f"{kind} {FAILED} {error.strerror}\n")
        raise
    ended_ns = time.monotonic_ns()
    answer(f"{kind} {TOOK} {ended_ns - begun_ns}\n")


def fsync_once(descriptor: int, block: bytes) -> None:
    """Append a block and fsync it. Raises OSError."""
    os.write(descriptor, block)
    os.fsync(descriptor)


class DirectReads:
    """Reads of one block at random positions of a file that was opened with O_DIRECT."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._blocks = os.fstat(descriptor).st_size // BLOCK_BYTES
        self._memory = mmap.mmap(-1, BLOCK_BYTES)  # page-aligned, as O_DIRECT requires

    def at_random(self) -> Callable[[], int]:
        """Drop a random block from the page cache and return a function that reads it.

        Some file systems accept O_DIRECT but still read through the page cache.
        """
        at = secrets.randbelow(self._blocks) * BLOCK_BYTES
        os.posix_fadvise(self._descriptor, at, BLOCK_BYTES, os.POSIX_FADV_DONTNEED)
        return partial(os.preadv, self._descriptor, [self._memory], at)


def run(
    write_fd: int,
    read_fd: int | None,
    answer_fd: int,
    interval_ns: int,
    wait_for_end: Callable[[], object],
) -> None:
    """Make both kinds of calls, each in its own thread, until `wait_for_end` returns.

    The first fsync begins at once; running calls are waited for at the end. Without `read_fd`
    nothing is read.
    """

    def answer(line: str) -> None:
        os.write(answer_fd, line.encode())

    block = secrets.token_bytes(BLOCK_BYTES)
    fsync = Beat(interval_ns, partial(timed, FSYNC, partial(fsync_once, write_fd, block), answer))
    first_ns = time.monotonic_ns() - interval_ns
    with ExitStack() as stack:
        stack.enter_context(Ticker([fsync], start_ns=first_ns))
        if read_fd is not None:
            reads = DirectReads(read_fd)
            read = Beat(interval_ns, lambda: timed(READ, reads.at_random(), answer))
            stack.enter_context(Ticker([read], start_ns=first_ns + interval_ns // 2))
        wait_for_end()


def main(arguments: Sequence[str]) -> None:
    """Run as a program; its arguments are the parent's pid, three descriptors and the interval.

    A descriptor of -1 means no reads, the interval is in ns. It dies with its parent.
    """
    parent_pid, write_fd, read_fd, answer_fd, interval_ns = map(int, arguments)
    die_with_parent(parent_pid)
    if sys.stdin.buffer.readline():
        run(
            write_fd,
            None if read_fd < 0 else read_fd,
            answer_fd,
            interval_ns,
            wait_for_end=sys.stdin.buffer.read,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
