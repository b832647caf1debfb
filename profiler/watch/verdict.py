# SPDX-License-Identifier: Apache-2.0
"""Whether write-back slowed the writers of a profile, and the volumes and commands concerned."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.causes import Cause
from contracts.model import CallType
from profiler.bpf.disks import disk_number
from profiler.bpf.probes.waits import StalledWriter
from profiler.watch.causes import SLOW_SHARE, WhyInputs, main_cause, split
from sysctl.host.mount_table import Mount


class Answer(enum.Enum):
    """What the writers waited for; the value is the name in JSON."""

    WRITE_BACK = "write-back"
    DEVICE = "device"
    FSYNC = "fsync"
    OTHER = "other"
    NOTHING_WAITED = "nothing waited"
    NOT_WRITING = "not writing"


@dataclass(frozen=True)
class Share:
    """A command or a volume, and its share (0 to 1) of the sleeps in dirty throttling.

    A volume has the name of its mount's target, or of its device if it is not mounted.
    """

    name: str
    share: float


@dataclass(frozen=True)
class WriteBackVerdict:
    """The answer, with the time that all threads waited for that reason.

    `of_ns` is the total time of the calls. `cause` is that of the writes, None if they were not
    slow. `volumes` and `commands` are those that were throttled, the longest first.
    """

    answer: Answer
    waited_ns: int
    of_ns: int
    cause: Cause | None
    volumes: tuple[Share, ...] = ()
    commands: tuple[Share, ...] = ()


def verdict_of(why: WhyInputs, mounts: Sequence[Mount], sysfs: Path) -> WriteBackVerdict | None:
    """Return the verdict; None if the contract does not count writes."""
    if CallType.WRITE not in why.call_types:
        return None
    cause = main_cause(why)
    waited_ns = _waited_ns(why, cause)
    fsync_ns = why.fsyncs.latency_total_ns if why.fsyncs else 0
    if fsync_ns >= SLOW_SHARE * why.elapsed_ns and fsync_ns > waited_ns:
        return WriteBackVerdict(Answer.FSYNC, fsync_ns, fsync_ns, cause)
    in_calls_ns = why.calls.latency_total_ns
    if cause is Cause.THROTTLING:
        return WriteBackVerdict(
            Answer.WRITE_BACK,
            waited_ns,
            in_calls_ns,
            cause,
            _volumes(why.stalled, mounts, sysfs),
            _shares((each.command, each.planned_ns) for each in why.stalled),
        )
    if cause is None or cause is Cause.ON_CPU:
        is_writing = bool(why.calls.count)
        answer = Answer.NOTHING_WAITED if is_writing else Answer.NOT_WRITING
        return WriteBackVerdict(answer, 0, in_calls_ns, cause)
    answer = Answer.DEVICE if cause is Cause.DEVICE else Answer.OTHER
    return WriteBackVerdict(answer, waited_ns, in_calls_ns, cause)


def _waited_ns(why: WhyInputs, cause: Cause | None) -> int:
    if cause is None:
        return 0
    if cause is Cause.THROTTLING and why.is_throttled_elsewhere:
        return why.stall.total_ns
    return next(part.time_ns for part in split(why.calls) if part.cause is cause)


def _volumes(
    stalled: Iterable[StalledWriter], mounts: Sequence[Mount], sysfs: Path
) -> tuple[Share, ...]:
    return _shares((volume_name(each.device, mounts, sysfs), each.planned_ns) for each in stalled)


def _shares(times: Iterable[tuple[str, int]]) -> tuple[Share, ...]:
    together: Counter[str] = Counter()
    for name, time_ns in times:
        together[name] += time_ns
    whole = sum(together.values())
    return tuple(Share(name, time_ns / whole) for name, time_ns in together.most_common() if whole)


def volume_name(device: str, mounts: Sequence[Mount], sysfs: Path) -> str:
    """Return the shortest mount target on a backing device, or the device's name.

    A backing device is a whole disk; a mount may be of one of its partitions.
    """
    targets = [
        each.target for each in mounts if device in (each.device, disk_number(each.device, sysfs))
    ]
    return min(targets, key=len, default=device)
