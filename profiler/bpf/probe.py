# SPDX-License-Identifier: Apache-2.0
"""A probe as data: C sources, the tracepoints they attach to, the structure members they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROBES_FOLDER = Path(__file__).parent / "probes"


@dataclass(frozen=True)
class Probe:
    """One probe. Its sources are files of `probes/`, in the order of compilation.

    Each of `tracepoints` (`category:name`) has its own program in the C (TRACEPOINT_PROBE), and so
    has each of `raw_tracepoints` (`name`; RAW_TRACEPOINT_PROBE). `functions` maps each program that
    serves several tracepoints to their names. Tracepoints in `optional` may be missing. `members`
    maps macros to members: OFFSET_FILE_INODE → file, f_inode; a macro BIT_… is the number of a bit
    within its byte. On a kernel without `structure` the probe is left out. `by_functions` says that
    its programs of system calls may attach to kernel functions instead (`functions.py`): each is
    then verified once for every call.
    """

    name: str
    sources: tuple[str, ...]
    tracepoints: tuple[str, ...] = ()
    raw_tracepoints: tuple[str, ...] = ()
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    structure: str = ""
    by_functions: bool = False

    @property
    def all_tracepoints(self) -> tuple[str, ...]:
        """All tracepoints that it attaches to, including optional ones."""
        shared = (name for names in self.functions.values() for name in names)
        return (*self.tracepoints, *self.raw_tracepoints, *shared)
