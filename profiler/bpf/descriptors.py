# SPDX-License-Identifier: Apache-2.0
"""File descriptors: the error when none are left, and how to close slow ones."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Iterator

from contracts.shared.errors import WritewiseError


def too_many_open_files() -> WritewiseError:
    """Return the error for a process that has no file descriptors left."""
    hint = "raise this shell's limit: ulimit -n 1024"
    return WritewiseError("too many open files to load the probes", hint)


@contextlib.contextmanager
def descriptors_left() -> Iterator[None]:
    """Raise `too_many_open_files` for an EMFILE in the block."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        raise too_many_open_files() from None


def close(descriptors: Iterable[int]) -> None:
    """Close each of them."""
    for descriptor in descriptors:
        os.close(descriptor)


def close_attachments(descriptors: Collection[int]) -> None:
    """Close attachments without waiting until the kernel has detached them.

    Detaching from one tracepoint takes 75 ms, in which the kernel waits for all CPUs and holds a
    lock, so closing in parallel is no faster (kernel/trace/trace_event_perf.c,
    perf_trace_event_unreg, Linux 6.18). So a process that has nothing else open closes them last.
    """
    try:
        gate, opener = os.pipe()
    except OSError:
        close(descriptors)
        return
    with contextlib.suppress(OSError):  # without another process, this one waits
        _start_closer(gate, {gate, *descriptors})
    os.close(gate)
    close(descriptors)
    os.close(opener)


def _start_closer(gate: int, kept: Collection[int]) -> None:
    """Start a process that keeps these open until no other holds the pipe's other end."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:  # a grandchild, so that this process need not wait for it
            os.setsid()
            os.chdir("/")  # so that it does not keep a volume busy
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
                if int(name) not in kept:
                    with contextlib.suppress(OSError):  # the descriptor that listed them
                        os.close(int(name))
            os.read(gate, 1)
            close(kept)  # explicitly, so that /proc shows the remaining ones
    finally:
        os._exit(0)
