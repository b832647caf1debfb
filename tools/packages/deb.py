# SPDX-License-Identifier: Apache-2.0
"""Makes the .deb: control file, maintainer scripts, Debian's changelog, checksums."""

from __future__ import annotations

import hashlib
import os
from email.utils import formatdate
from importlib.metadata import Distribution
from pathlib import Path

from tools.packages import bundle, files
from tools.packages.bundle import DEB, HERE

SCRIPTS = ("prerm", "postinst", "postrm")


def build(tree: Path, own: Distribution, release: int, output: Path) -> Path:
    """Pack the tree with the metadata `own`, and return the package."""
    _add_debian_files(tree, own, release)
    control = {
        "VERSION": own.version,
        "RELEASE": str(release),
        "MAINTAINER": files.MAINTAINER,
        "SUMMARY": files.summary(own),
        "INSTALLED_KIB": str(files.installed_kib(tree)),
        "DEPENDS": ", ".join(depends(own)),
        "RECOMMENDS": ", ".join(bundle.modules_and_programs(DEB)[1]),
    }
    checksums = _checksums(tree)
    (tree / "DEBIAN").mkdir()
    for name in SCRIPTS:
        (tree / "DEBIAN" / name).write_text(files.filled(f"deb/{name}", {}), encoding="utf-8")
    (tree / "DEBIAN/control").write_text(files.filled("deb/control", control), encoding="utf-8")
    (tree / "DEBIAN/md5sums").write_text(checksums, encoding="utf-8")
    files.settle(tree, [f"DEBIAN/{name}" for name in SCRIPTS])
    path = output / f"writewise_{own.version}-{release}_amd64.deb"
    files.run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(path))
    return path


def depends(own: Distribution) -> list[str]:
    """Return Debian's packages of modules, with the oldest version in setup.py, if any."""
    there = bundle.from_distribution(DEB)
    minima = {bundle.name_of(line): bundle.minimum_of(line) for line in bundle.wanted(own)}
    versions = {package: minima.get(name, "") for name, package in there.items()}
    names = sorted({*bundle.modules_and_programs(DEB)[0], *versions})
    return [f"{n} (>= {versions[n]})" if versions.get(n) else n for n in names]


def _add_debian_files(tree: Path, own: Distribution, release: int) -> None:
    hook = tree / "usr/share/python3/runtime.d/writewise.rtupdate"
    hook.parent.mkdir(parents=True)
    hook.write_text(files.filled("deb/writewise.rtupdate", {}), encoding="utf-8")
    overrides = tree / "usr/share/lintian/overrides/writewise"
    overrides.parent.mkdir(parents=True)
    overrides.write_text((HERE / "deb/lintian-overrides").read_text(encoding="utf-8"))
    changelog = (
        f"writewise ({own.version}-{release}) unstable; urgency=medium\n\n"
        "  * See changelog.gz.\n\n"
        f" -- {files.MAINTAINER}  {formatdate(int(os.environ['SOURCE_DATE_EPOCH']))}\n"
    )
    files.compress(changelog, tree / "usr/share/doc/writewise/changelog.Debian.gz")


def _checksums(tree: Path) -> str:
    paths = sorted(path for path in tree.rglob("*") if path.is_file())
    return "".join(f"{_md5(path)}  {path.relative_to(tree)}\n" for path in paths)


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
