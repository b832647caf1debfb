# SPDX-License-Identifier: Apache-2.0
"""What `writewise --version` prints: the program, the commit, the kernel, Python and BCC."""

from __future__ import annotations

import platform
from pathlib import Path

from contracts.shared.installation import CLONE, is_clone, own_version

#: Written into the package by setup.py when it is built from a clone.
RECORDED = Path(__file__).parents[1] / "commit.txt"
_SHORT = 12


def version_text() -> str:
    """Return two lines: Writewise with its commit, and what it runs on."""
    found = commit()
    return (
        f"writewise {own_version()}" + (f" (commit {found})" if found else "") + "\n"
        f"{platform.system()} {platform.release()} {platform.machine()}, "
        f"Python {platform.python_version()}, BCC {bcc_version()}"
    )


def commit() -> str:
    """Return the commit that the program was built from, or the commit of its clone; else ""."""
    try:
        found = head_of(CLONE) if is_clone() else RECORDED.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
    return found[:_SHORT] if found.isalnum() else ""


def head_of(clone: Path) -> str:
    """Return the full commit id of a clone or a worktree. Raises OSError or ValueError.

    It does not run git, which as root refuses another user's clone.
    """
    folder = clone / ".git"
    if folder.is_file():  # a worktree: `gitdir: PATH`
        folder = clone / folder.read_text(encoding="utf-8").partition(": ")[2].strip()
    head = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = folder / "commondir"
    common = folder / shared.read_text(encoding="utf-8").strip() if shared.is_file() else folder
    for place in (folder, common):
        if (place / name).is_file():
            return (place / name).read_text(encoding="utf-8").strip()
    packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")


def bcc_version() -> str:
    """Return the version of BCC's Python binding, without loading the compiler."""
    import importlib.util

    spec = importlib.util.find_spec("bcc")
    if spec is None or spec.origin is None:
        return "not installed"
    file = Path(spec.origin).with_name("version.py")
    try:
        words = file.read_text(encoding="utf-8").split("__version__", 1)[1].split("=", 1)[1]
    except (OSError, IndexError):
        return "of unknown version"
    return words.split("\n", 1)[0].strip().strip("'\"")
