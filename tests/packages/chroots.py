# SPDX-License-Identifier: Apache-2.0
"""Debian releases as root file systems in layers: a kept base, and the changes of tests."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.guests.images import ENTER

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
BASES = REPOSITORY / "build/chroots"
SUITES = ("bookworm", "trixie")


@dataclass
class Chroot:
    """Layers, uppermost first, and a directory for new ones."""

    layers: tuple[Path, ...]
    folder: Path
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, script: str) -> tuple[subprocess.CompletedProcess[str], Chroot]:
        """Run a shell script; return its result and the chroot after it."""
        upper = self.folder / str(next(self.numbers))
        command: list[str | Path] = [
            HERE / "in_chroot.sh",
            ":".join(map(str, self.layers)),
            upper,
            script,
        ]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=900,
        )
        return done, Chroot((upper / "changed", *self.layers), self.folder, self.numbers)

    def check(self, script: str) -> tuple[str, Chroot]:
        """Run a script that must succeed; return its output and the chroot after it."""
        done, after = self.run(script)
        assert done.returncode == 0, done.stdout
        return done.stdout, after

    def add(self, files: dict[str, Path]) -> Chroot:
        """Return the chroot with a layer of files by absolute names; they are linked or copied."""
        layer = self.folder / str(next(self.numbers))
        for name, path in files.items():
            there = layer / name.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(path.read_bytes())
        return Chroot((layer, *self.layers), self.folder, self.numbers)


def base(suite: str) -> Path:
    """Return the root file system of a release; it is made once and kept below build/."""
    path = BASES / suite
    if not path.exists():
        BASES.mkdir(parents=True, exist_ok=True)
        half = BASES / f"{suite}.half"
        subprocess.run(["rm", "-rf", "--one-file-system", half], check=True)
        command: list[str | Path] = [
            ENTER,
            "-",
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            suite,
            half,
        ]
        subprocess.run(command, check=True)
        half.rename(path)
    return path
