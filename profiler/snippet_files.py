"""The files of an advice in a folder: written, and those of an earlier advice taken out of it.

Of two files that contradict each other the wrong one may be installed. What is not ours stays.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from contracts.errors import UsageError
from contracts.text import printable
from contracts.writing import directory_of, make_directories, write_atomically
from profiler.beneath import open_file_beneath
from sysctl.recommendation import RecommendedChange
from sysctl.render.formats import EVERY_FILE, FORMATS, Format, render_all
from sysctl.render.snippet import Snippet

#: No file of ours is as large.
_MAX_BYTES = 2**20


def write_snippets(snippets: Iterable[Snippet], folder: Path) -> list[Path]:
    """Write them, in a new folder if there is none; the paths.

    Raises UsageError, before the first is written where one would replace what is not ours.
    """
    texts = {folder / snippet.file_name: snippet.text for snippet in snippets}
    make_directories(folder)
    for path in texts:
        _require_replaceable(path)
    for path, text in texts.items():
        write_atomically(path, text)
    return list(texts)


def _require_replaceable(path: Path) -> None:
    """Nothing is there, or a regular file that begins as ours of that name."""
    shown = printable(str(path))
    try:
        with directory_of(path) as (directory, name):
            if not _exists(directory, name):
                return
            content = _content(directory, name)
    except OSError as error:
        raise UsageError(f"cannot write {shown}: {error.strerror}") from None
    own = (each for each in EVERY_FILE if each.has_name(name))
    if not any(content.startswith(each.begins.encode()) for each in own):
        raise UsageError(
            f"{shown} was not written by Writewise; nothing was written",
            "move it away, or name another folder with --output-directory",
        )


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove_earlier(folder: Path, change: RecommendedChange | None) -> list[Path]:
    """Remove the files of another advice than `change` (None: than no change); their paths.

    A file stays that says what this advice says, in whatever format. Only a regular file goes that
    has the name and the beginning of ours. Raises UsageError where one cannot be removed.
    """
    snippets = render_all(change, FORMATS).snippets if change else ()
    texts = {snippet.file_name: snippet.text for snippet in snippets}
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {printable(str(folder))}: {error.strerror}") from None
    known = [(name, each) for name in names for each in EVERY_FILE if each.has_name(name)]
    return [folder / name for name, each in known if _remove(folder / name, each, texts)]


def _remove(path: Path, written_as: Format, texts: Mapping[str, str]) -> bool:
    """Whether it was one of ours that says something else, and is gone now."""
    try:
        with directory_of(path) as (directory, name):
            content = _content(directory, name)
            is_other = content != texts.get(name, "").encode()
            if not is_other or not content.startswith(written_as.begins.encode()):
                return False
            os.unlink(name, dir_fd=directory)
            return True
    except OSError as error:
        message = f"cannot remove the old {printable(str(path))}: {error.strerror}"
        raise UsageError(message) from None


def _content(directory: int, name: str) -> bytes:
    """A regular file's content; nothing of a link, or of what cannot be read."""
    try:  # looked at before it is opened: that alone would start some devices
        if not stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return b""
        with os.fdopen(open_file_beneath(directory, [name]), "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
