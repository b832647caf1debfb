# SPDX-License-Identifier: Apache-2.0
"""The recorded grids that the benchmarks replay (`record_grid.py` made them)."""

from __future__ import annotations

import gzip
import lzma
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from contracts.shared.units import format_size
from sysctl.evidence.protocol import MAX_MEMORY_CHANGE
from sysctl.evidence.results import PRESENT, Results, Trial, load
from sysctl.evidence.runs import Runs

FOLDER = Path(__file__).parent / "data"
#: Endings of compressed files, and how to unpack and pack them.
_PACKERS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".xz": (lzma.decompress, lzma.compress),
    ".gz": (gzip.decompress, gzip.compress),
}


def all_files() -> list[Path]:
    """Return every recorded grid, compressed or not, by name."""
    found = FOLDER.glob("grid-*.json*")
    return sorted(path for path in found if path.suffix in (".json", *_PACKERS))


def read(path: Path) -> Results:
    """Return the results in a file, which may end in `.xz` or `.gz`.

    Raises UsageError for damaged results, as `sysctl.evidence.results.load` does, OSError and
    LZMAError for a damaged file.
    """
    if path.suffix not in _PACKERS:
        return load(path)
    unpack, _ = _PACKERS[path.suffix]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, path.stem)
        plain.write_bytes(unpack(path.read_bytes()))
        return load(plain)


def pack(plain: Path, path: Path) -> None:
    """Write a results file to `path` atomically, compressed as its ending says."""
    content = plain.read_bytes()
    if path.suffix in _PACKERS:
        _, compress = _PACKERS[path.suffix]
        content = compress(content)
    packed = path.with_name(f"{path.name}.part")
    packed.write_bytes(content)
    packed.replace(path)
    plain.unlink()


def comparable(results: Results) -> Results:
    """Return the same, but trials whose memory differs from the grid's median have a `problem`.

    The trials' times are compared with each other, as in a sweep.
    """
    seen = [trial.observation.dirtyable_bytes for trial in results.trials if trial.observation]
    usual = median(seen) if seen else 0
    return replace(results, trials=[_of_memory(trial, usual) for trial in results.trials])


def _of_memory(trial: Trial, usual_bytes: float) -> Trial:
    seen = trial.valid
    if not seen or abs(seen.dirtyable_bytes - usual_bytes) <= MAX_MEMORY_CHANGE * usual_bytes:
        return trial
    moved = f"{format_size(seen.dirtyable_bytes)} could be dirty in place of"
    return replace(trial, problem=f"{moved} {format_size(usual_bytes)}")


def invalid_count(results: Results) -> int:
    """Return how many trials do not count."""
    return sum(not trial.valid for trial in results.trials)


def title(results: Results) -> str:
    """`1.88 GiB, 4.00 GiB dirtyable`; of newer grids also `, ext4, 20 × 25 MB/s`."""
    gib, shared, node = 2**30, results.circumstances.node_class, results.circumstances.node
    shown = f"{shared.bytes / gib:.2f} GiB, {node.dirtyable_bytes / gib:.2f} GiB dirtyable"
    lab = results.space.get("lab")
    if lab is None:
        return shown
    rate = lab["connection_bytes_per_s"] / 1e6
    return f"{shown}, {shared.fstype}, {lab['connections']} × {rate:g} MB/s"


def present_only(results: Results) -> Runs:
    """Return the runs of a sweep that was stopped after those of the current settings."""
    return Runs.of(results).where(lambda trial: trial.role == PRESENT)
