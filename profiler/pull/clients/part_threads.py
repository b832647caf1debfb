# SPDX-License-Identifier: Apache-2.0
"""Threads that fetch the parts of several objects at a time.

The kernel lets only one thread at a time write to a file. So each thread takes the next part of the
object with the fewest threads; with enough objects, every file has one writer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

#: Raises Abandoned once another part of the object has failed.
Check = Callable[[], None]
#: Fetches one part, calling the check repeatedly.
Fetch = Callable[[range, Check], object]


class Abandoned(Exception):  # noqa: N818 - not an error: the part is no longer needed
    """Another part of the object has failed."""


class _Object:
    """The parts of one object that wait, and the number of threads that fetch others."""

    def __init__(self, parts: Iterable[range], fetch: Fetch) -> None:
        self.waiting, self.fetch = deque(parts), fetch
        self.at_work = 0
        self.error: BaseException | None = None

    def check(self) -> None:
        if self.error is not None:
            raise Abandoned


class PartThreads:
    """`count` threads for the life of the process."""

    def __init__(self, count: int) -> None:
        self._objects: list[_Object] = []
        self._changed = threading.Condition()
        for number in range(count):
            threading.Thread(target=self._work, name=f"part-{number}", daemon=True).start()

    def run(self, parts: Iterable[range], fetch: Fetch) -> None:
        """Call `fetch` with each of the `parts`, in as many threads as are free.

        Raises the first exception of a call; then waiting parts are not begun, running parts are
        abandoned, and all have ended.
        """
        mine = _Object(parts, fetch)
        with self._changed:
            self._objects.append(mine)
            self._changed.notify_all()
            while mine.waiting or mine.at_work:
                self._changed.wait()
            self._objects.remove(mine)
        if mine.error is not None:
            raise mine.error

    @property
    def objects_under_way(self) -> int:
        """Number of calls of `run` with unfinished parts."""
        return len(self._objects)

    def _work(self) -> None:
        while True:
            with self._changed:
                while (mine := self._next()) is None:
                    self._changed.wait()
                part = mine.waiting.popleft()
                mine.at_work += 1
            error = _error_of(mine, part)
            with self._changed:
                mine.at_work -= 1
                if error is not None:
                    mine.error = mine.error or error
                    mine.waiting.clear()
                self._changed.notify_all()

    def _next(self) -> _Object | None:
        begun = (each for each in self._objects if each.waiting)
        return min(begun, key=lambda each: each.at_work, default=None)


def _error_of(mine: _Object, part: range) -> BaseException | None:
    try:
        mine.fetch(part, mine.check)
    except BaseException as error:
        return error
    return None
