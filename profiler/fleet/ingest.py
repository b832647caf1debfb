# SPDX-License-Identifier: Apache-2.0
"""Records of many nodes → three tables in Parquet, and a list of the files that were broken.

The merge never ends because of a file's content: a broken file is counted and named, with every
error. A file counts as a whole or not at all. A record that comes twice (the same node and time)
counts once, and its second file is named.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.writing import make_directories, write_atomically
from profiler.fleet.reading import BrokenRecordError, read_records
from profiler.fleet.record import FleetRecord
from profiler.fleet.rows import row_of
from profiler.fleet.sources import PackedFile
from profiler.fleet.tables import write_tables
from sysctl.evidence.class_key import ClassKey

BROKEN_NAME = "broken.jsonl"
DUPLICATE = "the same node and time as an earlier record"
#: Files between two reports of progress.
_STEP = 1000


@dataclass(frozen=True)
class BrokenFile:
    """A file that does not count, and every reason why."""

    name: str
    problems: tuple[str, ...]


@dataclass
class Ingested:
    """What was merged: numbers of files, records, nodes and classes; the broken files by name."""

    folder: Path
    files: int = 0
    records: int = 0
    nodes: int = 0
    classes: int = 0
    broken: list[BrokenFile] = field(default_factory=list)


def ingest(
    files: Iterable[PackedFile], folder: Path, on_progress: Callable[[int], None] | None = None
) -> Ingested:
    """Merge the files into the tables of a folder, which replace those of an earlier merge.

    `on_progress` is called with the number of files so far. Raises WritewiseError.
    """
    make_directories(folder)
    done = Ingested(folder)
    try:
        with tempfile.TemporaryDirectory(prefix=".writewise-", dir=folder) as scratch:
            rows = Path(scratch, "rows.jsonl")
            with rows.open("w", encoding="utf-8") as output:
                _Merge(done, output).add_all(files, on_progress or _ignore)
            write_tables(rows, Path(scratch), folder)
            _write_broken(done.broken, folder)
    except OSError as error:
        raise UsageError(
            f"cannot write into {printable(str(folder))}: {error.strerror}",
            "name another folder; it needs room for the unpacked records",
        ) from None
    return done


def _write_broken(broken: Iterable[BrokenFile], folder: Path) -> None:
    lines = (json.dumps({"file": each.name, "problems": each.problems}) for each in broken)
    write_atomically(folder / BROKEN_NAME, "".join(f"{line}\n" for line in lines))


class _Merge:
    """Writes the rows of files, and counts."""

    def __init__(self, done: Ingested, output: IO[str]) -> None:
        self._done = done
        self._output = output
        self._seen: set[tuple[str, str]] = set()
        self._nodes: set[str] = set()
        self._classes: set[str] = set()

    def add_all(self, files: Iterable[PackedFile], on_progress: Callable[[int], None]) -> None:
        for file in files:
            self._done.files += 1
            problems = self._add(file)
            if problems:
                self._done.broken.append(BrokenFile(printable(file.name), problems))
            if self._done.files % _STEP == 0:
                on_progress(self._done.files)
        self._done.nodes, self._done.classes = len(self._nodes), len(self._classes)

    def _add(self, file: PackedFile) -> tuple[str, ...]:
        """Add a file's records; return why it does not count, or ()."""
        if file.problem:
            return (file.problem,)
        try:
            records = list(read_records(file.content))
        except BrokenRecordError as error:
            return error.problems
        keys = [(record.node, record.start) for record in records]
        if len({*keys}) < len(keys) or not self._seen.isdisjoint(keys):
            return (DUPLICATE,)
        self._seen.update(keys)
        for record in records:
            self._write(record)
        return ()

    def _write(self, record: FleetRecord) -> None:
        class_key = _text_of(record.node_class)
        # not json.dump, which encodes in Python
        self._output.write(json.dumps(row_of(record, class_key), separators=(",", ":")) + "\n")
        self._done.records += 1
        self._nodes.add(record.node)
        self._classes.add(class_key)


@functools.lru_cache(maxsize=4096)
def _text_of(key: ClassKey) -> str:
    return str(key)


def _ignore(_: int) -> None:
    pass
