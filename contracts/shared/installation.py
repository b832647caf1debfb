"""How this Writewise was installed, so that a hint names a command that works for it."""

from __future__ import annotations

import sys
from pathlib import Path

#: The clone, if the program runs from one.
CLONE = Path(__file__).parents[2]


def is_clone() -> bool:
    """Return whether the program runs from a clone, which has the set-up beside it."""
    return (CLONE / "tools/setup").is_file()


def command() -> str:
    """Return the command's path, or its name where it is on PATH."""
    if is_clone():
        return ".venv/bin/writewise"
    script = Path(sys.executable).with_name("writewise")
    return str(script) if script.is_file() else "writewise"


def how_to_set_up() -> str:
    """Return what installs all that is needed."""
    return "tools/setup" if is_clone() else "install Writewise again (docs/install.md)"


def how_to_add(extra: str) -> str:
    """Return what installs an extra of setup.py; never from an index, where the name has nobody."""
    if is_clone():
        return f"tools/setup {extra}"
    return (
        f"pip install '.[{extra}]' in a clone (docs/install.md; the .deb and .rpm have no extras)"
    )
