# SPDX-License-Identifier: Apache-2.0
"""Run a part of a test as an ordinary user, whoever runs the tests."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NOBODY = 65534


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Drop root's rights inside the block, so that the kernel refuses what it refuses any user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that an ordinary user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        try:
            yield Path(name)
        finally:
            for path in Path(name).rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)
