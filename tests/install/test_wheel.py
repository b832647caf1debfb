# SPDX-License-Identifier: Apache-2.0
"""The wheel has every file of the packages, and its installation works by itself."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from profiler.cli.main import build_parser
from tests.install import wheels
from tests.places import REPOSITORY
from tools.docs.manuals import COMPLETIONS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path) -> Path:
    return wheels.install(wheel, wheel.parent / "environment")


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    files = {
        str(path.relative_to(REPOSITORY))
        for package in wheels.PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"profiler/pull/clients/direct.py", "profiler/packages.tsv"} < files
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name for name in names if ".data/" not in name} == files
    assert {f"{package}/py.typed" for package in wheels.PACKAGES} < files


def test_the_licence_is_in_the_wheel(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        texts = {Path(name).name: name for name in archive.namelist() if "/licenses/" in name}
        assert set(texts) == {"LICENSE", "GPL-2.0-only.txt"}
        assert archive.read(texts["LICENSE"]) == (REPOSITORY / "LICENSE").read_bytes()
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        assert b"\nLicense: Apache-2.0\n" in archive.read(metadata)


def test_man_pages_and_completions_are_installed(programs: Path) -> None:
    share = programs.parent / "share"
    assert {path.name for path in (share / "man/man1").iterdir()} >= {
        "writewise.1",
        "writewise-sweep.1",
        "writewise-transfer-tune.1",
    }
    assert all((share / path).stat().st_size > 1000 for path in COMPLETIONS.values())


def test_nothing_is_imported_from_the_repository(programs: Path) -> None:
    script = "import profiler.pull.clients.direct as m; print(m.__file__)"
    result = wheels.run(programs / "python", "-I", "-c", script)
    assert result.stdout.startswith(str(programs.parent)), result.stderr


def commands() -> list[tuple[str, ...]]:
    """Return the words of every command and subcommand with a parser; the first has no words."""
    names: list[str] = []
    make = argparse.ArgumentParser.__init__

    def note(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        names.append(self.prog)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "__init__", note)
        build_parser()
    return [tuple(name.split()[1:]) for name in names]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_shows_its_help(command: tuple[str, ...], programs: Path) -> None:
    result = wheels.run(programs / "writewise", *command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(" ".join(("usage: writewise", *command)))


def test_the_version_and_the_clients_are_shown(programs: Path) -> None:
    assert wheels.run(programs / "writewise", "--version").stdout.split()[0] == "writewise"
    result = wheels.run(programs / "writewise", "clients", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    clients = {each["name"]: each for each in json.loads(result.stdout)["clients"]}
    assert f"boto3 {version('boto3')}" in clients["direct"]["version"]
    assert f"awscrt {version('awscrt')}" in clients["crt"]["version"]
    assert not clients["obstore"]["version"]  # belongs to an extra
