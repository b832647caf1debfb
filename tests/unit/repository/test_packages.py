# SPDX-License-Identifier: Apache-2.0
"""The computations of the package builder; `make test-packages` tests the packages."""

from __future__ import annotations

import subprocess
import sys
from email.message import Message
from importlib.metadata import Distribution, requires
from types import SimpleNamespace
from typing import cast

import pytest

from contracts.shared.own_module import own_module
from tools.packages import bundle, files
from tools.packages.bundle import DEB, HERE, RPM, BuildError

TARGETS = pytest.mark.parametrize("target", [DEB, RPM], ids=lambda target: target.name)


def described(**fields: str) -> Distribution:
    """The parts of a distribution from which a licence is read."""
    metadata = Message()
    for name, value in fields.items():
        metadata[name.replace("_", "-")] = value
    return cast(Distribution, SimpleNamespace(metadata=metadata))


@TARGETS
def test_each_dependency_is_bundled_or_of_the_distribution(target) -> None:
    required = [line for line in requires("writewise") or [] if "extra ==" not in line]
    assert len(required) >= 6
    bundle.check_lock(required, target)


@TARGETS
def test_a_dependency_missing_from_the_lock_is_named_with_a_remedy(target) -> None:
    with pytest.raises(BuildError, match=r"lacks new-one>=2: run .*--renew-locks"):
        bundle.check_lock(["boto3>=1", "new-one>=2"], target)


@TARGETS
def test_each_wheel_is_pinned_by_its_hash(target) -> None:
    lines = target.lock.read_text().splitlines()
    assert all("==" in line and " --hash=sha256:" in line for line in lines)
    assert lines == sorted(lines)


def test_the_distributions_packages_are_those_of_the_table() -> None:
    assert bundle.from_distribution(DEB) == {
        "jinja2": "python3-jinja2",
        "markupsafe": "python3-markupsafe",
        "psutil": "python3-psutil",
        "pyyaml": "python3-yaml",
    }
    assert bundle.from_distribution(RPM) == {}
    assert bundle.modules_and_programs(DEB) == (
        ["python3-bpfcc"],
        ["e2fsprogs", "mount", "xfsprogs"],
    )


@pytest.mark.parametrize(
    ("requirement", "name", "minimum"),
    [
        ("boto3>=1.34", "boto3", "1.34"),
        ("plotext<7,>=6.1", "plotext", "6.1"),
        ("Typing_Extensions ; python_version < '3.11'", "typing-extensions", ""),
        ("python-dateutil==2.9.0.post0 --hash=sha256:a", "python-dateutil", ""),
    ],
)
def test_a_requirement_is_read(requirement: str, name: str, minimum: str) -> None:
    assert bundle.name_of(requirement) == name
    assert bundle.minimum_of(requirement) == minimum


def test_markers_are_read_for_the_targets_python() -> None:
    libraries: list[dict[str, object]] = [
        {"name": "a", "version": "1", "requires_dist": ['B<2; python_version < "3.10"', "c>=3"]},
        {"name": "b", "version": "2.8"},
        {"name": "c", "version": "3.1", "requires_dist": ['d>1; extra == "more"']},
    ]
    assert bundle.unmet(libraries, "3.9") == ["B<2"]
    assert bundle.unmet(libraries, "3.11") == []


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "BSD-2-Clause", "License": "BSD"}, "BSD-2-Clause"),
        ({"License": "Apache License 2.0"}, "Apache-2.0"),
        ({"Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "The text\nof it", "Classifier": "License :: MIT License"}, "MIT"),
    ],
)
def test_a_licence_is_read(fields, licence) -> None:
    assert bundle.licence_of(described(**fields)) == licence


def test_a_library_without_a_licence_is_not_packed() -> None:
    with pytest.raises(BuildError, match="the metadata of some has no licence"):
        bundle.licence_of(described(Name="some"))


def test_modes_and_times_do_not_depend_on_the_builder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    for name, mode in (("usr/bin/writewise", 0o600), ("usr/lib/module.so", 0o777)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch(mode=mode)
    files.settle(tmp_path)
    modes = {str(p.relative_to(tmp_path)): p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")}
    assert modes["usr/bin/writewise"] == modes["usr/bin"] == 0o755
    assert modes["usr/lib/module.so"] == 0o644
    assert {path.stat().st_mtime for path in tmp_path.rglob("*")} == {1e9}


def test_no_placeholder_is_left_in_a_script() -> None:
    for name in ("prerm", "postinst", "postrm", "writewise.rtupdate"):
        text = files.filled(f"deb/{name}", {})
        assert text.startswith("#!/bin/sh\n") and "@SCRIPTS@" not in text


def test_a_module_is_started_where_only_a_launcher_adds_it_to_the_path(tmp_path) -> None:
    """As in the packages: the distribution's Python, isolated, in a directory of others."""
    (tmp_path / "runpy.py").write_text("raise SystemExit('of others')")
    python = "/usr/bin/python3" if sys.prefix != sys.base_prefix else sys.executable
    command = [python, *own_module("contracts.shared.units"), "one", "two"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    plain = [python, "-I", "-m", "contracts.shared.units"]
    assert subprocess.run(plain, cwd=tmp_path, capture_output=True, check=False).returncode


def test_the_launcher_finds_the_bundle_where_the_packages_put_it() -> None:
    assert f'"/{bundle.LIBRARY}"' in (HERE / "launcher").read_text()
