# SPDX-License-Identifier: Apache-2.0
"""Writes the files of a recommendation to a folder, and removes those of an earlier one.

Otherwise a user might install a file that contradicts the new ones. Other files are left alone.
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
    """Write the files, making the folder if necessary, and return their paths.

    Raises UsageError, before any is written if one would replace a file that is not Writewise's.
    """
    texts = {folder / snippet.file_name: snippet.text for snippet in snippets}
    make_directories(folder)
    for path in texts:
        is_ours = functools.partial(_is_ours, path.name)
        require_replaceable(path, is_ours, "--output-dir")
    for path, text in texts.items():
        write_atomically(path, text)
    return list(texts)


def _is_ours(name: str, content: bytes) -> bool:
    own = (each for each in EVERY_FILE if each.has_name(name))
    return any(content.startswith(each.begins.encode()) for each in own)


def remove_earlier(folder: Path, change: RecommendedChange | None) -> list[Path]:
    """Remove files that contradict `change` (None: no change), and return their paths.

    Files with the content of this recommendation stay, in any format. Only regular files with a
    name and a beginning of Writewise's are removed. Raises UsageError if one cannot be removed.
    """
    snippets = render_all(change, FORMATS).snippets if change else ()
    texts = {snippet.file_name: snippet.text for snippet in snippets}
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"cannot read {printable(str(folder))}: {error.strerror}"
        raise UsageError(message, "use another directory with --output-dir") from None
    known = [(name, each) for name in names for each in EVERY_FILE if each.has_name(name)]
    return [folder / name for name, each in known if _remove(folder / name, each, texts)]


def _remove(path: Path, written_as: Format, texts: Mapping[str, str]) -> bool:
    """Remove one of Writewise's files with other content, and return whether it did."""
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
        raise UsageError(message, "remove it, or use another directory with --output-dir") from None
