# SPDX-License-Identifier: Apache-2.0
"""The line of /etc/fstab for a mount point (fstab(5)); parsing only."""

from __future__ import annotations

import re

from sysctl.change.recommendation import FstabLine
from sysctl.host.system import HostError, System

PATH = "/etc/fstab"
#: The escapes that util-linux, glibc and systemd all understand.
_ESCAPES = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
_ESCAPE = re.compile(r"\\(040|011|012|134)")
#: The defaults of missing fields.
_DEFAULTS = ("", "", "", "defaults", "0", "0")
_DIGIT = re.compile(r"[0-9]")


def fstab_line(system: System, target: str) -> FstabLine | None:
    """Return the line for `target`; None if there is none or more than one."""
    try:
        return parse_fstab(system.read(PATH), target) if system.exists(PATH) else None
    except HostError:
        return None


def parse_fstab(text: str, target: str) -> FstabLine | None:
    """Return the line for `target` in an fstab's text; None also for an invalid line."""
    lines = (line.strip(" \t") for line in text.split("\n"))
    rows = [re.split("[ \t]+", line) for line in lines if not line.startswith("#")]
    found = [row for row in rows if len(row) > 1 and unescaped(row[1]) == target]
    if len(found) != 1 or not 3 <= len(found[0]) <= 6:
        return None
    fields = [*found[0], *_DEFAULTS[len(found[0]) :]]
    source, _, fstype, options, dump, check = fields
    if not (_DIGIT.fullmatch(dump) and _DIGIT.fullmatch(check)):
        return None
    words = tuple(options.split(","))
    return FstabLine(unescaped(source), fstype, words, int(dump), int(check))


def escaped(text: str) -> str:
    """Return a field with fstab's escapes: `/my data` → `/my\\040data`."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def unescaped(field: str) -> str:
    """Return a field's text without escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)
