"""The errors a user can meet: what is wrong, what to do next, and the exit code.

Only `profiler.cli.main` prints them.
"""

from __future__ import annotations

from collections.abc import Sequence


class WritewiseError(Exception):
    """Something a user can act on.

    `message` says what is wrong in one sentence, `hint` what to do next (may be empty).
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(WritewiseError):
    """The command's arguments, or a file that they name, are wrong."""

    exit_code = 2


class RequirementError(WritewiseError):
    """The host lacks something that the command needs: root, BPF, BTF, bcc, a tool."""

    exit_code = 3


class InvalidFileError(UsageError):
    """A file with errors, every one of which is in `problems` (`line 3: …`, `rules[1].path: …`)."""

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        count = len(problems)
        noun = "error" if count == 1 else "errors"
        listing = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{path}: {count} {noun}{listing}")
        self.path = path
        self.problems = tuple(problems)
