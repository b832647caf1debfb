# SPDX-License-Identifier: Apache-2.0
"""The lines that `writewise watch` prints when it begins."""

from __future__ import annotations

from collections.abc import Sequence

from contracts.shared.units import counted, format_seconds


def begin_line(disks: Sequence[str], *, counts_calls: bool, escalates_s: float | None) -> str:
    """Return what is measured, and at which level."""
    what = f"write-back and {', '.join(disks)}" if disks else "write-back (no disk)"
    if counts_calls:
        return f"watching {what}, and every call of the contract (level calls)"
    then = (
        f"; calls for {format_seconds(escalates_s)} when writers are throttled"
        if escalates_s is not None
        else ""
    )
    return f"watching {what} (level stalls: no system call costs more){then}"


def notes(left_out: Sequence[str], open_to: str | None) -> list[str]:
    """Return sentences on disks left out, and on an address that other hosts can reach."""
    found = []
    if left_out:
        found.append(f"{counted(len(left_out), 'disk')} left out: {', '.join(left_out)}; name DEST")
    if open_to:
        found.append(f"everybody who reaches {open_to} can read the metrics")
    return found
