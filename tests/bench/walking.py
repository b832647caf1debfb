# SPDX-License-Identifier: Apache-2.0
"""A walk through several commands: each is printed with what it printed, then a table of checks."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.figures import print_table
from tests.places import REPOSITORY


@dataclass(frozen=True)
class Done:
    """The exit code of a command, what it printed, and how long it took (s)."""

    code: int
    output: str
    time_s: float


@dataclass
class Walk:
    """Runs commands in `folder`. In what is shown, the values of `shown_as` have other names."""

    folder: Path
    shown_as: Mapping[str, str] = field(default_factory=dict)
    checks: list[tuple[str, str, str, str]] = field(default_factory=list)

    def command(self, *words: object, lines: int = 12, may_fail: bool = False) -> Done:
        """Run a command of Writewise, and show it with so many lines of its output.

        Raises SystemExit if it fails and may not.
        """
        argv = ["writewise", *map(str, words)]
        self.show(argv)
        done = self._run(argv, may_fail)
        self.say(self._short(done, lines), f"[exit code {done.code}]" if done.code else "")
        return done

    def document(self, *words: object) -> dict[str, Any]:
        """Return the JSON document of a command; show nothing."""
        return dict(json.loads(self._run(["writewise", *map(str, words), "--json"], False).output))

    def _run(self, argv: list[str], may_fail: bool) -> Done:
        began_s = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-m", "profiler.cli.main", *argv[1:]],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
        )
        if ran.returncode and not may_fail:
            why = ran.stdout + ran.stderr
            raise SystemExit(f"{shlex.join(argv)}: exit code {ran.returncode}\n{why}")
        return Done(ran.returncode, ran.stdout, time.monotonic() - began_s)

    def _environment(self) -> dict[str, str]:
        """Return an environment in which commands leave nothing outside of the folder."""
        own = {"WRITEWISE_HISTORY": "off", "WRITEWISE_STATE_DIRECTORY": f"{self.folder}/state"}
        return {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1", **own}

    def _short(self, done: Done, lines: int) -> str:
        listed = done.output.rstrip().splitlines()
        more = [f"… and {len(listed) - lines} lines more"] if len(listed) > lines else []
        return "\n".join([*listed[:lines], *more, f"[{done.time_s:.1f} s]"])

    def show(self, words: list[str]) -> None:
        """Print a command as one would type it."""
        print(f"$ {self._named(shlex.join(words))}")

    def say(self, *paragraphs: str) -> None:
        """Print sentences, or what a command printed."""
        said = [self._named(each) for each in paragraphs if each]
        if said:
            print(*said, sep="\n", end="\n\n", flush=True)

    def _named(self, text: str) -> str:
        for value, name in self.shown_as.items():
            text = text.replace(shlex.quote(value), name).replace(value, name)
        return text

    def check_none(self, what: str, found: Collection[str]) -> None:
        """Note whether there is none; print those that there are."""
        self.say(*(f"{what}: {each}" for each in found))
        self.check(what, 0, len(found))

    def check(self, what: str, wanted: object, found: object) -> None:
        """Note whether what was found is what is wanted."""
        holds = "yes" if wanted == found else "NO"
        self.checks.append((what, str(wanted), str(found), holds))

    def end(self) -> int:
        """Print the table of the checks; return the exit code."""
        print_table(("", "wanted", "found", "holds"), self.checks)
        return int(any(holds != "yes" for *_, holds in self.checks))
