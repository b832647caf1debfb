"""The wheel has every file of the packages, and what it installs works by itself."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from profiler.cli.main import build_parser
from tests.install import wheels
from tests.places import REPOSITORY


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
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == files


def test_nothing_is_imported_from_the_repository(programs: Path) -> None:
    script = "import profiler.pull.clients.direct as m; print(m.__file__)"
    result = wheels.run(programs / "python", "-I", "-c", script)
    assert result.stdout.startswith(str(programs.parent)), result.stderr


def commands() -> list[tuple[str, ...]]:
    """The words of every command and subcommand, each of which has a parser; first none at all."""
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
    result = wheels.run(programs / "writewise", "clients")
    assert (result.returncode, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert f"boto3 {version('boto3')}" in lines["direct"]
    assert f"awscrt {version('awscrt')}" in lines["crt"]
    assert "not here" in lines["obstore"]  # of an extra
