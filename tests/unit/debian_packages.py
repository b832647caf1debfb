# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian that are unpacked and not installed: their services would change this host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

PYTHON = "/usr/bin/python3"
_MODULES = re.compile(r"python3-[a-z0-9.+-]+")


def modules_of(folder: Path, package: str) -> Path:
    """Return the folder with the Python modules of a package and of those that it depends on.

    Skips the test where they cannot be had.
    """
    if not shutil.which("apt-get"):
        pytest.skip(f"{package} is taken from Debian's packages")
    _download(folder, [package, *_depended_on(package)])
    for found in folder.glob("*.deb"):
        assert _run("dpkg-deb", "-x", found, folder / "root").returncode == 0
    return folder / "root/usr/lib/python3/dist-packages"


def _depended_on(package: str) -> list[str]:
    """Return the packages with modules that are not installed here."""
    leave_out = ("--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks")
    rest = ("--no-replaces", "--no-enhances")
    done = _run("apt-cache", "depends", "--recurse", *leave_out, *rest, package)
    names = sorted({line for line in done.stdout.split() if _MODULES.fullmatch(line)})
    return [name for name in names if _run("dpkg", "-s", name).returncode != 0]


def _download(folder: Path, names: Iterable[str]) -> None:
    done = _run("apt-get", "download", *names, cwd=folder)
    if done.returncode:
        pytest.skip(f"packages could not be downloaded: {done.stderr.strip()}")


def _run(*argv: object, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in argv]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def cloud_init_refuses(modules: Path, path: Path) -> str:
    """Return what `cloud-init schema -c FILE` finds wrong with user data; "" if it is valid."""
    done = _run(
        *(PYTHON, "-m", "cloudinit.cmd.main", "schema", "--config-file", path),
        env={"PYTHONPATH": str(modules), "PATH": "/usr/bin:/bin"},
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr or "no reason given"


_LOAD_PROFILE = """
import json, sys
from tuned.profiles import Factory, Loader, Locator, Merger
from tuned.profiles.variables import Variables

loader = Loader(Locator([sys.argv[1]]), Factory(), Merger(), None, Variables())
profile = loader.load(sys.argv[2])
print(json.dumps({name: dict(unit.options) for name, unit in profile.units.items()}))
"""


def tuned_reads(modules: Path, profiles: Path, name: str) -> dict[str, dict[str, str]]:
    """Return the units of a profile with their options, as TuneD reads it."""
    environment = {"PYTHONPATH": str(modules)}
    done = _run(PYTHON, "-c", _LOAD_PROFILE, profiles, name, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
