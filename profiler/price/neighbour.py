"""A neighbour of a pull: a program that writes 4 KiB and waits for fsync each second, and reads.

It stands for a database or a log on the same volume. It is a process of its own, since a thread of
the profiler would wait up to 5 ms for Python's lock after each system call; here nothing else runs,
and a timing is the monotonic clock around the calls alone.

- Each second it appends 4 KiB to a file and calls fsync; write and fsync are timed together.
- Half a second later it reads 4 KiB at a random place of another file with O_DIRECT, which was
  written before the pull, so each read meets the device. A file system that refuses O_DIRECT has
  no reads that would say anything of a device: none are timed there.

Both run in a thread each, so that a read does not wait for an fsync. A second that begins while the
call before is still under way is left out: an fsync of 20 s is one sample of 20 s.

It begins when its standard input has a line and ends when that is closed. It answers by lines in a
file in memory, which its parent reads however the neighbour ends (`profiler/price/process.py`):
`KIND begun NS` on the monotonic clock, then `KIND took NS` or `KIND failed REASON`.
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

#: What a neighbour writes, or reads, at a time: a page of the kernel.
BLOCK_BYTES = 4096
INTERVAL_NS = 10**9
#: The two kinds of calls, by their names in the answer.
FSYNC, READ = "fsync", "read"
BEGUN, TOOK, FAILED = "begun", "took", "failed"


def timed(kind: str, call: Callable[[], object], answer: Callable[[str], object]) -> None:
    """Make one call and answer how long it took. Raises OSError, after it was answered."""
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
    """Append a block and bring it to the device. Raises OSError."""
    os.write(descriptor, block)
    os.fsync(descriptor)


class DirectReads:
    """Reads of one block each at random places of a file that was opened with O_DIRECT."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._blocks = os.fstat(descriptor).st_size // BLOCK_BYTES
        self._memory = mmap.mmap(-1, BLOCK_BYTES)  # begins at a page, as O_DIRECT demands

    def at_random(self) -> Callable[[], int]:
        """Choose a place that the page cache does not have; what is returned reads its block.

        Some file systems take O_DIRECT and read through the page cache all the same.
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
    """Make both kinds of calls, each in its thread, until `wait_for_end` returns.

    The first fsync begins at once; a call that is under way at the end is waited for. Without
    `read_fd` nothing is read.
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
    """Run as a program: the parent's pid, three descriptors (-1: no reads), and the interval in ns.

    It dies with its parent.
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
