# SPDX-License-Identifier: Apache-2.0
"""Which grids are recorded, in which order, and where; pure, so it is tested without a lab."""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.units import exact_size
from profiler.cli import argument_types as types
from profiler.lab.lab import LabSpec
from profiler.pull.settings import TransferSettings
from sysctl.evidence.results import CANDIDATE, PRESENT
from sysctl.knobs.setting import Setting, invalid_reason
from sysctl.sweep.steps import Step
from tests.bench.grids import FOLDER

SEED = 1
_ENDINGS = (".json", ".json.xz", ".json.gz")
MIB, GIB = 2**20, 2**30
#: (dirty_ratio, dirty_background_ratio) of a small grid, in addition to the current settings: from
#: far below the burst to above it, early and late write-back.
PAIRS = ((10, 5), (30, 10), (40, 5), (40, 20), (50, 10), (60, 20), (80, 40))
#: Every second candidate, and the current settings, wait for the device in their first run.
DURABLE_EVERY = 2


def by_ratio(dirty: int, background: int) -> Setting:
    """Return the setting with these two ratios."""
    return Setting((("vm.dirty_ratio", dirty), ("vm.dirty_background_ratio", background)))


def product_of(dirty: Sequence[int], background: Sequence[int]) -> list[Setting]:
    """Return the pairs that the kernel takes as they are written."""
    pairs = (by_ratio(*pair) for pair in itertools.product(dirty, background))
    return [setting for setting in pairs if not invalid_reason(setting.values, 2**32)]


SETTINGS = tuple(by_ratio(*pair) for pair in PAIRS)


@dataclass(frozen=True)
class GridSpec:
    """What one grid is recorded on. Sizes in bytes, rates in bytes/s.

    The source has `connections` for each worker at `connection_bytes_per_s`, and a worker per CPU.
    The burst has `objects` objects of 48 MiB. Each setting, the current one included, is measured
    in `runs` rounds.
    """

    connection_bytes_per_s: int = LabSpec.connection_bytes_per_s
    connections: int = TransferSettings.max_concurrency
    objects: int = LabSpec.object_count
    memory_bytes: int = LabSpec.memory_bytes
    fstype: str = LabSpec.fstype
    runs: int = 3
    settings: tuple[Setting, ...] = SETTINGS

    @property
    def name(self) -> str:
        """`grid-4096-40-xfs-10x90MB`: MiB of memory, objects, file system, source of a worker."""
        source = f"{self.connections}x{exact_size(self.connection_bytes_per_s)}"
        return f"grid-{self.memory_bytes // MIB}-{self.objects}-{self.fstype}-{source}"

    @property
    def lab(self) -> LabSpec:
        """Return the lab to record it on."""
        return LabSpec(
            memory_bytes=self.memory_bytes,
            fstype=self.fstype,
            object_count=self.objects,
            connection_bytes_per_s=self.connection_bytes_per_s,
        )

    @property
    def transfer(self) -> TransferSettings:
        """Return the settings of the pull: today's defaults except for the connections."""
        return TransferSettings(max_concurrency=self.connections)


#: Two levels of the source's rate, the burst, the memory and the file system. 90 MB/s a connection
#: is the demo's, at which the host's CPUs decide; 20 connections at 12.5 MB/s bring 250 MB/s.
_RATES, _OBJECTS = (90_000_000, 12_500_000), (40, 24)
_MEMORIES, _FSTYPES = (4 * GIB, 2560 * MIB), ("xfs", "ext4")
#: Five grids in which any two levels of two factors meet at least once; the first is the demo's.
_COVERING = ((0, 0, 0, 0), (0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0))


def small_set() -> list[GridSpec]:
    """Return the documented set of `record_grid all`: five grids of eight settings × 3 runs."""
    return [
        GridSpec(
            connection_bytes_per_s=_RATES[rate],
            objects=_OBJECTS[objects],
            memory_bytes=_MEMORIES[memory],
            fstype=_FSTYPES[fstype],
        )
        for rate, objects, memory, fstype in _COVERING
    ]


