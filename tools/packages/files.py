# SPDX-License-Identifier: Apache-2.0
"""Operations on the files of both packages: templates, modes and times."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution
from pathlib import Path

from tools.packages.bundle import HERE, BuildError

MAINTAINER = "The authors of Writewise <writewise@users.noreply.github.com>"
PROGRAMS = ("usr/bin/writewise", "usr/share/python3/runtime.d/writewise.rtupdate")


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with each @NAME@ replaced, and @SCRIPTS@ by scripts.sh."""
    text = (HERE / template).read_text(encoding="utf-8")
    shell = (HERE / "scripts.sh").read_text(encoding="utf-8").rstrip()
    for name, value in {"SCRIPTS": shell, **values}.items():
        text = text.replace(f"@{name}@", value)
    return text


def summary(own: Distribution) -> str:
    """Return the one-line description of both packages, which must not begin with an article."""
    return own.metadata["Summary"].removeprefix("A ")


def compress(text: str, path: Path) -> None:
    """Write a .gz without a name or a time."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())


def place_manuals(built: Path, share: Path, zsh: str) -> None:
    """Move the wheel's man pages (compressed) and completions to a distribution's directories."""
    for path in sorted(path for path in built.rglob("*") if path.is_file()):
        name = str(path.relative_to(built)).replace("zsh/site-functions", f"zsh/{zsh}")
        place = share / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.suffix == ".1":
            compress(path.read_text(encoding="utf-8"), place.with_name(f"{place.name}.gz"))
        else:
            shutil.copyfile(path, place)
    shutil.rmtree(built)


def settle(tree: Path, scripts: Sequence[str] = ()) -> None:
    """Set modes and times that do not depend on who builds the package, or when."""
    time_s = int(os.environ["SOURCE_DATE_EPOCH"])
    programs = {*PROGRAMS, *scripts}
    for path in [tree, *tree.rglob("*")]:
        runs = path.is_dir() or str(path.relative_to(tree)) in programs
        path.chmod(0o755 if runs else 0o644)
        os.utime(path, (time_s, time_s))


def strip(tree: Path) -> None:
    """Remove symbols and debugging information from the wheels' compiled modules."""
    for path in sorted(tree.rglob("*.so")):
        run("strip", "--strip-unneeded", str(path))


def installed_kib(tree: Path) -> int:
    """Return the size as dpkg counts it: files in whole KiB, 1 KiB per directory."""
    sizes = [path.stat().st_size if path.is_file() else 1 for path in tree.rglob("*")]
    return sum(-(-size // 1024) for size in sizes)


def run(*command: str) -> None:
    """Run a tool quietly. Raises BuildError with what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
