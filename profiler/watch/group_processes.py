# SPDX-License-Identifier: Apache-2.0
"""The processes of a control group."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def processes_below(directory: Path) -> set[int]:
    """Return the processes of the group and of those below it; none if there is no group.

    A group that is removed meanwhile is skipped, by os.walk as well (Path.glob would raise).
    """
    found: set[int] = set()
    for group, _, _ in os.walk(directory):
        with contextlib.suppress(OSError):  # removed, or of the threaded kind
            listing = Path(group, "cgroup.procs").read_text(encoding="ascii")
            found.update(map(int, listing.split()))
    return found
