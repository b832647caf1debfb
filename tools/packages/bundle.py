# SPDX-License-Identifier: Apache-2.0
"""The content of both packages: Writewise and its dependencies as plain files, with licences.

A package depends on the distribution's packages in profiler/packages.tsv and bundles the other
libraries from wheels, each pinned by a hash in its bundle.lock. The wheels are for the target's
Python, whatever Python runs this.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARY = "usr/lib/writewise/lib"
TABLE = ROOT / "profiler/packages.tsv"
#: Files that pip writes about its work, with this machine's paths, and unneeded programs.
_UNWANTED = ("bin", "*.dist-info/RECORD", "*.dist-info/INSTALLER", "*.dist-info/REQUESTED",
             "*.dist-info/direct_url.json")  # fmt: skip
#: Names of licences in metadata → SPDX identifiers.
_SPDX = {
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Dual License": "Apache-2.0 or BSD-3-Clause",
}


class BuildError(Exception):
    """The packages cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class BundleTarget:
    """The Python of one package: the oldest version, and the ABIs that its wheels may have."""

    name: str
    column: int  # of profiler/packages.tsv
    python: str
    abis: tuple[str, ...]
    zsh: str  # where its zsh looks for completions, below /usr/share/zsh

    @property
    def lock(self) -> Path:
        """The wheels of the bundle."""
        return HERE / self.name / "bundle.lock"

    @property
    def pip_options(self) -> list[str]:
        """Options that select wheels for the target, not for the Python that runs pip."""
        abis = [word for abi in (*self.abis, "none") for word in ("--abi", abi)]
        return [
            *("--python-version", self.python, "--implementation", "cp", *abis),
            *("--platform", "manylinux2014_x86_64", "--only-binary", ":all:"),
        ]


#: Debian 12 has Python 3.11 and 13 has 3.13: wheels with the stable ABI serve both.
DEB = BundleTarget("deb", 2, "3.11", ("abi3",), "vendor-completions")
#: Amazon Linux 2023 has Python 3.9, and PyYAML and psutil that are too old.
RPM = BundleTarget("rpm", 3, "3.9", ("cp39", "abi3"), "site-functions")


def table_rows() -> list[list[str]]:
    """Return the rows of profiler/packages.tsv: need, for, apt, dnf."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def from_distribution(target: BundleTarget) -> dict[str, str]:
    """Return the dependencies of setup.py that the target's distribution has, with its packages."""
    rows = [row for row in table_rows() if row[1] == "package" and row[target.column] != "-"]
    return {row[0].removeprefix("pip:"): row[target.column] for row in rows}


def modules_and_programs(target: BundleTarget) -> tuple[list[str], list[str]]:
    """Return the distribution's packages that are always needed: of modules, and of programs."""
    rows = [row for row in table_rows() if row[1] == "run"]
    modules = {row[target.column] for row in rows if row[0].startswith("module:")}
    programs = {row[target.column] for row in rows if not row[0].startswith("module:")}
    return sorted(modules), sorted(programs - modules)


def name_of(requirement: str) -> str:
    """Return the normalized name (PEP 503) at the start of a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0] if found else "").lower()


def minimum_of(requirement: str) -> str:
    """Return the version after `>=`; "" without one."""
    found = re.search(r">=\s*([0-9.]+)", requirement)
    return found[1] if found else ""


def wanted(distribution: Distribution) -> list[str]:
    """Return what Writewise needs at run time, without extras."""
    return [line for line in distribution.requires or [] if "extra ==" not in line]


def check_lock(requirements: Sequence[str], target: BundleTarget) -> None:
    """Raise BuildError for a requirement that is neither in the lock nor in the distribution."""
    locked = {name_of(line) for line in target.lock.read_text(encoding="utf-8").splitlines()}
    there = locked | set(from_distribution(target))
    missing = [line for line in requirements if name_of(line) not in there]
    if missing:
        raise BuildError(
            f"{target.lock.relative_to(ROOT)} lacks {', '.join(missing)}: "
            "run `.venv/bin/python -m tools.packages.build --renew-locks`"
        )


def pip(*words: str) -> str:
    """Run pip with the setuptools of build.lock, and return its output."""
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", *words]
    environment = {**os.environ, "PIP_CONSTRAINT": str(HERE / "build.lock")}
    if "--require-hashes" in words:
        del environment["PIP_CONSTRAINT"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BuildError(f"`pip {words[0]}` failed (see above)")
    return done.stdout


def own_wheel(folder: Path) -> Path:
    """Build Writewise's wheel from the current content of the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / "source" / name)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    (folder / "source/profiler/commit.txt").write_bytes(head.stdout)
    wheels = ["--no-deps", "--wheel-dir", str(folder), str(folder / "source")]
    pip("wheel", *wheels)
    return next(folder.glob("writewise-*.whl"))


