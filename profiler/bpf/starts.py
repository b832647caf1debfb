"""From which directories a call's path leads below a rule's path, and by which names.

A call names a file by a path that starts at its root, its working directory or a directory that it
has open. If the start lies below the rule's path, so does the file. If it is a directory above, the
file does when the path begins with the names that lead from there to the rule's path.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from profiler.bpf.paths import REPEATING_INODES, Inode, locate

#: What one entry compares: LPM_DATA_SIZE_MAX (kernel/bpf/lpm_trie.c) less the number of the start.
NAMES_MAX_BYTES = 252


@dataclass(frozen=True)
class Way:
    """The names that lead from a directory down to a rule's path: from `/`, `b"data/images/"`."""

    start: Inode
    names: bytes


def ways_of(slots_of_path: Mapping[str, int]) -> dict[Way, int]:
    """The ways to each of the rules' paths but `/`, and their slots as bits. Raises UsageError."""
    slots_of_way: dict[Way, int] = {}
    for path, slots in slots_of_path.items():
        for way in ways_to(path):
            slots_of_way[way] = slots_of_way.get(way, 0) | slots
    return with_shorter(slots_of_way)


def ways_to(path: str) -> list[Way]:
    """Every way to an absolute path: as it is written, and as it is without symlinks; none to `/`.

    A file system that repeats its inode numbers can tell no directory from another, so on it only
    `/` is a start. Raises UsageError when a directory above the path cannot be opened, or the
    path is longer than the kernel compares.
    """
    ways: list[Way] = []
    for directory, names in dict.fromkeys([*splits(path), *splits(os.path.realpath(path))]):
        if len(names) > NAMES_MAX_BYTES:
            message = (
                f"the contract's path {printable(path)} is too long for calls that name a path"
            )
            raise UsageError(message, f"a path of at most {NAMES_MAX_BYTES} bytes can be profiled")
        start, fstype = locate(directory)
        if directory == "/" or fstype not in REPEATING_INODES:
            ways.append(Way(start, names))
    return list(dict.fromkeys(ways))


def splits(path: str) -> Iterator[tuple[str, bytes]]:
    """`/data/images` → (`/`, `data/images/`), (`/data`, `images/`)."""
    names = [name for name in path.split("/") if name]
    for at in range(len(names)):
        yield "/" + "/".join(names[:at]), os.fsencode("/".join(names[at:]) + "/")


def with_shorter(slots_of_way: Mapping[Way, int]) -> dict[Way, int]:
    """Each way's slots, with those of the shorter ways from its start that it begins with.

    The kernel finds the longest way that a path begins with, and no other.
    """
    return {
        way: functools.reduce(
            operator.or_,
            (
                slots
                for shorter, slots in slots_of_way.items()
                if shorter.start == way.start and way.names.startswith(shorter.names)
            ),
        )
        for way in slots_of_way
    }
