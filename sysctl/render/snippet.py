"""What a renderer makes: a file's name and its text; and the error of what it cannot say."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.shared.errors import WritewiseError

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
