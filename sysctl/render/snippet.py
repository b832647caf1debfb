# SPDX-License-Identifier: Apache-2.0
"""A format, the files that its renderer makes, and the error for what it cannot express."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from contracts.shared.errors import WritewiseError
from sysctl.change.recommendation import RecommendedChange

#: The stem of every file's name: it groups them, and sorts after most files of distributions.
STEM = "90-writewise"
#: The beginning of every file, by which it is recognised as ours.
TITLE = "Written by writewise: "


@dataclass(frozen=True)
class Snippet:
    """One file, to be written as UTF-8 under `file_name`."""

    file_name: str
    text: str


class InexpressibleError(WritewiseError):
    """The format cannot express the change, so nothing is written."""


@dataclass(frozen=True)
class Format:
    """A renderer by name. It returns no snippet if the format can express none of the changes.

    `file_names` (fnmatch) match all its files, and each of them begins with `begins`. A format that
    `is_default` is written without `--format`.
    """

    name: str
    render: Callable[[RecommendedChange], tuple[Snippet, ...]]
    file_names: tuple[str, ...]
    begins: str = f"# {TITLE}"
    is_default: bool = False

    def has_name(self, file_name: str) -> bool:
        """Return whether a file of this format may have that name."""
        return any(fnmatchcase(file_name, pattern) for pattern in self.file_names)
