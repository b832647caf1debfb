"""How many dirty bytes a host holds at most while something runs: what a power loss would take."""

from __future__ import annotations

import threading
from pathlib import Path

_INTERVAL_S = 0.05
_FIELDS = ("Dirty:", "Writeback:")


def read_dirty_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Dirty and under write-back on the whole host, in bytes."""
    lines = (line.split() for line in meminfo.read_text().splitlines())
    return sum(int(words[1]) * 1024 for words in lines if words[0] in _FIELDS)


class PeakDirty:
    """Samples every 50 ms in a thread; `peak_bytes` is what was added at most since the entry."""

    def __init__(self, meminfo: Path = Path("/proc/meminfo")) -> None:
        self._meminfo = meminfo
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> PeakDirty:
        self._before_bytes = read_dirty_bytes(self._meminfo)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            added_bytes = read_dirty_bytes(self._meminfo) - self._before_bytes
            self.peak_bytes = max(self.peak_bytes, added_bytes)
            if self._stop.wait(_INTERVAL_S):
                return
