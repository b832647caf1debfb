"""The files of an advice in a folder: written, and those of an earlier advice taken out of it.

Of two files that contradict each other the wrong one may be installed. What is not ours stays.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.own_files import content_of, require_replaceable
from contracts.shared.text import printable
from contracts.shared.writing import directory_of, make_directories, write_atomically
from sysctl.change.recommendation import RecommendedChange
from sysctl.render.formats import EVERY_FILE, FORMATS, render_all
from sysctl.render.snippet import Format, Snippet


def write_snippets(snippets: Iterable[Snippet], folder: Path) -> list[Path]:
    """Write them, in a new folder if there is none; the paths.

    Raises UsageError, before the first is written where one would replace what is not ours.
    """
    texts = {folder / snippet.file_name: snippet.text for snippet in snippets}
    make_directories(folder)
    for path in texts:
        is_ours = functools.partial(_is_ours, path.name)
        require_replaceable(path, is_ours, "--output-directory")
    for path, text in texts.items():
        write_atomically(path, text)
    return list(texts)


def _is_ours(name: str, content: bytes) -> bool:
    own = (each for each in EVERY_FILE if each.has_name(name))
    return any(content.startswith(each.begins.encode()) for each in own)


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
            content = content_of(directory, name)
            is_other = content != texts.get(name, "").encode()
            if not is_other or not content.startswith(written_as.begins.encode()):
                return False
            os.unlink(name, dir_fd=directory)
            return True
    except OSError as error:
        message = f"cannot remove the old {printable(str(path))}: {error.strerror}"
        raise UsageError(message) from None
