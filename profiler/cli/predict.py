"""Predict a pull under other settings, with other memory or of another size, from a sweep.

The runs of the present settings are enough, so a sweep that was stopped after them will do. A run
in which writers hardly waited, under any setting, shows the source's rate best. The command says
where it goes beyond what was measured, and what it cannot predict.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, THRESHOLDS

if TYPE_CHECKING:
    from profiler.report.prediction import Asked, Line
    from sysctl.evidence.prediction import Model
    from sysctl.evidence.runs import Runs
    from sysctl.knobs.setting import Setting

NAME = "predict"
HELP = "predict a pull under settings, memory or of a size that were not measured"
NEEDS: tuple[str, ...] = ()

#: Sizes that there are: an x86-64 kernel with four-level page tables addresses at most 64 TiB, and
#: the largest EBS volume has as much; a burst may go to several.
_MEMORY_BYTES = (2**20, 2**46)
_BURST_BYTES = (1, 2**50)
#: What of its memory a host can dirty: the rest is reserved, and what is free at once counts less.
_DIRTYABLE_PARTS = (0.01, 2.0)
#: A table that can still be read; one prediction takes microseconds.
_MOST_SETTINGS = 1000
#: (dirty_ratio, dirty_background_ratio) shown when no setting is asked for, and what they are.
_SHOWN = (
    (20, 10, "kernel default"),
    (30, 20, "case study"),
    (40, 10, ""),
    (60, 10, ""),
    (80, 10, ""),
    (80, 40, ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The results, the other pull, and the settings."""
    from profiler.cli import argument_types as types

    parser.add_argument("results", metavar="RESULTS.json", type=Path)
    parser.add_argument(
        "--memory", metavar="SIZE", type=types.size, help="available when the pull begins, 8GiB"
    )
    parser.add_argument("--burst", metavar="SIZE", type=types.size, help="of the pull, 3GiB")
    for name in THRESHOLDS:
        parser.add_argument(
            BY_NAME[name].flag,
            metavar="N,N…",
            type=types.integers,
            dest=name,
            help=f"{BY_NAME[name].what}, in {BY_NAME[name].unit}".replace("%", "%%"),
        )
    parser.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Fit, predict, print."""
    import json

    from rich.console import Console

    from profiler.report.prediction import Asked, predictions_document, print_predictions
    from sysctl.evidence.prediction import fit
    from sysctl.evidence.results import load
    from sysctl.evidence.runs import Runs

    runs = Runs.of(load(arguments.results))
    model = fit(runs)
    asked = Asked(
        burst_bytes=_within("--burst", arguments.burst, _BURST_BYTES) or model.burst_bytes,
        dirtyable_bytes=_dirtyable(
            runs, model, _within("--memory", arguments.memory, _MEMORY_BYTES)
        ),
    )
    lines = _lines(arguments, runs, model, asked)
    if arguments.json:
        print(json.dumps(predictions_document(lines, model, asked), indent=2))
    else:
        print_predictions(lines, model, asked, Console())
    return 0


def _within(flag: str, size_bytes: int | None, span: tuple[int, int]) -> int | None:
    """The size. Raises UsageError for one that no host has."""
    from contracts.shared.errors import UsageError
    from contracts.shared.units import exact_size

    least, most = span
    if size_bytes is not None and not least <= size_bytes <= most:
        raise UsageError(
            f"{flag} {exact_size(size_bytes)} is out of range",
            f"use {exact_size(least)} to {exact_size(most)}",
        )
    return size_bytes


def _dirtyable(runs: Runs, model: Model, memory_bytes: int | None) -> int:
    """What of that memory the ratios are a percentage of: the same share as on the host swept.

    Of the present settings' runs, as the model has it: with the host's own memory `--memory` tells
    what is told without it.
    """
    from contracts.shared.errors import UsageError

    if memory_bytes is None:
        return model.dirtyable_bytes
    share = model.dirtyable_bytes / max(1, runs.circumstances.node.available_bytes)
    least, most = _DIRTYABLE_PARTS
    if not least <= share <= most:
        raise UsageError(
            "the results do not show which part of the memory can be dirtied",
            "leave out --memory, or sweep again",
        )
    return round(memory_bytes * share)


def _lines(arguments: argparse.Namespace, runs: Runs, model: Model, asked: Asked) -> list[Line]:
    from profiler.report.prediction import Line

    is_same = (asked.burst_bytes, asked.dirtyable_bytes) == (
        model.burst_bytes,
        model.dirtyable_bytes,
    )
    return [
        Line(
            label,
            setting,
            model.predict(
                setting.values,
                burst_bytes=asked.burst_bytes,
                dirtyable_bytes=asked.dirtyable_bytes,
            ),
            measured_s(runs, setting) if is_same else None,
        )
        for setting, label in _settings(arguments, runs, asked).items()
    ]


def _settings(arguments: argparse.Namespace, runs: Runs, asked: Asked) -> dict[Setting, str]:
    """The settings to show, the present ones first, each with what it is known as."""
    from sysctl.knobs.setting import Setting

    present = runs.baseline.setting
    shown = {present: "present"}
    named = {name: getattr(arguments, name) for name in THRESHOLDS}
    values = {name: tuple(dict.fromkeys(chosen)) for name, chosen in named.items() if chosen}
    if values:
        for setting in _asked_for(values, present, asked.dirtyable_bytes):
            shown.setdefault(setting, "")
        return shown
    for dirty, background, label in _SHOWN:
        pairs = ((DIRTY_PAIR[0], dirty), (BACKGROUND_PAIR[0], background))
        if dict(pairs).items() <= present.values.items():
            shown[present] = f"present, {label}" if label else "present"
        else:
            shown[Setting(pairs)] = label
    return shown


def _asked_for(
    values: dict[str, tuple[int, ...]], present: Setting, dirtyable_bytes: int
) -> Iterator[Setting]:
    """All combinations that the kernel takes as they are written. Raises UsageError without any."""
    from contracts.shared.errors import UsageError
    from contracts.shared.units import counted
    from profiler.cli.space_arguments import check_ranges
    from sysctl.search.grid import build_grid

    check_ranges(values)
    count = math.prod(map(len, values.values()))
    if count > _MOST_SETTINGS:
        raise UsageError(
            f"these are {counted(count, 'setting')}, at most {_MOST_SETTINGS} are predicted",
            "name fewer values",
        )
    settings, left_out = build_grid(values, present, dirtyable_bytes)
    if not settings:
        raise UsageError(
            f"there is no valid setting: {left_out[0].what}: {left_out[0].why}",
            "name a higher dirty or a lower background threshold",
        )
    yield from settings


def measured_s(runs: Runs, setting: Setting) -> float | None:
    """Return the median time of the setting's own runs; None where it was not measured."""
    import statistics

    times_s = runs.timed_s.get(setting)
    return statistics.median(times_s) if times_s else None
