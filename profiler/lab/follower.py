# SPDX-License-Identifier: Apache-2.0
"""The process that follows the credits of the lab's volume and changes its cap.

Run as `python -m profiler.lab.follower`. It reads from the lab's folder what to follow, looks at
the device ten times a second, and changes the cap only if a bucket ran empty or has refilled:
constant changes can make the kernel hold throttled I/O. `lab down` ends it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from contracts.shared.errors import WritewiseError
from contracts.shared.writing import write_atomically
from profiler.lab import places
from profiler.lab.cap import Cap, CapLimits, cap_from_record
from profiler.lab.credits import BucketLevels, Moved, begin, counts_ios
from profiler.lab.emulated import Emulated, from_record
from sysctl.host.host import Host
from sysctl.host.system import System
from sysctl.volume.limits import Bucket

_SECTOR_BYTES = 512
_NICE = -10


@dataclass(frozen=True)
class Task:
    """What to follow: the volume, its cap, and the name of the capped device (`loop0`)."""

    emulated: Emulated
    cap: Cap
    device: str

    def store(self) -> None:
        """Write it for the process."""
        places.task().write_text(json.dumps(asdict(self)) + "\n")


@dataclass(frozen=True)
class BucketNow:
    """The level of a bucket; `unit` is bytes or I/Os."""

    owner: str
    level: float
    capacity: float
    unit: str


@dataclass(frozen=True)
class CreditsNow:
    """The credits, the present limits and their reason, and how often the cap was changed.

    `looked_s` is the time of the look, in s since the boot.
    """

    buckets: tuple[BucketNow, ...]
    rate_bytes_per_s: int
    iops: int | None
    limited_by: str
    changes: int
    looked_s: float


def read_task() -> Task:
    """Read what to follow. Raises OSError, ValueError, KeyError and TypeError."""
    data = json.loads(places.task().read_text())
    emulated = from_record(data["emulated"])
    if emulated is None:
        raise ValueError("no volume to follow")
    return Task(emulated, cap_from_record(data["cap"]), data["device"])


def read_now() -> CreditsNow | None:
    """Return the present credits; None if there are none or the file cannot be read."""
    try:
        data: Mapping[str, Any] = json.loads(places.credits_file().read_text())
        buckets = tuple(BucketNow(**each) for each in data["buckets"])
        return CreditsNow(**{**data, "buckets": buckets})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_now(now: CreditsNow) -> None:
    """Replace the present credits."""
    write_atomically(places.credits_file(), json.dumps(asdict(now)) + "\n")


class Follower:
    """Follows the credits step by step; `store` gets them after each step."""

    def __init__(
        self,
        task: Task,
        host: Host,
        clock: Callable[[], float],
        store: Callable[[CreditsNow], None],
    ) -> None:
        self._task, self._host, self._clock, self._store = task, host, clock, store
        self._indexes = {each: i for i, each in enumerate(task.emulated.all_limits())}
        self._limits_when = task.emulated.limits_when()
        self._changes = 0
        self._was_lifted = False
        self._moved = read_moved(host.system, task.device)
        self._looked_s = clock()
        self.credits: BucketLevels = begin(task.emulated.path(), task.emulated.levels())
        self._report()

    def step(self) -> None:
        """Read what the device has moved; change the cap if a bucket has emptied or refilled."""
        moved, now_s = read_moved(self._host.system, self._task.device), self._clock()
        is_lifted = self._task.cap.lost(self._host.system) is not None
        self.credits = self.credits.after(
            now_s - self._looked_s,
            moved.since(self._moved),
            was_lifted=is_lifted or self._was_lifted,
        )
        self._moved, self._looked_s, self._was_lifted = moved, now_s, is_lifted
        if not is_lifted:
            self._change()
        self._report()

    @property
    def _limits(self) -> CapLimits:
        """The limits that should be in force."""
        return self._limits_when[tuple(level <= 0 for level in self.credits.counted)]

    def _change(self) -> None:
        wanted = self._indexes[self._limits]
        if not self._task.cap.is_set(self._host.system, wanted):
            self._task.cap.change(self._host, wanted)
            self._changes += 1

    def _report(self) -> None:
        limits = self._limits
        buckets = tuple(map(_bucket_now, self.credits.path.buckets, self.credits.levels))
        self._store(
            CreditsNow(
                buckets,
                limits.rate_bytes_per_s,
                limits.iops,
                self.credits.ceiling.owner.value,
                self._changes,
                self._looked_s,
            )
        )


def _bucket_now(bucket: Bucket, level: float) -> BucketNow:
    unit = "I/Os" if counts_ios(bucket) else "bytes"
    return BucketNow(bucket.owner.value, level, bucket.capacity, unit)


def read_moved(system: System, device: str) -> Moved:
    """Return what a device has read and written (Documentation/block/stat.rst)."""
    words = [int(word) for word in system.read(f"/sys/block/{device}/stat").split()]
    return Moved((words[2] + words[6]) * _SECTOR_BYTES, words[0] + words[4])


def main() -> int:
    """Follow until SIGTERM; return 1, with a sentence in the log, if that is impossible."""
    try:
        host = Host(places.folder().parent, places.NAME)
        follower = Follower(read_task(), host, time.monotonic, write_now)
        while True:
            time.sleep(follower.credits.next_look_s)
            follower.step()
    except WritewiseError as error:
        print(error.message, file=sys.stderr)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"the lab's folder cannot be used: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    os.nice(_NICE)  # a pull that uses all CPUs must not delay it
    sys.exit(main())
