# SPDX-License-Identifier: Apache-2.0
"""Build `load.c`, the program that writes as fast as it can and prints how often."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("load.c")


def compiler() -> str | None:
    """Return the C compiler, which only tests and benchmarks need; None if it is missing."""
    return shutil.which("cc")


def build(directory: Path, source: Path = SOURCE) -> Path:
    """Compile a program into a directory; return its path."""
    program = directory / source.stem
    command = ["cc", "-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-o", program, source]
    subprocess.run(list(map(str, command)), check=True)
    return program
