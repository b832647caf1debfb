"""File descriptors: to have none left, to close them, and to close those that take their time."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Iterator

from contracts.shared.errors import WritewiseError


def too_many_open_files() -> WritewiseError:
    """What to tell when this process has no file descriptors left."""
    hint = "raise the limit of this shell: ulimit -n 1024"
    return WritewiseError("too many files are open to load the probes", hint)


@contextlib.contextmanager
def descriptors_left() -> Iterator[None]:
    """Turn the error of having none left into that sentence. Raises WritewiseError."""
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
    """Close them, without waiting until the kernel has detached what they attach.

    To detach from one tracepoint takes 75 ms, in which the kernel waits for all CPUs and holds a
    lock, so that closing them side by side is no faster (kernel/trace/trace_event_perf.c,
    perf_trace_event_unreg, Linux 6.18). So a process that has nothing else open closes them last.
    """
    try:
        gate, opener = os.pipe()
    except OSError:
        close(descriptors)
        return
    with contextlib.suppress(OSError):  # no other process to be had: then we wait
        _start_closer(gate, {gate, *descriptors})
    os.close(gate)
    close(descriptors)
    os.close(opener)


def _start_closer(gate: int, kept: Collection[int]) -> None:
    """A process that keeps these open until nobody else holds the gate's other end."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:  # it has no parent that would have to wait for it
            os.setsid()
            os.chdir("/")  # it must not keep a volume from being unmounted
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
                if int(name) not in kept:
                    with contextlib.suppress(OSError):  # the one that listed them
                        os.close(int(name))
            os.read(gate, 1)
            close(kept)  # here rather than by ending: /proc shows what is left to do
    finally:
        os._exit(0)
