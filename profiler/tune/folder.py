"""The folder of a tuning: looked at before the search, which may take hours, written to after it.

A file of these names that Writewise did not write is neither replaced nor removed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.own_files import require_replaceable
from contracts.shared.text import printable
from contracts.shared.writing import create, directory_of, make_directories, remove
from profiler.tune.results import FIRST_COLUMNS
from sysctl.render.snippet import TITLE

SETTINGS_FILES = ("transfer.json", "transfer_config.py", "aws_config")
#: By what each file of ours is known.
_MARKS = {
    **dict.fromkeys(("tuning.json", "trials.parquet", "best.svg", *SETTINGS_FILES), TITLE),
    "trials.csv": ",".join(FIRST_COLUMNS),
}
_HINT = "name another folder with --output"


def prepare(folder: Path) -> None:
    """Make the folder where there is none, and try to write to it.

    Raises UsageError where one cannot, or where a file would be replaced that is not ours.
    """
    make_directories(folder)
    for name, mark in _MARKS.items():
        has_mark = functools.partial(_has, mark.encode())
        require_replaceable(folder / name, has_mark, "--output")
    probe = folder / f".writewise-{secrets.token_hex(8)}"
    with _told_of(folder):
        _replace(probe, b"")
        remove(probe)


def _has(mark: bytes, content: bytes) -> bool:
    return mark in content


def write(folder: Path, files: Mapping[str, bytes | None]) -> None:
    """Replace each file by its content, each at once; what has none is removed.

    Raises UsageError, before the first is written where `prepare` would.
    """
    prepare(folder)
    for name, content in files.items():
        with _told_of(folder / name):
            if content is None:
                remove(folder / name)
            else:
                _replace(folder / name, content)


@contextlib.contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {printable(str(path))}: {error.strerror}", _HINT) from None


def _replace(path: Path, content: bytes) -> None:
    """At once; a symlink that came meanwhile is replaced itself. Raises OSError."""
    temporary = f".writewise-{secrets.token_hex(8)}"
    with directory_of(path) as (directory, name):
        try:
            with os.fdopen(create(directory, temporary), "wb") as file:
                file.write(content)
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise
