"""What a format is, and what its renderer makes: files; and the error of what it cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from contracts.shared.errors import WritewiseError
from sysctl.change.recommendation import RecommendedChange

#: The stem of every file that is written, so that they are found together and win by name.
STEM = "90-writewise"
#: How the first sentence of every file begins, so that it is known as ours.
TITLE = "Written by writewise: "


@dataclass(frozen=True)
class Snippet:
    """One file, to be written as UTF-8 under `file_name`."""

    file_name: str
    text: str


class InexpressibleError(WritewiseError):
    """The format has no way to say this, so nothing is written rather than something else."""


@dataclass(frozen=True)
class Format:
    """A renderer by name. It gives no snippet where nothing changes that the format can say.

    `file_names` (fnmatch) are all that it gives, and `begins` is how each of them begins.
    `is_default`: it is written without being asked for.
    """

    name: str
    render: Callable[[RecommendedChange], tuple[Snippet, ...]]
    file_names: tuple[str, ...]
    begins: str = f"# {TITLE}"
    is_default: bool = False

    def has_name(self, file_name: str) -> bool:
        """Whether a file of this format may have that name."""
        return any(fnmatchcase(file_name, pattern) for pattern in self.file_names)
