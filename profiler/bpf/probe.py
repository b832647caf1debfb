"""What a probe is: C sources, the tracepoints they attach to, the structure members they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROBES_FOLDER = Path(__file__).parent / "probes"


@dataclass(frozen=True)
class Probe:
    """One probe. Its sources are files of `probes/`, in the order in which they are compiled.

    `tracepoints` (`category:name`) have a program of their own in the C (TRACEPOINT_PROBE), as have
    `raw_tracepoints` (`name`; RAW_TRACEPOINT_PROBE); `functions` names each program that serves
    several tracepoints, and these. Those in `optional` are left out on a kernel without them.
    `members` names the number that the C knows an offset by and the member that it is of:
    OFFSET_FILE_INODE → file, f_inode; a name that begins with BIT_ is that of a bit within the byte
    at the offset. On a kernel without `structure` the whole probe is left out.
    """

    name: str
    sources: tuple[str, ...]
    tracepoints: tuple[str, ...] = ()
    raw_tracepoints: tuple[str, ...] = ()
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    structure: str = ""

    @property
    def all_tracepoints(self) -> tuple[str, ...]:
        """Everything that it attaches to, optional ones included."""
        shared = (name for names in self.functions.values() for name in names)
        return (*self.tracepoints, *self.raw_tracepoints, *shared)
