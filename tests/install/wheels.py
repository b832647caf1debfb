# SPDX-License-Identifier: Apache-2.0
"""Writewise as a wheel, in its own environment; no network is used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import cast
from zipfile import Path as ZipPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.places import REPOSITORY

PACKAGES = ("contracts", "sysctl", "profiler")
_PIP = (sys.executable, "-m", "pip")
_OFFLINE = ("--quiet", "--no-index", "--no-deps", "--disable-pip-version-check")


def build(folder: Path) -> Path:
    """Build the wheel from a copy, so that nothing is written to the repository."""
    source = folder / "source"
    for name in (*PACKAGES, "tools"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, source / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(REPOSITORY / name, source / name)
    shutil.copytree(REPOSITORY / "LICENSES", source / "LICENSES")
    _run(*_PIP, "wheel", *_OFFLINE, "--no-build-isolation", "-w", str(folder), str(source))
    return next(folder.glob("*.whl"))


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel as `pip install` would on a host with BCC; return the folder of its programs.

    It sees the distribution's packages, and of this environment what the wheel depends on.
    """
    _run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(folder))
    python = folder / "bin/python"
    _run(*_PIP, "--python", str(python), "install", *_OFFLINE, str(wheel))
    site_packages = next(folder.glob("lib/python*/site-packages"))
    for needed in _dependencies(_metadata(wheel), {}).values():
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            (site_packages / name).symlink_to(str(needed.locate_file(name)))
    return folder / "bin"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an installed program so that it can import nothing from the repository."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        [program, *arguments],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _run(*command: str) -> None:
    subprocess.run(command, cwd="/", check=True, timeout=300)


def _metadata(wheel: Path) -> Distribution:
    found = next(path for path in ZipPath(wheel).iterdir() if path.name.endswith(".dist-info"))
    return PathDistribution(cast(Path, found))  # it accepts either


def _dependencies(of: Distribution, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """Return its installed dependencies without extras, direct and indirect."""
    requirements: Sequence[str] = of.requires or ()
    for requirement in map(Requirement, requirements):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        needed = distribution(requirement.name)
        is_here = Path(sys.prefix) in Path(str(needed.locate_file(""))).parents
        name = canonicalize_name(requirement.name)
        if name not in found and is_here:
            found[name] = needed
            _dependencies(needed, found)
    return found
