# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the probes: contracts, runs, mounts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf.session import ProfileSession
from tests.root.hosts import SLOWNESS

WRITER = Path(__file__).with_name("writer.py")


def contract(*places: object) -> Contract:
    """Return a contract that counts writes for each path, or pair of path and size range."""
    pairs = [place if isinstance(place, tuple) else (place, SizeRange()) for place in places]
    rules = [
        Rule(f"rule{index}", str(path), (CallType.WRITE,), sizes, Measurement.COUNT, 1)
        for index, (path, sizes) in enumerate(pairs)
    ]
    return Contract(10**9, tuple(rules))


def writer(plan: str, directory: Path, rounds: int, size_bytes: int) -> list[str]:
    return [
        *(sys.executable, "-BS", str(WRITER), plan),
        *(str(directory), str(rounds), str(size_bytes)),
    ]


def run(session: ProfileSession, *command: object) -> str:
    """Run a command in the session's scope; return its standard output."""
    with session.tracking_new():
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    output = process.communicate(timeout=60 * SLOWNESS)[0]
    assert process.returncode == 0
    return output


def write(session: ProfileSession, path: object, calls: int = 1, size_bytes: int = 100) -> None:
    run(session, "dd", "if=/dev/zero", f"of={path}", f"bs={size_bytes}", f"count={calls}",
        "status=none", "conv=notrunc")  # fmt: skip


@contextlib.contextmanager
def mounted(directory: Path, *arguments: object) -> Iterator[Path]:
    """Run `mount ARGUMENTS DIRECTORY`; always unmount at the end."""
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", *map(str, arguments), str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)
