# SPDX-License-Identifier: Apache-2.0
"""The directories and names from which a call's path leads below a rule's path.

A call names a file by a path that starts at its root, its working directory or an open directory.
If that start is below the rule's path, so is the file. If it is above, the file is below the rule's
path when the call's path begins with the names that lead from the start to the rule's path.
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

#: LPM_DATA_SIZE_MAX (kernel/bpf/lpm_trie.c) less the number of the start.
NAMES_MAX_BYTES = 252


@dataclass(frozen=True)
class Route:
    """The names that lead from a directory to a rule's path, such as `b"data/images/"` from `/`."""

    start: Inode
    names: bytes


def routes_of(slots_of_path: Mapping[str, int]) -> dict[Route, int]:
    """Return the routes to all rules' paths except `/`, with slots as bits. Raises UsageError."""
    slots_of_route: dict[Route, int] = {}
    for path, slots in slots_of_path.items():
        for route in routes_to(path):
            slots_of_route[route] = slots_of_route.get(route, 0) | slots
    return with_shorter(slots_of_route)


def routes_to(path: str) -> list[Route]:
    """Return every route to an absolute path, as written and without symlinks; none to `/`.

    On a file system that repeats inode numbers, inodes do not identify directories, so only `/` is
    a start. Raises UsageError if a directory above the path cannot be opened, or the path is longer
    than the kernel compares.
    """
    routes: list[Route] = []
    for directory, names in dict.fromkeys([*splits(path), *splits(os.path.realpath(path))]):
        if len(names) > NAMES_MAX_BYTES:
            message = f"the contract's path {printable(path)} is too long to be profiled"
            raise UsageError(message, f"use a path of at most {NAMES_MAX_BYTES} bytes")
        start, fstype = locate(directory)
        if directory == "/" or fstype not in REPEATING_INODES:
            routes.append(Route(start, names))
    return list(dict.fromkeys(routes))


def splits(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield (`/`, `data/images/`) and (`/data`, `images/`) for `/data/images`."""
    names = [name for name in path.split("/") if name]
    for at in range(len(names)):
        yield "/" + "/".join(names[:at]), os.fsencode("/".join(names[at:]) + "/")


def with_shorter(slots_of_route: Mapping[Route, int]) -> dict[Route, int]:
    """Add to each route the slots of shorter routes from the same start that it begins with.

    The kernel finds only the longest route that a path begins with.
    """
    return {
        route: functools.reduce(
            operator.or_,
            (
                slots
                for shorter, slots in slots_of_route.items()
                if shorter.start == route.start and route.names.startswith(shorter.names)
            ),
        )
        for route in slots_of_route
    }
