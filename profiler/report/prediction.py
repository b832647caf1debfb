# SPDX-License-Identifier: Apache-2.0
"""A prediction for the terminal and as a document for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import format_rate, format_seconds, format_size
from profiler.report.console import print_lines
from sysctl.evidence.prediction import Beyond, Extrapolation, Model, Prediction
from sysctl.knobs.setting import Setting


@dataclass(frozen=True)
class Line:
    """A setting, its name (`current`), its prediction, and its measured time to return if any.

    `measured_s` is the median of the valid runs, given only if the same pull was predicted.
    """

    label: str
    setting: Setting
    prediction: Prediction
    measured_s: float | None = None


@dataclass(frozen=True)
class Asked:
    """The predicted pull: its size and the memory that can be dirtied, in bytes."""

    burst_bytes: int
    dirtyable_bytes: int


def print_predictions(lines: Sequence[Line], model: Model, asked: Asked, console: Console) -> None:
    """Print the predictions, their basis, and where they go beyond the measurements."""
    burst, memory = format_size(asked.burst_bytes), format_size(asked.dirtyable_bytes)
    print_lines([f"A pull of {burst} with {memory} of dirtyable memory:"], console)
    found = (extrapolated_text(line.prediction.extrapolates) for line in lines)
    notes = list(dict.fromkeys(filter(None, found)))
    console.print(_table(lines, notes))
    numbered = [f"[{number}] extrapolated: {note}" for number, note in enumerate(notes, 1)]
    print_lines(numbered, console, "yellow", hanging=4)
    print_lines(_sources(model), console)


def _table(lines: Sequence[Line], notes: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("setting", overflow="fold")
    columns = ["return", "durable", "peak dirty"]
    if any(line.measured_s is not None for line in lines):
        columns.append("measured")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for line in lines:
        cells = [*_figures(line.prediction), _measured(line)][: len(columns)]
        table.add_row(_name(line), *cells, _mark(line, notes))
    return table


def _name(line: Line) -> Text:
    """Return the setting's name, if it has one, and what it sets, one word per line."""
    words = printable(str(line.setting)).replace(" ", "\n")
    return Text.assemble((f"{line.label}\n", "bold"), words) if line.label else Text(words)


def _figures(prediction: Prediction) -> tuple[str, ...]:
    return (
        format_seconds(prediction.return_s),
        format_seconds(prediction.durable_s),
        format_size(prediction.peak_dirty_bytes),
    )


def _measured(line: Line) -> str:
    return "" if line.measured_s is None else format_seconds(line.measured_s)


def _mark(line: Line, notes: Sequence[str]) -> Text:
    """Return the number of its note."""
    found = line.prediction.extrapolates
    return Text(f"[{notes.index(extrapolated_text(found)) + 1}]" if found else "")


def extrapolated_text(found: Sequence[Extrapolation]) -> str:
    """Return in words why a prediction is less certain than the measured errors."""
    return "; ".join(map(_extrapolated, found))


def _extrapolated(each: Extrapolation) -> str:
    if each.beyond is Beyond.THRESHOLD or each.amount is None:
        return "the dirty threshold is above the memory that can be dirtied"
    if each.beyond is Beyond.PEAK:
        return f"the source was seen without waits up to {format_size(each.amount)} only"
    noun = "memory" if each.beyond is Beyond.MEMORY else "the burst"
    return f"{noun} is {_factor(each.amount)} times what was measured"


def _factor(ratio: float) -> str:
    """Return a readable number: `3`, `0.2`, `0.0004`, `262,144`."""
    if ratio >= 10:
        return f"{ratio:,.0f}"
    return f"{round(ratio, 1):g}" if ratio >= 0.1 else f"{ratio:.1g}"


def _sources(model: Model) -> list[str]:
    """Return the basis of the figures."""
    return [
        f"From the runs of the sweep: {format_size(model.burst_bytes)} with "
        f"{format_size(model.dirtyable_bytes)} of dirtyable memory. The source delivered "
        f"{format_rate(model.source_bytes_per_s)} while writers did not wait, and the device wrote "
        f"{format_rate(model.device_bytes_per_s)}.",
    ]


def predictions_document(lines: Sequence[Line], model: Model, asked: Asked) -> dict[str, object]:
    """Return the same as plain data; the names have the units."""
    return {
        "burst_bytes": asked.burst_bytes,
        "dirtyable_bytes": asked.dirtyable_bytes,
        "model": {
            "burst_bytes": model.burst_bytes,
            "dirtyable_bytes": model.dirtyable_bytes,
            "source_bytes_per_s": model.source_bytes_per_s,
            "device_bytes_per_s": model.device_bytes_per_s,
        },
        "settings": [
            {
                "label": line.label,
                **line.setting.to_json(),
                "return_s": line.prediction.return_s,
                "durable_s": line.prediction.durable_s,
                "peak_dirty_bytes": line.prediction.peak_dirty_bytes,
                "extrapolates": extrapolated_text(line.prediction.extrapolates),
                "measured_return_s": line.measured_s,
            }
            for line in lines
        ],
    }
