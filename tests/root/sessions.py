"""Sessions of pytest on root tests, started as programs of their own, to be ended in every way."""

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
    """A session: its process, its folder (pytest's `--basetemp`), what it prints, and its mark."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    mark: str
    before: dict[str, list[str]] = field(repr=False)

    def said(self) -> str:
        """What pytest has printed so far."""
        return self.log.read_text(errors="replace")

    def wait_until_it_runs_tests(self) -> None:
        """Until the first test was begun: `-v` prints its name before."""
        wait_until(lambda: "::" in self.said() or self.process.poll() is not None, _STARTS_S)
        assert "::" in self.said(), self.said()

    def made(self) -> list[str]:
        """What is otherwise on the host now than before it, but for processes."""
        found = changes(self.before, whole_host(self.mark))
        return [each for each in found if not each.startswith("processes")]

    def left(self) -> list[str]:
        """What is otherwise than before it once it has ended, and its guard."""
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
    """A session of pytest in a process group of its own, which ends with this process.

    Its folder is near the root, as sockets in it have short names only.
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
        shutil.rmtree(folder, ignore_errors=True)  # pytest keeps it after an end in order