def steps(present: Setting, candidates: Sequence[Setting], runs: int) -> Iterator[Step]:
    """Yield all trials: `runs` rounds of each setting once, in a random order for each round.

    So drift affects all settings equally, and no setting always follows the same other one. In the
    first round the current settings and some of the candidates also wait for the device.
    """
    others = [each for each in candidates if each != present]
    durable = {present, *others[::DURABLE_EVERY]}
    draw = random.Random(SEED)
    for number in range(runs):
        drawn = [present, *others]
        draw.shuffle(drawn)
        for setting in drawn:
            role = PRESENT if setting == present else CANDIDATE
            yield Step(role, setting, number == 0 and setting in durable, 0)


def largest(settings: Sequence[Setting]) -> Setting:
    """Return the one with the highest thresholds, whose pull is the shortest."""
    return max(settings, key=lambda setting: tuple(setting.values.values()))


def output_path(spec: GridSpec, folder: Path, ending: str = ".json.xz") -> Path:
    """Return where the grid is kept."""
    return folder / f"{spec.name}{ending}"


def recording_path(output: Path) -> Path:
    """Return the file of a recording in progress, under a name that `all_files` leaves out."""
    return output.with_name(f"recording-{output.name.partition('.json')[0]}.json")


def parser(description: str | None = None) -> argparse.ArgumentParser:
    """Return the command line of `record_grid`."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = made.add_subparsers(dest="which", required=True)
    every = which.add_parser("all", help="the documented set of five grids, about an hour")
    one = which.add_parser("one", help="a single grid")
    for each in (every, one):
        each.add_argument("--traces", action="store_true", help="keep the candidates' courses too")
        each.add_argument(
            "--pause-page-reporting",
            action="store_true",
            help="keep free memory with this virtual machine during the run, as on EC2",
        )
    every.add_argument("--folder", type=Path, default=FOLDER)
    default = GridSpec()
    one.add_argument("--output", type=Path, help="ends in .json, .json.xz or .json.gz")
    one.add_argument(
        "--connection-rate",
        type=types.size,
        default=default.connection_bytes_per_s,
        help="of the source, per second of each connection",
    )
    one.add_argument(
        "--connections", type=types.count, default=default.connections, help="of each worker"
    )
    one.add_argument("--objects", type=types.count, default=default.objects, help="48 MiB each")
    one.add_argument("--memory", type=types.size, default=default.memory_bytes)
    one.add_argument("--fstype", choices=("xfs", "ext4"), default=default.fstype)
    one.add_argument("--runs", type=types.count, default=default.runs, help="of each setting")
    one.add_argument("--dirty", type=types.integers, metavar="N,N…", help="with --background")
    one.add_argument("--background", type=types.integers, metavar="N,N…", help="all pairs of both")
    return made


def planned_by(arguments: argparse.Namespace) -> list[tuple[GridSpec, Path]]:
    """Return what to record, and where. Raises UsageError."""
    if arguments.which == "all":
        return [(spec, output_path(spec, arguments.folder)) for spec in small_set()]
    if (arguments.dirty is None) != (arguments.background is None):
        parser().error("name both --dirty and --background, or none of them")
    settings = SETTINGS
    if arguments.dirty:
        settings = tuple(product_of(arguments.dirty, arguments.background))
    if not settings:
        parser().error("there is no valid setting: background must be below dirty")
    spec = GridSpec(
        connection_bytes_per_s=arguments.connection_rate,
        connections=arguments.connections,
        objects=arguments.objects,
        memory_bytes=arguments.memory,
        fstype=arguments.fstype,
        runs=arguments.runs,
        settings=settings,
    )
    output = arguments.output or output_path(spec, FOLDER)
    if not output.name.endswith(_ENDINGS):
        parser().error(f"--output must end in {', '.join(_ENDINGS)}")
    if output.exists():
        parser().error(f"{output} is there already: name another file with --output")
    return [(spec, output)]
