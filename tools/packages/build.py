# SPDX-License-Identifier: Apache-2.0
"""Build the .deb and the .rpm: the same commit gives the same bytes.

    python -m tools.packages.build [--output DIRECTORY] [--release N]
    python -m tools.packages.build --renew-locks

The time in the packages is SOURCE_DATE_EPOCH, by default that of the commit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution
from pathlib import Path

from tools.packages import bundle, deb, files, rpm
from tools.packages.bundle import DEB, HERE, LIBRARY, ROOT, RPM, BuildError, BundleTarget

_TOOLS = ("git", "dpkg-deb", "rpmbuild", "strip")


def main() -> int:
    """Build both packages, or renew the locks, and print errors."""
    parser = argparse.ArgumentParser(description="Build the .deb and the .rpm.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--release", type=int, default=1, help="of the same version; default: 1")
    parser.add_argument("--renew-locks", action="store_true", help="take the newest libraries")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="writewise-packages-") as name:
            _run(arguments, Path(name))
    except BuildError as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    return 0


def _run(arguments: argparse.Namespace, folder: Path) -> None:
    missing = [name for name in _TOOLS if not shutil.which(name)]
    if missing:
        raise BuildError(f"missing: {', '.join(missing)}; build on Debian or Ubuntu")
    os.environ.setdefault("SOURCE_DATE_EPOCH", _commit_time())
    wheel = bundle.own_wheel(folder)
    if arguments.renew_locks:
        for target in (DEB, RPM):
            bundle.renew_lock(wheel, target)
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    for target, package in ((DEB, deb), (RPM, rpm)):
        tree = folder / target.name
        own = make_tree(wheel, target, tree)
        path = package.build(tree, own, arguments.release, arguments.output)
        print(f"packages: {path} ({path.stat().st_size / 2**20:.1f} MiB)")


def _commit_time() -> str:
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BuildError("this is not a git clone; packages contain the files that git tracks")
    return done.stdout.strip()


def make_tree(wheel: Path, target: BundleTarget, tree: Path) -> Distribution:
    """Write what a package installs to `tree`, and return Writewise's metadata."""
    own = bundle.install(wheel, target, tree / LIBRARY)
    files.place_manuals(tree / LIBRARY / "share", tree / "usr/share", target.zsh)
    files.strip(tree)
    (tree / "usr/bin").mkdir()
    shutil.copyfile(HERE / "launcher", tree / "usr/bin/writewise")
    documents = tree / "usr/share/doc/writewise"
    documents.mkdir(parents=True)
    text = bundle.copyright_text(tree / LIBRARY)
    (documents / "copyright").write_text(text, encoding="utf-8")
    files.compress((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), documents / "changelog.gz")
    return own


if __name__ == "__main__":
    sys.exit(main())
