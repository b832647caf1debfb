# SPDX-License-Identifier: Apache-2.0
"""`--print-unit`: the option, and how a service's options are written in its unit of systemd."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def add_print_unit(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--print-unit", action="store_true", help="print a unit of systemd that runs it, and stop"
    )


def duration_word(duration_ns: int) -> str:
    """Return what a command reads as the same duration, or as the next longer millisecond."""
    ms = -(-duration_ns // 10**6)
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def unit_paths(destinations: Iterable[Path]) -> list[Path]:
    """Return the destinations without `..` and symlinks.

    systemd ignores RequiresMountsFor= of a path with `..`, and does not follow symlinks there.
    """
    return [destination.resolve() for destination in destinations]
