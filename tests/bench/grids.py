"""The recorded grids that the benchmarks replay (`record_grid.py` made them)."""

from __future__ import annotations

import gzip
import lzma
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from contracts.units import format_size
from sysctl.protocol import MAX_MEMORY_CHANGE, invalid_reason
from sysctl.results import CANDIDATE, PRESENT, Results, Trial, load

FOLDER = Path(__file__).parent / "data"
#: The grids of the search benchmark, by the lab's memory in MiB and the number of objects of
#: 48 MiB: 25 MB/s a connection, one run of each setting, with the client of November 2026.
NAMES = ("4096-40", "4096-24", "2560-40", "2560-24")
#: The grid that goals of the search are of: the one with most settings.
WIDEST = "4096-40"
_OPENERS = {".xz": lzma.open, ".gz": gzip.open}


def recorded(name: str) -> Results:
    """Return one of `NAMES`; trials during which others wrote too much have a `problem`."""
    results = read(FOLDER / f"grid-{name}.json")
    return replace(results, trials=[_judged(trial) for trial in results.trials])


def all_files() -> list[Path]:
    """Return every recorded grid, compressed or not, by name."""
    return sorted(FOLDER.glob("grid-*.json*"))


def read(path: Path) -> Results:
    """Return the results in a file, which may end in `.xz` or `.gz`.

    Raises UsageError for a file that is damaged, as `sysctl.results.load` does.
    """
    opener = _OPENERS.get(path.suffix)
    if opener is None:
        return load(path)
    with tempfile.TemporaryDirectory() as folder, opener(path) as packed:
        plain = Path(folder, path.stem)
        plain.write_bytes(packed.read())
        return load(plain)


def pack(plain: Path, path: Path) -> None:
    """Replace a results file by `path`, compressed as its ending says; whole or not at all."""
    packed = path.with_name(f".{path.name}.part")
    with _OPENERS[path.suffix](packed, "wb") as file:
        file.write(plain.read_bytes())
    packed.replace(path)
    plain.unlink()


def _judged(trial: Trial) -> Trial:
    if not trial.valid:
        return trial
    return replace(trial, problem=invalid_reason(trial.valid, trial.setting, ()))


def comparable(results: Results) -> Results:
    """Return the same; trials whose memory is not the grid's median have a `problem`.

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
    gib, context = 2**30, results.context
    shown = (
        f"{context['bytes'] / gib:.2f} GiB, {context['dirtyable_bytes'] / gib:.2f} GiB dirtyable"
    )
    if "connections" not in context:
        return shown
    rate = context["connection_bytes_per_s"] / 1e6
    return f"{shown}, {context['fstype']}, {context['connections']} × {rate:g} MB/s"


def candidates(results: Results) -> list[Trial]:
    """Return every valid candidate."""
    return [trial for trial in results.of_role(CANDIDATE) if trial.valid]


def present_only(results: Results) -> Results:
    """Return the same results as if the sweep had been stopped after its present runs."""
    return Results(results.context, {}, [], results.of_role(PRESENT))
