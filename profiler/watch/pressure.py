# SPDX-License-Identifier: Apache-2.0
"""The kernel's totals of the time in which tasks waited: /proc/pressure (PSI)."""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(rb"^(some|full) .*total=(\d+)$", re.MULTILINE)
_NS_PER_US = 1000


def read_pressure(path: Path) -> tuple[int | None, int | None]:
    """Return the totals of `some` and `full` in ns; None without CONFIG_PSI or with psi=0."""
    try:
        return parse_pressure(path.read_bytes())
    except OSError:  # the file is missing, or cannot be read with psi=0
        return None, None


def parse_pressure(text: bytes) -> tuple[int | None, int | None]:
    """Return the totals of `some` and `full` in ns; None for a line that is not there."""
    totals = dict(_LINE.findall(text))
    some_ns, full_ns = (
        int(totals[kind]) * _NS_PER_US if kind in totals else None for kind in (b"some", b"full")
    )
    return some_ns, full_ns
