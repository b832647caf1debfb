"""What both packages hold: Writewise and its dependencies as plain files, and whose they are.

A package takes from its distribution what profiler/packages.tsv names for it, and the rest from
wheels, each pinned by a hash in its bundle.lock. The wheels are those of the target's Python,
whatever Python runs this.
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
#: What pip writes about its own work, with this machine's paths, and programs that nobody needs.
_UNWANTED = ("bin", "*.dist-info/RECORD", "*.dist-info/INSTALLER", "*.dist-info/REQUESTED",
             "*.dist-info/direct_url.json")  # fmt: skip
#: What metadata calls a licence → its SPDX identifier.
_SPDX = {
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Dual License": "Apache-2.0 or BSD-3-Clause",
}


class BuildError(Exception):
    """The packages cannot be built; the text says why and what to do."""


@dataclass(frozen=True)
class BundleTarget:
    """One package's Python: the oldest it runs on, and the ABIs that its wheels may have."""

    name: str
    column: int  # of profiler/packages.tsv
    python: str
    abis: tuple[str, ...]

    @property
    def lock(self) -> Path:
        """The wheels of the bundle."""
        return HERE / self.name / "bundle.lock"

    @property
    def pip_options(self) -> list[str]:
        """They choose wheels for the target, not for the Python that runs pip."""
        abis = [word for abi in (*self.abis, "none") for word in ("--abi", abi)]
        return [
            *("--python-version", self.python, "--implementation", "cp", *abis),
            *("--platform", "manylinux2014_x86_64", "--only-binary", ":all:"),
        ]


#: Debian 12 has Python 3.11 and 13 has 3.13: wheels with the stable ABI serve both.
DEB = BundleTarget("deb", 2, "3.11", ("abi3",))
#: Amazon Linux 2023 has Python 3.9, and PyYAML and psutil that are too old.
RPM = BundleTarget("rpm", 3, "3.9", ("cp39", "abi3"))


def table_rows() -> list[list[str]]:
    """The rows of profiler/packages.tsv: need, for, apt, dnf."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def from_distribution(target: BundleTarget) -> dict[str, str]:
    """Dependencies of setup.py that the target's distribution has → its package."""
    rows = [row for row in table_rows() if row[1] == "package" and row[target.column] != "-"]
    return {row[0].removeprefix("pip:"): row[target.column] for row in rows}


def modules_and_programs(target: BundleTarget) -> tuple[list[str], list[str]]:
    """The distribution's packages that always are needed: of modules, and of programs."""
    rows = [row for row in table_rows() if row[1] == "run"]
    modules = {row[target.column] for row in rows if row[0].startswith("module:")}
    programs = {row[target.column] for row in rows if not row[0].startswith("module:")}
    return sorted(modules), sorted(programs - modules)


def name_of(requirement: str) -> str:
    """The normalized name (PEP 503) that a requirement begins with."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0] if found else "").lower()


def minimum_of(requirement: str) -> str:
    """The version after `>=`; empty where there is none."""
    found = re.search(r">=\s*([0-9.]+)", requirement)
    return found[1] if found else ""


def wanted(distribution: Distribution) -> list[str]:
    """What Writewise needs at run time, without extras."""
    return [line for line in distribution.requires or [] if "extra ==" not in line]


def check_lock(requirements: Sequence[str], target: BundleTarget) -> None:
    """Raise BuildError for a requirement that neither the lock nor the distribution has."""
    locked = {name_of(line) for line in target.lock.read_text(encoding="utf-8").splitlines()}
    there = locked | set(from_distribution(target))
    missing = [line for line in requirements if name_of(line) not in there]
    if missing:
        raise BuildError(
            f"{target.lock.relative_to(ROOT)} lacks {', '.join(missing)}: "
            "run `.venv/bin/python -m tools.packages.build --renew-locks`"
        )


def pip(*words: str) -> str:
    """Run pip with the setuptools that build.lock names; returns its output."""
    command = [sys.executable, "-m", "pip", "--quiet", "--no-input", *words]
    environment = {**os.environ, "PIP_CONSTRAINT": str(HERE / "build.lock")}
    if "--require-hashes" in words:
        del environment["PIP_CONSTRAINT"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BuildError(f"`pip {words[0]}` failed (see above)")
    return done.stdout


def own_wheel(folder: Path) -> Path:
    """Build Writewise's wheel from the files that git knows, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / "source" / name)
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
    """What pip would install for the target, as in its report.

    pip reads environment markers for the Python that runs it; what the target's Python asks for
    besides is added until nothing is missing.
    """
    options = ["--dry-run", "--ignore-installed", "--target", "unused", "--report", "-"]
    report = json.loads(pip("install", *options, *target.pip_options, *requirements))
    chosen: list[dict[str, Any]] = report["install"]
    missing = unmet([each["metadata"] for each in chosen], target.python)
    return resolved([*requirements, *missing], target) if missing else chosen


def unmet(chosen: Sequence[Mapping[str, Any]], python: str) -> list[str]:
    """What the chosen libraries require on that Python and the chosen versions do not meet."""
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
    """Install the bundle into `library`; returns Writewise's own metadata."""
    check_lock(wanted(next(iter(distributions(path=[str(wheel)])))), target)
    options = ["--no-deps", "--no-compile", "--target", str(library), *target.pip_options]
    pip("install", *options, "--require-hashes", "--requirement", str(target.lock))
    pip("install", *options, "--upgrade", str(wheel))
    for path in [path for pattern in _UNWANTED for path in library.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return next(each for each in bundled(library) if each.metadata["Name"] == "writewise")


def bundled(library: Path) -> list[Distribution]:
    """What is installed in `library`, by name."""
    found = distributions(path=[str(library)])
    return sorted(found, key=lambda each: name_of(each.metadata["Name"]))


def licence_of(distribution: Distribution) -> str:
    """The SPDX identifier of its licence. Raises BuildError where metadata names none."""
    fields = distribution.metadata
    given = fields.get("License-Expression") or fields.get("License") or ""
    if not given or "\n" in given:
        classifiers = [line for line in fields.get_all("Classifier") or [] if "License ::" in line]
        given = " or ".join(line.rpartition(" :: ")[2] for line in classifiers)
    if not given:
        raise BuildError(f"the metadata of {fields['Name']} names no licence")
    return _SPDX.get(given, given)


def copyright_text(library: Path) -> str:
    """The copyright file: Writewise's own, then each bundled library's licence and its text."""
    head = (HERE / "copyright").read_text(encoding="utf-8")
    others = [each for each in bundled(library) if each.metadata["Name"] != "writewise"]
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
    lines += [f"  /{LIBRARY}/{path.relative_to(library)}" for path in texts]
    return "\n".join(["", *lines, ""])


def _licence_files(library: Path, name: str, version: str) -> Iterator[Path]:
    for folder in library.glob("*.dist-info"):
        if name_of(folder.name) == name_of(f"{name}-{version}.dist-info"):
            yield from (p for p in folder.rglob("*") if re.match("LICEN[CS]E|COPYING", p.name))


def _holders(text: str) -> list[str]:
    lines = re.findall(r"^\s*Copyright (?:\(c\) |© )?(\d.*)$", text, re.IGNORECASE | re.MULTILINE)
    return [line.strip() for line in lines]
