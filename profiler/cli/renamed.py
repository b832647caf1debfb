# SPDX-License-Identifier: Apache-2.0
"""Old names and forms that still work in this version, and the line that names the new one.

Remove the entries with the next minor version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

#: Prints one line to standard error.
Notice = Callable[[str], None]


class Renamed(NamedTuple):
    """An option's old name; `command` is as typed: `transfer tune`."""

    command: str
    old: str
    new: str


OPTIONS = (
    Renamed("advise", "--output-directory", "--output-dir"),
    Renamed("demo", "--output-directory", "--output-dir"),
    Renamed("transfer tune", "--output", "--output-dir"),
    Renamed("transfer tune", "--space", "--vary"),
)
#: Flags that took a file; `-` meant standard output.
_FLAGS_WITH_FILE = (("bench-clients", "--json"),)
#: Options that were flags, with their value as the first positional argument.
_VALUES_FROM_POSITIONAL = (("pull", "--workload"),)


def new_name(program: str, name: str, notice: Notice) -> str:
    """Return the current name of an option; `program` is `writewise COMMAND`."""
    for renamed in OPTIONS:
        if (f"writewise {renamed.command}", renamed.old) == (program, name):
            notice(f"{name} is now {renamed.new}; the old name works in this version only")
            return renamed.new
    return name


def flag_with_file(
    program: str, name: str, value: str | None, following: list[str], notice: Notice
) -> str | None:
    """Return the file that an old form gave to a flag (`-`: `""`), None if there is none."""
    if (program.removeprefix("writewise "), name) not in _FLAGS_WITH_FILE:
        return None
    if value is None:
        if not following or not (following[0] == "-" or following[0].endswith(".json")):
            return None
        value = following.pop(0)
    file = "" if value == "-" else value
    new = f"{name} --output {file}" if file else name
    notice(f"{name} {value} is now {new}; the old form works in this version only")
    return file


def value_from_positional(
    program: str, name: str, positionals: list[str], notice: Notice
) -> str | None:
    """Return an option's value from the positionals if it has none itself, or None."""
    is_old = (program.removeprefix("writewise "), name) in _VALUES_FROM_POSITIONAL
    if not is_old or not positionals:
        return None
    value = positionals.pop(0)
    notice(f"{name} now takes the name: {name} {value}; the old form works in this version only")
    return value