def renew_lock(wheel: Path, target: BundleTarget) -> None:
    """Write the newest versions that fit, with their hashes, into the target's lock."""
    own = next(iter(distributions(path=[str(wheel)])))
    there = from_distribution(target)
    chosen = resolved([line for line in wanted(own) if name_of(line) not in there], target)
    lines = [
        f"{name_of(each['metadata']['name'])}=={each['metadata']['version']} "
        f"--hash=sha256:{each['download_info']['archive_info']['hashes']['sha256']}\n"
        for each in chosen
    ]
    target.lock.write_text("".join(sorted(lines)), encoding="utf-8")


def resolved(requirements: Sequence[str], target: BundleTarget) -> list[dict[str, Any]]:
    """Return what pip would install for the target, as in its report.

    pip evaluates environment markers for the Python that runs it. Further requirements of the
    target's Python are added until nothing is missing.
    """
    options = ["--dry-run", "--ignore-installed", "--target", "unused", "--report", "-"]
    report = json.loads(pip("install", *options, *target.pip_options, *requirements))
    chosen: list[dict[str, Any]] = report["install"]
    missing = unmet([each["metadata"] for each in chosen], target.python)
    return resolved([*requirements, *missing], target) if missing else chosen


def unmet(chosen: Sequence[Mapping[str, Any]], python: str) -> list[str]:
    """Return the requirements on that Python that the chosen versions do not meet."""
    there = {name_of(each["name"]): each["version"] for each in chosen}
    marks = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    required = [Requirement(line) for each in chosen for line in each.get("requires_dist", [])]
    return [
        f"{each.name}{each.specifier}"
        for each in required
        if (each.marker is None or each.marker.evaluate(marks))
        and not each.specifier.contains(there.get(name_of(each.name), "0"), prereleases=True)
    ]


def install(wheel: Path, target: BundleTarget, library: Path) -> Distribution:
    """Install the bundle into `library`, and return Writewise's metadata."""
    check_lock(wanted(next(iter(distributions(path=[str(wheel)])))), target)
    options = ["--no-deps", "--no-compile", "--target", str(library), *target.pip_options]
    pip("install", *options, "--require-hashes", "--requirement", str(target.lock))
    pip("install", *options, "--upgrade", str(wheel))
    for path in [path for pattern in _UNWANTED for path in library.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return next(each for each in bundled(library) if each.metadata["Name"] == "writewise")


def bundled(library: Path) -> list[Distribution]:
    """Return what is installed in `library`, sorted by name."""
    found = distributions(path=[str(library)])
    return sorted(found, key=lambda each: name_of(each.metadata["Name"]))


def licence_of(distribution: Distribution) -> str:
    """Return the SPDX identifier of its licence. Raises BuildError if the metadata has none."""
    fields = distribution.metadata
    given = fields.get("License-Expression") or fields.get("License") or ""
    if not given or "\n" in given:
        classifiers = [line for line in fields.get_all("Classifier") or [] if "License ::" in line]
        given = " or ".join(line.rpartition(" :: ")[2] for line in classifiers)
    if not given:
        raise BuildError(f"the metadata of {fields['Name']} has no licence")
    return _SPDX.get(given, given)


def copyright_text(library: Path) -> str:
    """Return the copyright file: Writewise's, then the licences of the bundled libraries."""
    head = (HERE / "copyright").read_text(encoding="utf-8")
    there = bundled(library)
    own = next(each for each in there if each.metadata["Name"] == "writewise")
    others = [each for each in there if each is not own]
    texts = sorted(_licence_files(library, "writewise", own.version))
    head = head.replace("@TEXTS@", "\n".join(_installed(texts, library)))
    return head + "".join(_paragraph(each, library) for each in others)


def _paragraph(distribution: Distribution, library: Path) -> str:
    name, version = distribution.metadata["Name"], distribution.version
    texts = sorted(_licence_files(library, name, version))
    holders = dict.fromkeys(
        line for path in texts for line in _holders(path.read_text(encoding="utf-8"))
    )
    author = distribution.metadata.get("Author") or distribution.metadata.get("Author-email")
    lines = [f"{name} {version}: {licence_of(distribution)}"]
    lines += [f"  Copyright {holder}" for holder in holders or [author]]
    return "\n".join(["", *lines, *_installed(texts, library), ""])


def _installed(paths: Sequence[Path], library: Path) -> list[str]:
    return [f"  /{LIBRARY}/{path.relative_to(library)}" for path in paths]


def _licence_files(library: Path, name: str, version: str) -> Iterator[Path]:
    for folder in library.glob("*.dist-info"):
        if name_of(folder.name) == name_of(f"{name}-{version}.dist-info"):
            found = (p for p in folder.rglob("*") if re.match("LICEN[CS]E|COPYING|GPL-", p.name))
            yield from (path for path in found if path.is_file())


def _holders(text: str) -> list[str]:
    lines = re.findall(r"^\s*Copyright (?:\(c\) |© )?(\d.*)$", text, re.IGNORECASE | re.MULTILINE)
    return [line.strip() for line in lines]
