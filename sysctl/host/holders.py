# SPDX-License-Identifier: Apache-2.0
"""Who holds settings that are in force only while their holders live (`writewise run`).

Each holder has a file, `run-PID.json`, in the state directory. All holders have the same settings.
Files are made, renamed and removed only under the lock of every writer, so the last one that leaves
knows that it is the last. To leave is to delete a file, which needs no space. A holder that was
killed does not count: its file names a process, with its start time, that no longer runs.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sysctl.host.lock import LockedError
from sysctl.host.system import HostError, System, host_errors

FORMAT = "writewise-run"
FORMAT_VERSION = 1
_MAX_BYTES = 2**16


@dataclass(frozen=True)
class Holder:
    """A process that holds settings: what runs under them, and since when (ISO 8601).

    `start_ticks` identifies the process together with the pid. `settings` are by name, as asked
    for. `is_draining`: its command has returned, and it waits until the data is on the device.
    """

    pid: int
    start_ticks: int
    boot_id: str
    command: str
    since: str
    settings: Mapping[str, str]
    is_draining: bool = False

    @property
    def words(self) -> str:
        """The settings in words."""
        return ", ".join(f"{name} = {value}" for name, value in self.settings.items())

    def is_alive(self, system: System) -> bool:
        """Return whether the process still runs."""
        return (
            self.boot_id == system.boot_id()
            and system.process_start_ticks(self.pid) == self.start_ticks
            and system.is_running(self.pid)
        )

    def __str__(self) -> str:
        return f"run of {self.command}, process {self.pid} since {self.since}"


def living(directory: Path, system: System) -> tuple[Holder, ...]:
    """Return the holders that run, the oldest first. Raises HostError."""
    found = (_read(path) for path in _files(directory))
    alive = [holder for holder in found if holder and holder.is_alive(system)]
    return tuple(sorted(alive, key=lambda holder: (holder.since, holder.pid)))


def require_none(directory: Path, system: System) -> None:
    """Raise LockedError if anybody holds settings; else remove what killed holders left.

    To be called with the lock of every writer.
    """
    holders = living(directory, system)
    if holders:
        more = f", and {len(holders) - 1} more" * (len(holders) > 1)
        raise LockedError(
            f"another writewise is running on this host: {holders[0]}{more}, with "
            f"{holders[0].words}",
            f"wait until it ends, or stop it with `kill {holders[0].pid}`: it restores what it "
            "changed",
        )
    with host_errors(f"tidy {directory}"):
        for path in [*_files(directory), *directory.glob("run-*.new")]:
            path.unlink(missing_ok=True)


def enter(directory: Path, holder: Holder) -> None:
    """Make the holder's file, all at once. Raises HostError."""
    target = _path(directory, holder.pid)
    new = target.with_suffix(".new")
    text = json.dumps({"format": FORMAT, "version": FORMAT_VERSION, **asdict(holder)})
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with host_errors(f"write {target}"):
        try:
            with os.fdopen(os.open(new, flags, 0o600), "w", encoding="ascii") as file:
                file.write(text)
            new.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise


def leave(directory: Path, holder: Holder) -> None:
    """Delete the holder's file. Raises HostError."""
    path = _path(directory, holder.pid)
    with host_errors(f"delete {path}"):
        path.unlink(missing_ok=True)


def is_entered(directory: Path, holder: Holder) -> bool:
    """Return whether the holder's file is there: nobody has taken it for dead."""
    return _path(directory, holder.pid).exists()


def _path(directory: Path, pid: int) -> Path:
    return directory / f"run-{pid}.json"


def _files(directory: Path) -> Iterator[Path]:
    return iter(sorted(directory.glob("run-*.json")))


def _read(path: Path) -> Holder | None:
    """Return the holder of a file; None if the file is gone or empty. Raises HostError.

    A file has its name only once it is complete, so in the same boot nobody sees it empty.
    """
    with host_errors(f"read {path}"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MAX_BYTES)
    if not data.strip(b"\0"):  # a power cut before the kernel wrote the data: of an earlier boot
        return None
    try:
        return _holder(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HostError(
            f"{path} is damaged, or another version wrote it",
            "check with `ps` that no `writewise run` is running, then remove the file",
        ) from None


def _holder(data: Any) -> Holder:
    """Return the holder of a document. Raises KeyError, TypeError or ValueError."""
    if (data["format"], data["version"]) != (FORMAT, FORMAT_VERSION):
        raise ValueError
    values = {field.name: data[field.name] for field in fields(Holder)}
    settings = dict(values["settings"])
    texts = [values["boot_id"], values["command"], values["since"], *settings, *settings.values()]
    numbers = [values["pid"], values["start_ticks"]]
    if not all(isinstance(text, str) for text in texts) or not all(
        type(number) is int for number in numbers
    ):
        raise TypeError
    return Holder(**values)
