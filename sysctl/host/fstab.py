"""The line of /etc/fstab for a mount point (fstab(5)); parsing only."""

from __future__ import annotations

import re

from sysctl.change.recommendation import FstabLine
from sysctl.host.system import HostError, System

PATH = "/etc/fstab"
#: What util-linux, glibc and systemd all read back.
_ESCAPES = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
_ESCAPE = re.compile(r"\\(040|011|012|134)")
#: What a line means that ends before a field.
_DEFAULTS = ("", "", "", "defaults", "0", "0")
_DIGIT = re.compile(r"[0-9]")


def fstab_line(system: System, target: str) -> FstabLine | None:
    """The line for what is mounted on `target`; None without one, and where there are several."""
    try:
        return parse_fstab(system.read(PATH), target) if system.exists(PATH) else None
    except HostError:
        return None


def parse_fstab(text: str, target: str) -> FstabLine | None:
    """The same of an fstab's text; a line that fstab(5) does not allow counts as none."""
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
    """A field as fstab has it: `/my data` → `/my\\040data`."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def unescaped(field: str) -> str:
    """A field's text."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)
