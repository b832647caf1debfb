# SPDX-License-Identifier: Apache-2.0
"""Predict a pull under other settings, with other memory or of another size, from a sweep.

The runs of the current settings are enough, so a sweep that was stopped after them will do. A run
in which writers hardly waited, under any setting, shows the source's rate best. The command says
where it goes beyond what was measured, and what it cannot predict.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    from profiler.report.prediction import Asked, Line
    from sysctl.evidence.prediction import Model
    from sysctl.evidence.runs import Runs
    from sysctl.knobs.setting import Setting

NAME = "predict"
HELP = "predict a pull under settings that were not measured"
NEEDS: tuple[str, ...] = ()

#: The part of its memory that a host can dirty: the rest is reserved or not free at once.
_DIRTYABLE_PARTS = (0.01, 2.0)
#: The largest table that is still readable; one prediction takes microseconds.
_MOST_SETTINGS = 1000
#: (dirty_ratio, dirty_background_ratio) shown if no setting is given, and their names.
_SHOWN = (
    (20, 10, "kernel default"),
    (30, 20, "case study"),
    (40, 10, ""),
    (60, 10, ""),
    (80, 10, ""),
    (80, 40, ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the results, the other pull, and the settings."""
    from profiler.cli.space_arguments import add_sysctl
    from sysctl.knobs.vm import THRESHOLDS

    options.add_results(parser)
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=types.amount,
        help="memory available when the pull begins (default: as measured)",
    )
    parser.add_argument(
        "--burst",
        metavar="SIZE",
        type=types.amount,
        help="size of the pull (default: as measured)",
    )
    for name in THRESHOLDS:
        add_sysctl(parser, name, takes_several=True)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit, predict, print."""
    from profiler.report.console import plain_console
    from profiler.report.prediction import Asked, predictions_document, print_predictions
    from sysctl.evidence.prediction import BURST_BYTES, MEMORY_BYTES, fit
    from sysctl.evidence.results import load
    from sysctl.evidence.runs import Runs

    runs = Runs.of(load(arguments.results))
    model = fit(runs)
    asked = Asked(
        burst_bytes=_within("--burst", arguments.burst, BURST_BYTES) or model.burst_bytes,
        dirtyable_bytes=_dirtyable(
            runs, model, _within("--memory", arguments.memory, MEMORY_BYTES)
        ),
    )
    lines = _lines(arguments, runs, model, asked)
    if arguments.json:
        emit(NAME, predictions_document(lines, model, asked))
    else:
        print_predictions(lines, model, asked, plain_console())
    return 0


def _within(flag: str, size_bytes: int | None, span: tuple[int, int]) -> int | None:
    """Return the size. Raises UsageError for one that no host has."""
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
    """Return the memory that ratios refer to, with the same share as on the host of the sweep.

    The share is that of the model, from the runs of the current settings. So `--memory` with the
    host's own memory gives the same result as no `--memory`.
    """
    from contracts.shared.errors import UsageError

    if memory_bytes is None:
        return model.dirtyable_bytes
    share = model.dirtyable_bytes / max(1, runs.circumstances.node.available_bytes)
    least, most = _DIRTYABLE_PARTS
    if not least <= share <= most:
        raise UsageError(
            "the results do not show which part of the memory can be dirtied",
            "omit --memory, or sweep again",
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
    """Return the settings to show, the current ones first, each with its name."""
    from sysctl.knobs.setting import Setting

    present = runs.baseline.setting
    shown = {present: "current"}
    from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR, THRESHOLDS

    named = {name: getattr(arguments, name) for name in THRESHOLDS}
    values = {name: tuple(dict.fromkeys(chosen)) for name, chosen in named.items() if chosen}
    if values:
        for setting in _asked_for(values, present, asked.dirtyable_bytes):
            shown.setdefault(setting, "")
        return shown
    for dirty, background, label in _SHOWN:
        pairs = ((DIRTY_PAIR[0], dirty), (BACKGROUND_PAIR[0], background))
        if dict(pairs).items() <= present.values.items():
            shown[present] = f"current, {label}" if label else "current"
        else:
            shown[Setting(pairs)] = label
    return shown


def _asked_for(
    values: dict[str, tuple[int, ...]], present: Setting, dirtyable_bytes: int
) -> Iterator[Setting]:
    """Return all combinations that the kernel accepts unchanged. Raises UsageError if none."""
    from contracts.shared.errors import UsageError
    from contracts.shared.units import format_count
    from profiler.cli.space_arguments import check_ranges
    from sysctl.search.grid import build_grid

    check_ranges(values)
    count = math.prod(map(len, values.values()))
    if count > _MOST_SETTINGS:
        raise UsageError(
            f"too many settings: {format_count(count)}, at most {format_count(_MOST_SETTINGS)}",
            "pass fewer values",
        )
    settings, left_out = build_grid(values, present, dirtyable_bytes)
    if not settings:
        raise UsageError(
            f"no valid setting: {left_out[0].what}: {left_out[0].why}",
            "raise the dirty threshold or lower the background threshold",
        )
    yield from settings


def measured_s(runs: Runs, setting: Setting) -> float | None:
    """Return the median time of the setting's runs; None if it was not measured."""
    import statistics

    times_s = runs.timed_s.get(setting)
    return statistics.median(times_s) if times_s else None
