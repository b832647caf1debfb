"""Who else sets a sysctl: every file that is read at boot, in the order in which the last one wins.

The rules are those of sysctl.d(5), as systemd-sysctl and procps' `sysctl --system` follow them: of
files with one name the first directory's counts; the rest go by name, whatever their directory; an
empty file or a link to /dev/null masks. An assignment by name is stronger than any glob.
`/etc/sysctl.conf` is read last, by procps always and by systemd where a link in sysctl.d names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from contracts.text import printable
from sysctl.host.system import System
from sysctl.knobs.vm import BY_NAME

#: sysctl.d(5), the strongest first; `/lib` is the same as `/usr/lib` on most hosts.
DIRECTORIES = (
    *("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d"),
    *("/usr/lib/sysctl.d", "/lib/sysctl.d"),
)
SYSCTL_CONF = "/etc/sysctl.conf"
_MAX_BYTES = 2**20
_GLOB = re.compile(r"[*?\[]")


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


@dataclass(frozen=True)
class _Line:
    """A line of a file: `name` may be a glob; `value` None takes the name out of every glob."""

    path: str
    number: int
    name: str
    value: str | None


def files_in_order(system: System) -> list[str]:
    """The files that are read, the last of them last; masked ones are left out."""
    by_name: dict[str, str] = {}
    for folder in DIRECTORIES:
        for path in sorted(system.path(folder).glob("*.conf")):
            by_name.setdefault(path.name, f"{folder}/{path.name}")
    ordered = [by_name[name] for name in sorted(by_name, key=_bytes)]
    conf = system.path(SYSCTL_CONF)
    files = [f for f in ordered if not (conf.exists() and _is_same(system.path(f), conf))]
    return [f for f in [*files, SYSCTL_CONF] if system.path(f).is_file()]


def _bytes(name: str) -> bytes:
    """Names go by their bytes (strcmp)."""
    return name.encode(errors="surrogateescape")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and one.samefile(other)


def position(path: str) -> tuple[bool, bytes]:
    """When a file is read, to be compared: by name, /etc/sysctl.conf last."""
    return path == SYSCTL_CONF, _bytes(path.rpartition("/")[2])


def assignments(system: System, names: Iterable[str]) -> list[Assignment]:
    """Every line that sets one of `names`, in the order in which they take effect: the last wins.

    A name that a line of its own sets is not set by globs.
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
    except re.error:  # `[z-a]` before Python 3.11; it matches nothing
        return False


def rivals(system: System, names: Iterable[str]) -> list[Assignment]:
    """As `assignments`, with each name's counterpart: writing that one zeroes it.

    Without those that the kernel refuses or that change nothing: 0 for a threshold in bytes.
    """
    members = {
        member
        for name in names
        for member in (name, BY_NAME[name].counterpart)
        if member is not None
    }
    found = assignments(system, sorted(members))
    return [each for each in found if not (each.name.endswith("_bytes") and each.value == "0")]


def contradicting(system: System, name: str, value: int) -> list[Assignment]:
    """The lines that set `name`, or its counterpart, to something else than `value`."""
    return [
        each
        for each in rivals(system, [name])
        if each.name != name or each.value.strip() != str(value)
    ]


def after(found: Iterable[Assignment], path: str) -> list[Assignment]:
    """Those of `found` that are read after the file at `path`."""
    return [each for each in found if position(each.path) > position(path)]


def _lines(system: System, path: str) -> Iterator[_Line]:
    try:
        with system.path(path).open("rb") as file:
            text = file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return  # gone meanwhile
    for number, line in enumerate(text.split("\n"), 1):
        parsed = _parse(line)
        if parsed is not None:
            yield _Line(path, number, *parsed)


def _parse(line: str) -> tuple[str, str | None] | None:
    """`-vm/dirty_ratio = 40` → name and value; None for a comment or what is no assignment."""
    text = line.strip()
    if not text or text[0] in "#;":
        return None
    key, separator, value = text.partition("=")
    ignores_errors = key.startswith("-")
    name = _normalized(key.removeprefix("-").strip())
    if separator:
        return (name, value.strip()) if name else None
    return (name, None) if ignores_errors and name else None


def _normalized(key: str) -> str:
    """With dots between: where `/` comes first it is the separator, and dots are part of a name."""
    first = re.search(r"[./]", key)
    if first is None or first[0] == ".":
        return key
    return key.translate(str.maketrans("/.", "./"))
