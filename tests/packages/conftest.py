# SPDX-License-Identifier: Apache-2.0
"""The packages, built twice, and Debian releases with them installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packages.chroots import REPOSITORY, SUITES, Chroot, base

#: A file that only the older package has.
OLD_FILE = "usr/lib/writewise/lib/profiler/of_the_old_version.py"


@dataclass(frozen=True)
class Built:
    """The packages of two builds."""

    deb: Path
    rpm: Path
    again: tuple[Path, Path]


def build(folder: Path) -> tuple[Path, Path]:
    command: list[str | Path] = [sys.executable, "-m", "tools.packages.build", "--output", folder]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return next(folder.glob("*.deb")), next(folder.glob("*.rpm"))


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Built:
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    return Built(*build(first), again=build(second))


@pytest.fixture(scope="session")
def older(built, tmp_path_factory) -> Path:
    """The same package with an older version number and one more file."""
    folder = tmp_path_factory.mktemp("older")
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", built.deb, tree], check=True)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    assert "\nVersion: 0" in text
    control.write_text(text.replace("\nVersion: 0", "\nVersion: 0~0", 1))
    (tree / OLD_FILE).write_text("")
    path = folder / "old.deb"
    pack = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, path]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    return path


@pytest.fixture(scope="session", params=SUITES)
def installed(request, built, older, tmp_path_factory) -> Iterator[Chroot]:
    """A release with the older package, installed by apt with its dependencies."""
    if os.geteuid():
        pytest.skip("only root can make chroots: sudo make test-packages")
    files = {"/packages/old.deb": older, "/packages/new.deb": built.deb}
    folder = tmp_path_factory.mktemp(request.param)
    fresh = Chroot((base(request.param),), folder).add(files)
    _, chroot = fresh.check(
        "apt-get -q update; apt-get -y -q --no-install-recommends install /packages/old.deb"
    )
    yield chroot
    shutil.rmtree(folder)  # hundreds of MB, which pytest would keep for three runs
