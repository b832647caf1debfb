# SPDX-License-Identifier: Apache-2.0
"""The errors that a user sees: what is wrong, what to do next, and the exit code.

Only `profiler.cli.main` prints them.
"""

from __future__ import annotations

from collections.abc import Sequence

from contracts.shared import exit_codes


class WritewiseError(Exception):
    """An error that the user can act on.

    `message` says what is wrong in one sentence; `hint` says what to do next and may be empty.
    """

    exit_code = exit_codes.FAILURE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(WritewiseError):
    """The command's arguments, or a file that they name, are invalid."""

    exit_code = exit_codes.USAGE


class RequirementError(WritewiseError):
    """The host lacks something that the command needs: root, BPF, BTF, BCC, a tool."""

    exit_code = exit_codes.REQUIREMENT


class InvalidFileError(UsageError):
    """A file has errors; `problems` lists all of them (`line 3: …`, `rules[1].path: …`)."""

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        count = len(problems)
        noun = "error" if count == 1 else "errors"
        listing = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{path}: {count} {noun}{listing}")
        self.path = path
        self.problems = tuple(problems)
