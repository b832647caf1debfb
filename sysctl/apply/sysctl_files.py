# SPDX-License-Identifier: Apache-2.0
"""The files that set sysctls at boot, in their order: the last one wins.

The rules are those of sysctl.d(5), which systemd-sysctl and procps' `sysctl --system` follow: of
files with the same name the one in the first directory counts; files are sorted by name, whatever
their directory; an empty file or a link to /dev/null masks others. An assignment by name overrides
any glob. `/etc/sysctl.conf` is read last, by procps always and by systemd if a link in sysctl.d
leads to it. `unreadable` returns the files that this user may not read.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Callable

from contracts.shared.text import printable
from sysctl.host.system import System
from sysctl.knobs.vm import BY_NAME

#: sysctl.d(5), the highest priority first; `/lib` is the same as `/usr/lib` on most hosts.
DIRECTORIES = (
    *("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d"),
    *("/usr/lib/sysctl.d", "/lib/sysctl.d"),
)
SYSCTL_CONF = "/etc/sysctl.conf"
_MAX_BYTES = 2**20
_GLOB = re.compile(r"[*?\[]")
#: How the kernel reads a number, by its first characters (kernel/sysctl.c, proc_get_long).
_NUMBERS = (
    (re.compile(r"0[xX][0-9a-fA-F]{1,16}"), 16),
    (re.compile(r"0[0-7]{0,22}"), 8),
    (re.compile(r"[1-9][0-9]{0,19}"), 10),
)


def is_number(text: str, value: int) -> bool:
    """Return whether the kernel reads `text` as `value`: `61`, `0x3d` and `075` are equal."""
    word = text.strip()
    bases = [base for pattern, base in _NUMBERS if pattern.fullmatch(word)]
    return int(word, bases[0]) == value if bases else word == str(value)


@dataclass(frozen=True)
class Assignment:
    """One line that sets a sysctl: its file, line number, name (`vm.dirty_ratio`) and value."""

    path: str
    line: int
    name: str
    value: str

    def __str__(self) -> str:
        """`vm.dirty_ratio = 40 in /etc/sysctl.d/99-x.conf, line 3`, safe to print."""
        return printable(f"{self.name} = {self.value} in {self.path}, line {self.line}")

    def sets(self, name: str, value: int) -> bool:
        """Return whether it sets `name` to `value`."""
        return self.name == name and is_number(self.value, value)


@dataclass(frozen=True)
class _Line:
    """A line of a file: `name` may be a glob; with `value` None globs do not set the name."""

    path: str
    number: int
    name: str
    value: str | None


def files_in_order(system: System) -> list[str]:
    """Return the files in the order in which they are read, without masked ones.

    A path that cannot be checked counts as a file, because it may be one at boot.
    """
    by_name: dict[str, str] = {}
    for folder in DIRECTORIES:
        for name in _names(system.path(folder)):
            by_name.setdefault(name, f"{folder}/{name}")
    ordered = [by_name[name] for name in sorted(by_name, key=_bytes)]
    conf = system.path(SYSCTL_CONF)
    files = [f for f in ordered if not _is_same(system.path(f), conf)]
    return [f for f in [*files, SYSCTL_CONF] if _may_be_file(system.path(f))]


def unreadable(system: System) -> list[str]:
    """Return files that this user may not read: `/etc/sysctl.d/99-x.conf (Permission denied)`."""
    found = []
    for folder in DIRECTORIES:
        found += _problem(folder, _listing, system)
    for file in files_in_order(system):
        found += _problem(file, _text, system)
    return found


def _problem(absolute: str, read: Callable[[Path], object], system: System) -> list[str]:
    try:
        read(system.path(absolute))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        return [printable(f"{absolute} ({error.strerror})")]
    return []


def _listing(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _names(folder: Path) -> list[str]:
    try:
        return [name for name in _listing(folder) if name.endswith(".conf")]
    except OSError:
        return []


def _may_be_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _bytes(name: str) -> bytes:
    """Return a name's bytes, by which names are sorted (strcmp)."""
    return name.encode(errors="surrogateescape")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def position(path: str) -> tuple[bool, bytes]:
    """Return a sort key for the order of reading: by name, /etc/sysctl.conf last."""
    return path == SYSCTL_CONF, _bytes(path.rpartition("/")[2])


def assignments(system: System, names: Iterable[str]) -> list[Assignment]:
    """Return every line that sets one of `names`, in order: the last wins.

    Globs do not set a name that a line of its own sets.
    """
    lines = [line for path in files_in_order(system) for line in _lines(system, path)]
    found: list[tuple[int, Assignment]] = []
    for name in names:
        own = [(at, line) for at, line in enumerate(lines) if line.name == name]
        matching = own or [(at, line) for at, line in enumerate(lines) if _matches(line, name)]
        found += [
            (at, Assignment(line.path, line.number, name, line.value))
            for at, line in matching
            if line.value is not None
        ]
    return [assignment for _, assignment in sorted(found, key=lambda each: each[0])]


def _matches(line: _Line, name: str) -> bool:
    try:
        return bool(_GLOB.search(line.name)) and fnmatchcase(name, line.name)
    except re.error:  # `[z-a]` before Python 3.11, which matches nothing
        return False


def rivals(system: System, names: Iterable[str]) -> list[Assignment]:
    """Return the same with each name's counterpart, because writing that sets the name to 0.

    Without assignments that the kernel refuses or that change nothing: 0 for a threshold in bytes.
    """
    found = assignments(system, members(names))
    return [each for each in found if not is_no_threshold(each.name, each.value)]


def members(names: Iterable[str]) -> list[str]:
    """Return each name and its counterpart, since writing one changes both."""
    pairs = ((name, BY_NAME[name].counterpart) for name in names)
    return sorted({member for pair in pairs for member in pair if member is not None})


def is_no_threshold(name: str, value: str) -> bool:
    """Return whether a value changes nothing: 0 for a threshold in bytes."""
    return name.endswith("_bytes") and is_number(value, 0)


def contradicting(system: System, name: str, value: int) -> list[Assignment]:
    """Return the lines that set `name`, or its counterpart, to anything other than `value`."""
    return [each for each in rivals(system, [name]) if not each.sets(name, value)]


def after(found: Iterable[Assignment], path: str) -> list[Assignment]:
    """Return the lines that are read after the file at `path`."""
    return [each for each in found if position(each.path) > position(path)]


def _lines(system: System, path: str) -> Iterator[_Line]:
    try:
        text = _text(system.path(path))
    except OSError:
        return  # it was removed, or `unreadable` returns it
    for number, line in enumerate(text.split("\n"), 1):
        parsed = _parse(line)
        if parsed is not None:
            yield _Line(path, number, *parsed)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES).decode(errors="replace")


def _parse(line: str) -> tuple[str, str | None] | None:
    """`-vm/dirty_ratio = 40` → name and value; None for a comment or another line."""
    text = line.strip()
    if not text or text[0] in "#;":
        return None
    key, separator, value = text.partition("=")
    ignores_errors = key.startswith("-")
    name = normalized(key.removeprefix("-").strip())
    if separator:
        return (name, value.strip()) if name else None
    return (name, None) if ignores_errors and name else None


def normalized(key: str) -> str:
    """Return the name with dots: if `/` comes first, it is the separator and dots are literal."""
    first = re.search(r"[./]", key)
    if first is None or first[0] == ".":
        return key
    return key.translate(str.maketrans("/.", "./"))
