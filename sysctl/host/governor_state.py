# SPDX-License-Identifier: Apache-2.0
"""What the governor is doing and has done: a file that it keeps in /run for other programs.

    state = read_governor_state()
    if state and state.is_running(): …

Everybody may read it. It is replaced whole, so a reader never sees half of it. The days stay when
the governor starts again; a boot removes them. `is_running` recognises the file of a governor that
was killed: its process is gone, or the host has booted since.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from sysctl.host.host import GOVERN, runtime_directory
from sysctl.host.system import System

SCHEMA = "writewise-govern-state"
VERSION = 1
FILE_NAME = f"{GOVERN}.json"
#: The days that are kept.
MAX_DAYS = 31
_MAX_BYTES = 2**18
T = TypeVar("T")


@dataclass(frozen=True)
class BurstSums:
    """What bursts add up to, and how long somebody governed (s).

    `unknown_savings` counts bursts whose saved time is unknown. `peak_at_risk_bytes` is the most
    that was dirty or under write-back on the host during one of them.
    """

    governed_s: float = 0.0
    bursts: int = 0
    arrived_bytes: int = 0
    return_s: float = 0.0
    raised_s: float = 0.0
    saved_s: float = 0.0
    unknown_savings: int = 0
    peak_at_risk_bytes: int = 0

    def __add__(self, other: BurstSums) -> BurstSums:
        """Return both together: the larger peak, and the sums of the rest."""
        peak = max(self.peak_at_risk_bytes, other.peak_at_risk_bytes)
        names = [each.name for each in fields(BurstSums) if each.name != "peak_at_risk_bytes"]
        added = {name: getattr(self, name) + getattr(other, name) for name in names}
        return BurstSums(**added, peak_at_risk_bytes=peak)


@dataclass(frozen=True)
class GovernedDay:
    """A local day (`2026-11-23`), and whether its summary was printed."""

    date: str
    sums: BurstSums = field(default_factory=BurstSums)
    is_reported: bool = False


@dataclass(frozen=True)
class LastBurst:
    """The last burst for which thresholds were raised. `saved_s` None: unknown."""

    began_at: str
    volumes: tuple[str, ...]
    arrived_bytes: int
    return_s: float
    raised_s: float
    peak_at_risk_bytes: int
    saved_s: float | None
    ended_by: str


@dataclass(frozen=True)
class StoodDown:
    """Why the governor changes nothing more: thresholds that another program has changed."""

    at: str
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True)
class GovernorState:
    """A governor's process, its bounds, what is in force, and its accounts. Times are ISO 8601.

    `max_at_risk_bytes` None is a quarter of the available memory; `max_raise_s` None is no limit.
    `changed_at` is when `is_raised` last changed. `sums` are of this process, `days` of all, the
    newest last. `ended_at` is None while it runs, and after it was killed.
    """

    pid: int
    start_ticks: int
    boot_id: str
    purpose: str
    since: str
    written_at: str
    volumes: tuple[str, ...]
    max_at_risk_bytes: int | None
    max_raise_s: float | None
    at_rest: Mapping[str, int]
    is_raised: bool = False
    changed_at: str | None = None
    sums: BurstSums = field(default_factory=BurstSums)
    days: tuple[GovernedDay, ...] = ()
    last_burst: LastBurst | None = None
    stood_down: StoodDown | None = None
    ended_at: str | None = None

    def is_running(self, system: System | None = None) -> bool:
        """Return whether the governor still runs."""
        host = system or System()
        return (
            self.ended_at is None
            and self.boot_id == host.boot_id()
            and host.process_start_ticks(self.pid) == self.start_ticks
            and host.is_running(self.pid)
        )

    def day(self, date: str) -> GovernedDay:
        """Return a day; one without bursts if it is not known."""
        return next((each for each in self.days if each.date == date), GovernedDay(date))

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {"schema": SCHEMA, "version": VERSION, **asdict(self)}


def read_governor_state(directory: Path | None = None) -> GovernorState | None:
    """Return what the last governor wrote; None if there is nothing that this version can read."""
    path = (directory or runtime_directory()) / FILE_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            document = json.loads(file.read(_MAX_BYTES))
        return state_of(document)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_governor_state(state: GovernorState, directory: Path | None = None) -> None:
    """Replace the file (mode 0644), all at once and without waiting for a device.

    The directory becomes readable for all; its journal stays root's own. Raises OSError.
    """
    folder = directory or runtime_directory()
    folder.chmod(0o755)
    new, text = folder / f"{FILE_NAME}.new", json.dumps(state.to_json())
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(new, flags, 0o644), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the umask is
            file.write(text)
        new.replace(folder / FILE_NAME)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def state_of(document: Any) -> GovernorState:
    """Return the state of a document (`to_json`). Raises KeyError, TypeError and ValueError."""
    if (document["schema"], document["version"]) != (SCHEMA, VERSION):
        raise ValueError
    values = {name: value for name, value in document.items() if name not in ("schema", "version")}
    burst, stood_down = values["last_burst"], values["stood_down"]
    return _made(
        GovernorState,
        {
            **values,
            "volumes": tuple(map(str, values["volumes"])),
            "sums": _made(BurstSums, values["sums"]),
            "days": tuple(_day(each) for each in values["days"]),
            "last_burst": burst and _made(LastBurst, {**burst, "volumes": tuple(burst["volumes"])}),
            "stood_down": stood_down and _made(StoodDown, stood_down),
        },
    )


def _day(document: Any) -> GovernedDay:
    return _made(GovernedDay, {**document, "sums": _made(BurstSums, document["sums"])})


def _made(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the dataclass of a document's values; keys that it does not know are left out."""
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in known})
