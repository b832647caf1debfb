# SPDX-License-Identifier: Apache-2.0
"""Run tools/setup in its own folder, with stand-ins for the package managers and pip.

The tests check the calls of the stand-ins; nothing is installed and no network is used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.pull.clients.catalogue import by_name
from tests.places import REPOSITORY

PROGRAMS = ("awk", "bash", "cat", "dirname", "flock", "readlink", "sha256sum", "sort", "cp", "rm")
NOBODY = 65534
PYTHON = Path("/usr/bin/python3")
PIP = "pip>=21.3"  # before the editable install, which fails with Debian 11's pip
TABLE = """# need	for	apt	dnf
module:sys	run	python3-sys	python3-sys
there	run	apt-there	dnf-there
gone	run	apt-gone	dnf-gone
gone-module	run	apt-gone	dnf-gone
gone-test	test	apt-gone-test	dnf-gone-test
gone-bench	bench	apt-gone-bench	-
"""
#: Appends its arguments to `log` and makes what pip would; fails while `no-lists` exists.
STAND_IN = """#!/bin/bash
echo "${0##*/} $*" >>"$LOG"
case "$*" in
*pip*) cp "$0" "${0%/*}/writewise" ;;
*update*) rm -f "$LOG.no-lists" ;;
*) [[ ! -e $LOG.no-lists ]] ;;
esac
"""


class Clone:
    """A folder with the files that tools/setup reads, and a PATH without a real package manager."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.log = folder, folder / "bin", folder / "log"
        for name in ("tools", "profiler", "bin", ".venv/bin", ".venv-awscli/bin"):
            (folder / name).mkdir(parents=True)
        shutil.copy(REPOSITORY / "tools/setup", folder / "tools/setup")
        for name in ("setup.py", "pyproject.toml"):
            shutil.copy(REPOSITORY / name, folder / name)
        (folder / "profiler/packages.tsv").write_text(TABLE)
        for program in PROGRAMS:
            (self.bin / program).symlink_to(str(shutil.which(program)))
        self.add_program("there")
        for venv in (folder / ".venv", folder / ".venv-awscli"):
            self.add_program("python", venv / "bin")
            (venv / ".made-for").write_text(f"{PYTHON.resolve()}\n{venv}\n")

    def add_program(self, name: str, folder: Path | None = None) -> None:
        path = (folder or self.bin) / name
        path.write_text(STAND_IN)
        path.chmod(0o755)

    def setup(
        self, *extras: str, user: int | None = None
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """Run tools/setup; return its result and the calls of the stand-ins."""
        self.log.write_text("")
        environment = {"PATH": str(self.bin), "LOG": str(self.log), "PIP_NO_INDEX": "1"}
        result = subprocess.run(
            [self.folder / "tools/setup", *extras],
            capture_output=True,
            text=True,
            env=environment,
            user=user,
            timeout=120,  # a venv takes 20 s on a busy machine
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return result, self.log.read_text().splitlines()


@pytest.fixture
def clone() -> Iterator[Clone]:
    if not PYTHON.exists() or Path("/usr/sbin").resolve() == Path("/usr/bin"):
        pytest.skip("real package managers cannot be hidden here: /usr/sbin is /usr/bin")
    with tempfile.TemporaryDirectory(prefix="writewise-clone-") as folder:
        Path(folder).chmod(0o755)  # one test runs as another user
        yield Clone(Path(folder).resolve())


@pytest.fixture
def complete(clone: Clone) -> Clone:
    """A clone on a host that has every package."""
    for name in ("gone", "gone-module", "gone-test", "gone-bench"):
        clone.add_program(name)
    return clone


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may install packages")


@needs_root
def test_apt_installs_only_what_is_missing(clone: Clone) -> None:
    clone.add_program("apt-get")
    result, asked = clone.setup()
    assert result.returncode == 0, result.stderr
    assert asked[0].startswith("apt-get -y ") and asked[0].endswith(" install apt-gone")
    assert "--no-install-recommends" in asked[0]
    assert asked[-1].startswith("python -m pip install") and asked[-1].endswith(" --editable .")
    assert asked[1].endswith(f" {PIP}") and len(asked) == 3


@needs_root
def test_a_package_with_a_service_does_not_leave_it_running_or_enabled(clone: Clone) -> None:
    clone.add_program("apt-get")
    clone.add_program("systemctl")
    table = clone.folder / "profiler/packages.tsv"
    table.write_text(TABLE + "prometheus\ttest\tprometheus\t-\n")
    result, asked = clone.setup("test")
    assert result.returncode == 0, result.stderr
    unit = "prometheus.service"
    assert asked[0] == f"systemctl --quiet mask {unit}"
    assert asked[1].endswith(" install apt-gone apt-gone-test prometheus")
    assert asked[2:4] == [f"systemctl --quiet {each} {unit}" for each in ("unmask", "disable")]


@needs_root
@pytest.mark.parametrize("is_offered", [True, False])
def test_a_browser_is_installed_where_the_distribution_has_one(
    is_offered: bool, clone: Clone
) -> None:
    clone.add_program("apt-get")
    (clone.bin / "apt-get").write_text(f"{STAND_IN}[[ $1 != indextargets ]] || echo a list\n")
    clone.add_program("apt-cache")
    (clone.bin / "apt-cache").write_text(f"#!/bin/bash\nexit {0 if is_offered else 100}\n")
    browser = "chromium-headless-shell"
    table = clone.folder / "profiler/packages.tsv"
    table.write_text(f"{TABLE}{browser}\tbrowser\t{browser}\t-\n")
    result, asked = clone.setup("browser")
    assert result.returncode == 0, result.stderr
    installed = next(line for line in asked if " install apt-gone" in line)
    assert installed.endswith(f" apt-gone {browser}" if is_offered else " apt-gone")
    said = f"this distribution has no package {browser}; tests that need it are skipped"
    assert (said in result.stderr) is not is_offered
    assert asked[-1].endswith(" --editable .[browser]")


@needs_root
def test_a_fresh_image_without_package_lists_gets_them(clone: Clone) -> None:
    clone.add_program("apt-get")
    Path(f"{clone.log}.no-lists").touch()
    result, asked = clone.setup("test")
    assert result.returncode == 0, result.stderr
    steps = [line.split("recommends ")[-1] for line in asked[:3]]
    assert steps == ["install apt-gone apt-gone-test", "update", "install apt-gone apt-gone-test"]


@needs_root
@pytest.mark.parametrize("extras", [(), ("bench",)])  # dnf has no packages for the others
def test_dnf_gets_its_own_package_names(extras: tuple[str, ...], clone: Clone) -> None:
    clone.add_program("dnf")
    result, asked = clone.setup(*extras)
    assert result.returncode == 0, result.stderr
    assert asked[0].startswith("dnf -y ") and asked[0].endswith(" install dnf-gone")


def test_a_missing_package_manager_is_reported_with_the_missing_packages(clone: Clone) -> None:
    result, asked = clone.setup()
    assert result.returncode == 3
    assert result.stderr.endswith("install the equivalents of Debian's apt-gone\n")
    assert not asked


def test_an_ordinary_user_gets_a_list_of_missing_packages(clone: Clone) -> None:
    clone.add_program("apt-get")
    result, asked = clone.setup(user=NOBODY if os.geteuid() == 0 else None)
    assert result.returncode == 3
    assert "only root can install: apt-gone; run it as root" in result.stderr
    assert not asked


def test_a_second_run_installs_nothing(complete: Clone) -> None:
    _, first = complete.setup("test", "check")
    assert [line.split()[-1] for line in first] == [PIP, ".[test,check]"]
    for extras in ((), ("test",), ("check",), ("test", "check")):
        result, asked = complete.setup(*extras)
        assert (result.returncode, result.stdout, asked) == (0, "", [])


def test_a_new_extra_is_installed(complete: Clone) -> None:
    complete.setup()
    assert [line.split()[-1] for line in complete.setup("test")[1]] == [PIP, ".[test]"]


def test_the_benchmarks_get_a_separate_aws_cli_once(complete: Clone) -> None:
    _, asked = complete.setup("test", "bench")
    assert [line.split()[-1] for line in asked] == [PIP, ".[test,bench]", "awscli>=1.40,<2"]
    assert (complete.folder / ".venv-awscli/bin/writewise").exists()  # the stand-in ran there
    assert complete.setup("test", "bench")[1] == []
    assert complete.setup("test")[1] == []


@pytest.mark.parametrize("name", ["setup.py", "pyproject.toml", "profiler/packages.tsv"])
def test_a_change_of_the_dependencies_triggers_the_installation(name: str, complete: Clone) -> None:
    complete.setup()
    with (complete.folder / name).open("a") as file:
        file.write("# changed\n")
    assert complete.setup()[1][-1].endswith(" --editable .")


def test_a_removed_program_is_reported(complete: Clone) -> None:
    complete.setup()
    (complete.bin / "gone").unlink()
    assert complete.setup()[0].stderr.endswith("install the equivalents of Debian's apt-gone\n")


@pytest.mark.parametrize("damage", ["made elsewhere", "broken"])
def test_a_broken_environment_is_made_again(damage: str, complete: Clone) -> None:
    if damage == "broken":
        (complete.folder / ".venv/bin/python").unlink()
    else:
        (complete.folder / ".venv/.made-for").write_text("/usr/bin/python3.9\n/elsewhere/.venv\n")
    result, _ = complete.setup()
    assert f"making .venv from {PYTHON.resolve()}" in result.stdout
    configuration = (complete.folder / ".venv/pyvenv.cfg").read_text()
    assert "include-system-site-packages = true" in configuration
    # The real pip in it now has no index here, and reports that.
    assert "pip could not install" in result.stderr and result.returncode == 3
    assert not list((complete.folder / ".venv").glob(".setup-*"))


def test_the_table_has_every_column_and_only_known_extras() -> None:
    lines = (REPOSITORY / "profiler/packages.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert all(len(row) == 4 and all(row) for row in rows)
    extras = {"test", "browser", "check", "guests", "bench", "packages"}
    assert {row[1] for row in rows} <= {"run", "setup", "package", *extras}


def test_bcc_never_comes_from_pypi() -> None:
    text = (REPOSITORY / "setup.py").read_text()
    assert '"bcc' not in text and "'bcc" not in text


def test_this_environment_is_the_distributions_own_python() -> None:
    if Path(sys.prefix) != REPOSITORY / ".venv":
        pytest.skip("not run from .venv (make test does)")
    assert Path(sys.executable).resolve() == PYTHON.resolve()


@needs_root
@pytest.mark.parametrize("name", ["direct", "crt", "obstore", "s5cmd"])
def test_the_install_line_of_a_client_is_one_that_works(name: str, complete: Clone) -> None:
    program, *extras = by_name(name).install.split()
    assert program == f"{REPOSITORY}/tools/setup"
    result, asked = complete.setup(*extras)
    assert result.returncode == 0, result.stderr
    wanted = f".[{extras[0]}]" if extras else "."
    assert asked[-1].endswith(f" --editable {wanted}")
    assert all(f'"{extra}": [' in (REPOSITORY / "setup.py").read_text() for extra in extras)


def test_no_text_says_to_install_writewise_from_an_index() -> None:
    """It is on no index: somebody who registers the name there would get root."""
    texts = [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"]
    for package in ("contracts", "sysctl", "profiler"):
        texts += (REPOSITORY / package).rglob("*.py")
    assert len(texts) > 200
    assert [path for path in texts if "writewise[" in path.read_text()] == []
