# SPDX-License-Identifier: Apache-2.0
"""How this Writewise was installed and its version; hints name commands that work everywhere."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

#: The clone, if the program runs from one.
CLONE = Path(__file__).parents[2]


#: `secure_path` of sudoers, as Debian, Ubuntu, Fedora and Amazon Linux ship it.
_SUDO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def is_clone() -> bool:
    """Return whether the program runs from a clone, which has `tools/setup`."""
    return (CLONE / "tools/setup").is_file()


def own_version() -> str:
    """Return the version of Writewise."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("writewise")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"


def program() -> str:
    """Return what calls Writewise from every directory, and with `sudo` before it.

    The name alone where the directories that sudo searches have it, else the absolute path.
    """
    script = Path(sys.executable).with_name("writewise")
    if shutil.which("writewise", path=_SUDO_PATH) or not script.is_file():
        return "writewise"
    return str(script)


def how_to_set_up() -> str:
    """Return the command that installs everything needed."""
    if is_clone():
        return f"{CLONE}/tools/setup"
    return "install Writewise again (docs/how-to/install.md)"


def how_to_add(extra: str) -> str:
    """Return how to install an extra of setup.py, never from an index (nobody owns the name)."""
    if is_clone():
        return f"{CLONE}/tools/setup {extra}"
    return (
        f"pip install '.[{extra}]' in a clone "
        "(docs/how-to/install.md; the .deb and .rpm have no extras)"
    )
