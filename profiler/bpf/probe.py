"""What a probe is: C sources, the tracepoints they attach to, the structure members they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROBES_FOLDER = Path(__file__).parent / "probes"


@dataclass(frozen=True)
class Probe:
    """One probe. Its sources are files of `probes/`, in the order in which they are compiled.

    `tracepoints` (`category:name`) are all that it attaches to. `members` names the number that
    the C knows an offset by and the member that it is of: OFFSET_FILE_INODE → file, f_inode.
    """

    name: str
    sources: tuple[str, ...]
    tracepoints: tuple[str, ...]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
