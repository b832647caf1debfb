"""Work that no signal can tear in the middle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def uninterrupted(work: Callable[[], T], discard: Callable[[T], object] | None = None) -> T:
    """Run `work` to its end in a thread of its own, whatever signals come, and return its result.

    Python runs signal handlers in the main thread. What one raises here (Ctrl-C) is raised when
    the work has ended and its result, which nobody will get, has been given to `discard`.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="uninterrupted")
    thread.start()
    interruptions = _wait_for(ended)
    thread.join()
    if interruptions and discard:
        for result in results:
            discard(result)
    for error in interruptions + failures:
        raise error
    return results[0]


def _wait_for(ended: threading.Event) -> list[BaseException]:
    """What was raised while waiting; not `Thread.join`, which takes a signal for the end (3.11)."""
    raised: list[BaseException] = []
    while not ended.is_set():
        try:
            ended.wait()
        except BaseException as error:
            raised.append(error)
    return raised
