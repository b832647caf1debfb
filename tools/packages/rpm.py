# SPDX-License-Identifier: Apache-2.0
"""Makes the .rpm for Amazon Linux 2023's Python; its scripts are in the spec file."""

from __future__ import annotations

import os
import shutil
import time
from importlib.metadata import Distribution
from pathlib import Path

from tools.packages import bundle, files
from tools.packages.bundle import RPM

#: Macros that keep this machine's name, time and number of CPUs out of the package.
_MACROS = {
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "_buildhost": "reproducible",
    "_binary_payload": "w6.xzdio",
}


def build(tree: Path, own: Distribution, release: int, output: Path) -> Path:
    """Pack the tree with the metadata `own`, and return the package."""
    modules, programs = bundle.modules_and_programs(RPM)
    needed = {*modules, *bundle.from_distribution(RPM).values()}
    time_s = int(os.environ["SOURCE_DATE_EPOCH"])
    values = {
        "VERSION": own.version,
        "RELEASE": str(release),
        "MAINTAINER": files.MAINTAINER,
        "SUMMARY": files.summary(own),
        "PYTHON": RPM.python,
        "REQUIRES": "\n".join(f"Requires: {name}" for name in sorted(needed)),
        "RECOMMENDS": "\n".join(f"Recommends: {name}" for name in programs),
        "DATE": time.strftime("%a %b %d %Y", time.gmtime(time_s)),
    }
    files.settle(tree)
    work = tree.with_name("rpmbuild")
    work.mkdir()
    spec = work / "writewise.spec"
    spec.write_text(files.filled("rpm/writewise.spec", values), encoding="utf-8")
    macros = {**_MACROS, "_topdir": str(work), "_tree": str(tree)}
    defines = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    files.run("rpmbuild", "-bb", "--quiet", "--target", "x86_64-linux", *defines, str(spec))
    made = next(work.glob("RPMS/*/*.rpm"))
    return Path(shutil.move(made, output / made.name))
