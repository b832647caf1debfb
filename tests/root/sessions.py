# SPDX-License-Identifier: Apache-2.0
"""Sessions of pytest on root tests, started as separate programs, to be ended in every way."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contracts.shared.processes import die_with_parent
from tests.places import REPOSITORY
from tests.root.hosts import SLOWNESS
from tests.root.labs import wait_until
from tests.root.whole_host import changes, whole_host

_STARTS_S, _CLEANS_UP_S = 60, 60


@dataclass(frozen=True)
class Child:
    """A session: its process, its folder (pytest's `--basetemp`), its output, and its mark."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    mark: str
    before: dict[str, list[str]] = field(repr=False)

    def said(self) -> str:
        """Return what pytest has printed so far."""
        return self.log.read_text(errors="replace")

    def wait_until_it_runs_tests(self) -> None:
        """Wait until the first test has begun: `-v` prints its name before."""
        wait_until(lambda: "::" in self.said() or self.process.poll() is not None, _STARTS_S)
        assert "::" in self.said(), self.said()

    def made(self) -> list[str]:
        """Return what differs on the host from before the session, without processes."""
        found = changes(self.before, whole_host(self.mark))
        return [each for each in found if not each.startswith("processes")]

    def left(self) -> list[str]:
        """Return what differs from before the session, once it and its guard have ended."""
        self.process.wait(_CLEANS_UP_S * SLOWNESS)
        deadline_s = time.monotonic() + _CLEANS_UP_S * SLOWNESS
        while self._left() and time.monotonic() < deadline_s:
            time.sleep(0.2)
        return self._left()

    def _left(self) -> list[str]:
        files = [f"{path}/{name}" for path, _, names in os.walk(self.folder) for name in names]
        journals = [f"journal: {file}" for file in files if file.endswith(".journal")]
        return [*changes(self.before, whole_host(self.mark)), *journals]


@contextlib.contextmanager
def child(log: Path, *arguments: object) -> Iterator[Child]:
    """Start a session of pytest in its own process group, which ends with this process.

    Its folder is near the root, since sockets can only have short names.
    """
    folder = Path(tempfile.mkdtemp(prefix="pytest-"))
    mark = f"WRITEWISE_MARK={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    words = ["-m", "pytest", "-v", "-p", "no:cacheprovider", f"--basetemp={folder}", *arguments]
    parent, before = os.getpid(), whole_host(mark)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, words)],
            cwd=REPOSITORY,
            env={**os.environ, name: value},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),
        )
    made = Child(process, folder, log, mark, before)
    try:
        yield made
    finally:
        process.kill()
        made.left()
        shutil.rmtree(folder, ignore_errors=True)  # pytest keeps it after a normal end
