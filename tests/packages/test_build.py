# SPDX-License-Identifier: Apache-2.0
"""The built packages are reproducible, pass the linters, and are complete and small enough."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from tools.packages import bundle, files
from tools.packages.bundle import DEB, HERE, LIBRARY, RPM

#: Versions in the oldest distributions that the packages are for (packages.debian.org).
OF_THE_DISTRIBUTION = {
    "jinja2": "3.1.2",
    "markupsafe": "2.1.2",
    "psutil": "5.9.4",
    "pyyaml": "6.0",
}


@pytest.fixture(scope="module")
def tree(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run(["dpkg-deb", "--raw-extract", built.deb, folder / "deb"], check=True)
    (folder / "rpm").mkdir()
    unpack = f"rpm2cpio {built.rpm} | cpio --extract --quiet --make-directories"
    subprocess.run(["sh", "-ec", unpack], cwd=folder / "rpm", check=True)
    return folder


def test_two_builds_are_equal(built):
    def digests(paths):
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]

    assert digests((built.deb, built.rpm)) == digests(built.again)


def test_lintian_is_content(built):
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", built.deb]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_rpmlint_is_content(built):
    command = ["rpmlint", "--rpmlintrc", HERE / "rpm/rpmlintrc", built.rpm]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "0 errors, 0 warnings" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["prerm", "postinst", "postrm", "writewise.rtupdate"])
def test_the_maintainer_scripts_are_posix(name):
    script = files.filled(f"deb/{name}", {})
    command = ["shellcheck", "--shell=sh", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("target", "python"), [(DEB, "3.11"), (DEB, "3.13"), (RPM, "3.9")], ids=str
)
def test_the_bundle_has_all_that_it_requires(target, python, tree):
    found = [
        {
            "name": each.metadata["Name"],
            "version": each.version,
            "requires_dist": each.requires or [],
        }
        for each in bundle.bundled(tree / target.name / LIBRARY)
    ]
    assert len(found) > 10
    there = OF_THE_DISTRIBUTION if target is DEB else {}
    found += [{"name": name, "version": version} for name, version in there.items()]
    assert bundle.unmet(found, python) == []


@pytest.mark.parametrize("target", [DEB, RPM], ids=lambda target: target.name)
def test_nothing_of_the_builder_is_in_it(target, tree):
    below = tree / target.name
    assert not list(below.rglob("__pycache__")) and not list(below.rglob("direct_url.json"))
    assert not list(below.rglob("pyvenv.cfg"))
    assert {path.name for path in (below / "usr/bin").iterdir()} == {"writewise"}
    abi = "abi3" if target is DEB else "cpython-39-x86_64-linux-gnu"
    assert (below / LIBRARY / f"_awscrt.{abi}.so").exists()
    names = {bundle.name_of(each.metadata["Name"]) for each in bundle.bundled(below / LIBRARY)}
    assert not names & {"numpy", "scipy", "bcc"}
