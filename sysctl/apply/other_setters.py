# SPDX-License-Identifier: Apache-2.0
"""What sets a sysctl besides the files of sysctl.d: the kernel's command line, and TuneD.

The kernel applies `sysctl.NAME=VALUE` before the first program runs (fs/proc/proc_sysctl.c,
do_sysctl_args, since 5.8). When TuneD starts, it sets what its active profile has in [sysctl] or
[vm] (tuned/plugins/plugin_sysctl.py), and then by default applies /etc/sysctl.d again.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from contracts.shared.text import printable
from sysctl.apply.sysctl_files import (
    Assignment,
    is_no_threshold,
    is_number,
    members,
    normalized,
)
from sysctl.host.system import System

_COMMAND_LINE = "/proc/cmdline"
_ACTIVE_PROFILE = "/etc/tuned/active_profile"
#: TuneD's folders of profiles in all versions, the one with the highest priority first.
_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned", "/usr/lib/tuned/profiles")
_PROFILE = re.compile(r"[A-Za-z0-9_.-]+")  # Loader.safe_name() of tuned/profiles/loader.py
_MAX_BYTES = 2**20


@dataclass(frozen=True)
class OtherSetter:
    """Something that sets `name` to `value`; without a value, its settings cannot be read.

    `is_late`: it sets them after the files of sysctl.d.
    """

    who: str
    name: str = ""
    value: str | None = None
    is_late: bool = True

    def __str__(self) -> str:
        """`vm.dirty_ratio = 40 by the TuneD profile …`, safe to print."""
        if self.value is None:
            return printable(f"{self.who} may set it, but cannot be read")
        return printable(f"{self.name} = {self.value} by {self.who}")

    def sets(self, name: str, value: int) -> bool:
        """Return whether it sets `name` to `value`."""
        return self.name == name and self.value is not None and is_number(self.value, value)


#: Whatever sets a sysctl.
Setter = Union[Assignment, OtherSetter]


def other_setters(system: System, names: Iterable[str]) -> list[OtherSetter]:
    """Return everything that sets one of `names` or a counterpart, in its order."""
    wanted = set(members(names))
    found = [*_kernel_parameters(system), *_tuned(system)]
    return [
        each
        for each in found
        if each.value is None
        or (each.name in wanted and not is_no_threshold(each.name, each.value))
    ]


def _kernel_parameters(system: System) -> Iterator[OtherSetter]:
    try:
        words = (_read(system, _COMMAND_LINE) or "").split()
    except OSError:
        yield OtherSetter(f"the kernel's command line ({_COMMAND_LINE})", is_late=False)
        return
    for word in words:
        key, separator, value = word.replace('"', "").partition("=")
        if separator and key.startswith(("sysctl.", "sysctl/")):
            name = normalized(key[len("sysctl.") :])
            yield OtherSetter(f"the kernel parameter {key}", name, value, is_late=False)


class _UnknownProfileError(Exception):
    """A profile is missing, or only TuneD can interpret it."""


def _tuned(system: System) -> list[OtherSetter]:
    try:
        active = " ".join((_read(system, _ACTIVE_PROFILE) or "").split())
    except OSError:
        return [OtherSetter(f"TuneD ({_ACTIVE_PROFILE})")]
    values: dict[str, tuple[str, str]] = {}
    try:
        for profile in active.split():
            values.update(_profile_values(system, profile, set()))
    except (_UnknownProfileError, OSError):
        return [OtherSetter(f"the TuneD profile {active}")]
    return [
        OtherSetter(f"the TuneD profile {active} ({path})", name, value)
        for name, (value, path) in values.items()
    ]


def _profile_values(system: System, profile: str, seen: set[str]) -> dict[str, tuple[str, str]]:
    """Return what a profile sets, and where; its own values override those that it includes.

    A profile that includes its own name means the one in the next folder. Raises OSError too.
    """
    if not _PROFILE.fullmatch(profile) or profile.startswith("."):
        raise _UnknownProfileError
    paths = [f"{folder}/{profile}/tuned.conf" for folder in _FOLDERS]
    texts = ((path, _read(system, path)) for path in paths if path not in seen)
    path, text = next(((path, text) for path, text in texts if text is not None), ("", ""))
    if not path and not seen & {*paths}:
        raise _UnknownProfileError
    seen.add(path)
    parser, values = _parsed(text), {}
    included = parser.get("main", "include", fallback="").strip()
    for name in re.split(r"\s*[,;]\s*", included) if included else ():
        values.update(_profile_values(system, name, seen))
    return {**values, **{name: (value, path) for name, value in _own_values(parser)}}


def _parsed(text: str | None) -> configparser.ConfigParser:
    """Parse a profile as TuneD does (tuned/profiles/loader.py)."""
    parser = configparser.ConfigParser(
        delimiters=("=",), inline_comment_prefixes=("#",), strict=False, interpolation=None
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text or "")
    except configparser.Error:
        raise _UnknownProfileError from None
    return parser


def _own_values(parser: configparser.ConfigParser) -> Iterator[tuple[str, str]]:
    for section in parser.sections():
        kind = parser.get(section, "type", fallback=section)
        for key, value in parser.items(section):
            if kind == "sysctl":
                yield normalized(key), value.strip("\"'")
            elif kind == "vm":
                yield f"vm.{key}", value.strip("\"'")


def _read(system: System, path: str) -> str | None:
    """Return the text; None if there is no file. Raises OSError if it cannot be read."""
    try:
        with system.path(path).open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
