# SPDX-License-Identifier: Apache-2.0
"""Dirty memory over time with the kernel's thresholds, the writers that sleep, and the disks."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from contracts.shared.units import format_rate, format_seconds, format_size
from profiler.html.charts import scale
from profiler.html.charts.chart import LINE, Chart, DataTable, KeyEntry, drawing, shortened
from profiler.html.charts.columns import binned_rate, joined, reduced, spans_where
from profiler.html.charts.panel import LEFT, PLOT, RIGHT, Panel, time_axis
from profiler.html.charts.svg import Node, box, line, path, text

_NS = 1e9
_DISKS = 3
_ROWS = 60
_THRESHOLDS = (
    ("dirty_threshold_bytes", "limit", "dirty threshold"),
    ("freerun_bytes", "freerun", "throttled above"),
    ("background_threshold_bytes", "background", "background"),
)
_DISK_CLASSES = ("disk disk-1", "disk disk-2", "disk disk-3")
_MEMORY_HEIGHT, _SMALL_HEIGHT, _GAP = 210.0, 74.0, 16.0


def timeline_chart(document: Mapping[str, Any]) -> Chart | None:
    """Return the chart of a document's `timeline`; None for fewer than two moments."""
    run = _Run.of(document)
    if run is None:
        return None
    memory = Panel("Data only in memory", 0.0, _MEMORY_HEIGHT, run.whole_s, run.memory_ticks)
    panels: list[Markup] = [memory.draw(list(_memory(run, memory)), list(_labels(run, memory)))]
    top = memory.bottom + _GAP
    for make in (_waiting, _disks):
        made = make(run, top)
        if made is not None:
            panel, drawn = made
            panels.append(drawn)
            top = panel.bottom + _GAP
    bottom = top - _GAP
    ticks = scale.moment_ticks(run.whole_s, 8)
    panels.append(time_axis(ticks, run.whole_s, bottom, "since the start"))
    title, summary = "Dirty memory, thresholds and stalls over time", _summary(run)
    return Chart(
        name="timeline",
        title=title,
        summary=summary,
        svg=drawing(
            *("timeline", title, summary, bottom + LINE + 8, panels),
            data_whole=f"{run.whole_s:.9g}",
            data_left=f"{LEFT:g}",
            data_width=f"{PLOT:g}",
            data_bottom=f"{bottom:g}",
        ),
        table=_table(run),
        key=tuple(_key(run)),
        is_zoomable=True,
    )


@dataclass(frozen=True)
class _Run:
    """The columns of a timeline; times in s."""

    times_s: tuple[float, ...]
    held: tuple[float, ...]
    writeback: tuple[float, ...]
    columns: Mapping[str, Any]

    @staticmethod
    def of(document: Mapping[str, Any]) -> _Run | None:
        times_s = tuple(time / _NS for time in document["time_ns"])
        if len(times_s) < 2 or times_s[-1] <= max(0.0, times_s[0]):
            return None
        writeback = tuple(map(float, document["writeback_bytes"]))
        dirty = document["dirty_bytes"]
        held = tuple(one + other for one, other in zip(dirty, writeback))
        return _Run(times_s, held, writeback, document)

    @property
    def whole_s(self) -> float:
        return self.times_s[-1]

    @property
    def memory_ticks(self) -> scale.Ticks:
        highest = max(max(self.held), max(self.columns["dirty_threshold_bytes"]))
        return scale.size_ticks(highest, 4)

    @property
    def above(self) -> list[tuple[float, float]]:
        """The times in which the kernel may make writers wait."""
        freerun = self.columns["freerun_bytes"]
        holds = [held > limit for held, limit in zip(self.held, freerun)]
        return joined(spans_where(self.times_s, holds), self.whole_s / 400)

    @property
    def asleep(self) -> list[tuple[float, float, float]]:
        """How many writers slept in dirty throttling on average; nothing if that is unknown."""
        return self._per_s("stalled_ns")

    @property
    def waited(self) -> list[tuple[float, float, float]]:
        """The share of the time in which some program waited for I/O; nothing if unknown."""
        return self._per_s("io_some_ns")

    def _per_s(self, name: str) -> list[tuple[float, float, float]]:
        totals = self.columns.get(name) or [None]
        if any(each is None for each in totals):
            return []
        return binned_rate(self.times_s, [each / _NS for each in totals])

    @property
    def disks(self) -> list[Mapping[str, Any]]:
        """The disks that wrote most, at most three."""
        wrote = [each for each in self.columns["devices"] if each["written_bytes"][-1]]
        return sorted(wrote, key=lambda each: -each["written_bytes"][-1])[:_DISKS]


def _memory(run: _Run, panel: Panel) -> Iterator[Node]:
    for begin, end in run.above:
        x = panel.x
        yield box(x.at(begin), 0, x.at(end) - x.at(begin), panel.height, "above")
    held = panel.points(reduced(run.times_s, run.held))
    yield path(held, "held-area", base=panel.height)
    yield path(panel.points(reduced(run.times_s, run.writeback)), "writeback", base=panel.height)
    yield path(held, "held")
    for name, class_, _ in _THRESHOLDS:
        values = reduced(run.times_s, run.columns[name])
        yield path(panel.points(values), f"threshold {class_}")


def _labels(run: _Run, panel: Panel) -> Iterator[Node]:
    """Yield the name of each threshold, at the height of its last value."""
    last = [run.columns[name][-1] for name, _, _ in _THRESHOLDS]
    names = [f"{name} {format_size(value)}" for (_, _, name), value in zip(_THRESHOLDS, last)]
    classes = [f"threshold {class_}" for _, class_, _ in _THRESHOLDS]
    yield from _names_at(panel, last, names, classes)


def _names_at(
    panel: Panel, values: Sequence[float], names: Iterable[str], classes: Iterable[str]
) -> Iterator[Node]:
    """Yield names to the right of the plot at the heights of values, moved apart, with a line."""
    own = [panel.height_of(value) for value in values]
    placed = scale.spread_out(own, LINE, panel.bottom - panel.height, panel.bottom - 2)
    x = LEFT + PLOT
    for name, class_, height, place in zip(names, classes, own, placed):
        yield line(x + 2, height, x + 9, place, class_)
        yield text(name, x + 12, place + 4)


def _waiting(run: _Run, top: float) -> tuple[Panel, Markup] | None:
    """Return the panel of sleeping writers; without their number, that of I/O pressure."""
    asleep = run.asleep
    if asleep:
        highest = max(rate for _, _, rate in asleep)
        ticks = scale.number_ticks(max(highest, 1.0), 2, lambda value: f"{value:g}")
        panel = Panel("Writers asleep in dirty throttling", top, _SMALL_HEIGHT, run.whole_s, ticks)
        label = f"at most {highest:.1f} at a time" if highest else "none"
        bins = asleep
    else:
        bins = run.waited
        if not bins:
            return None
        ticks = scale.share_ticks(1.0, 2)
        panel = Panel("Some program waited for I/O", top, _SMALL_HEIGHT, run.whole_s, ticks)
        label = "share of the time"
    curves = [path(panel.points(_stairs(bins)), "stalled", base=panel.height)]
    return panel, panel.draw(curves, [text(label, LEFT + PLOT + 12, panel.bottom - 4)])


def _disks(run: _Run, top: float) -> tuple[Panel, Markup] | None:
    rates = {each["name"]: binned_rate(run.times_s, each["written_bytes"]) for each in run.disks}
    if not rates:
        return None
    highest = max(rate for bins in rates.values() for _, _, rate in bins)
    ticks = scale.size_ticks(max(highest, 1.0), 2, "/s")
    panel = Panel("Written by the disks", top, _SMALL_HEIGHT, run.whole_s, ticks)
    curves = [
        path(panel.points(_stairs(bins)), class_)
        for bins, class_ in zip(rates.values(), _DISK_CLASSES)
    ]
    last = [bins[-1][2] for bins in rates.values()]
    names = (shortened(name, RIGHT - 20) for name in rates)
    return panel, panel.draw(curves, list(_names_at(panel, last, names, _DISK_CLASSES)))


def _stairs(bins: Sequence[tuple[float, float, float]]) -> list[tuple[float, float]]:
    return [point for begin, end, value in bins for point in ((begin, value), (end, value))]


def _summary(run: _Run) -> str:
    peak_s = run.times_s[max(range(len(run.held)), key=run.held.__getitem__)]
    above_s = sum(end - begin for begin, end in run.above)
    parts = [
        f"In {format_seconds(run.whole_s)}, at most {format_size(max(run.held))} was only in "
        f"memory, after {format_seconds(peak_s)}."
    ]
    freerun = format_size(run.columns["freerun_bytes"][-1])
    if above_s:
        parts.append(
            f"For {format_seconds(above_s)} it was above the {freerun} from which the kernel makes "
            "writers wait."
        )
    else:
        parts.append(f"It never reached the {freerun} from which the kernel makes writers wait.")
    return " ".join(parts)


def _key(run: _Run) -> Iterator[KeyEntry]:
    yield KeyEntry("held-area held", "area", "dirty or under write-back")
    yield KeyEntry("writeback", "area", "of it under write-back")
    if run.above:
        yield KeyEntry("above", "area", "the kernel may make writers wait")
    if run.asleep or run.waited:
        yield KeyEntry("stalled", "area", "writers asleep" if run.asleep else "waiting for I/O")


def _table(run: _Run) -> DataTable:
    """Return the largest values in equal parts of the run."""
    titles = ["from", "to", "at most in memory", "dirty threshold", "throttled above"]
    asleep = _means(run.asleep, run.whole_s)
    titles += ["writers asleep"] if asleep else []
    disks = run.disks
    titles += [f"{each['name']} wrote" for each in disks]
    rows = []
    for part in range(_ROWS):
        begin, end = run.whole_s * part / _ROWS, run.whole_s * (part + 1) / _ROWS
        inside = _inside(run.times_s, begin, end, is_last=part == _ROWS - 1)
        if not inside:
            continue
        first, last = inside[0], inside[-1]
        cells = [format_seconds(begin), format_seconds(end)]
        cells.append(format_size(max(run.held[first : last + 1])))
        for name, _, _ in _THRESHOLDS[:2]:
            cells.append(format_size(run.columns[name][last]))
        cells += [f"{asleep[part]:.1f}"] if asleep else []
        before = max(0, first - 1)
        for disk in disks:
            span = run.times_s[last] - run.times_s[before]
            written = disk["written_bytes"][last] - disk["written_bytes"][before]
            cells.append(format_rate(written / span) if span else "–")
        rows.append(tuple(cells))
    return DataTable(tuple(titles), tuple(rows), frozenset(range(len(titles))))


def _inside(times: Sequence[float], begin: float, end: float, *, is_last: bool) -> range:
    first = bisect.bisect_left(times, begin)
    last = len(times) if is_last else bisect.bisect_left(times, end)
    return range(first, last)


def _means(bins: Sequence[tuple[float, float, float]], whole: float) -> list[float]:
    """Return the mean of each part of the table; nothing without bins."""
    if not bins:
        return []
    sums = [0.0] * _ROWS
    part_s = whole / _ROWS
    for begin, end, rate in bins:
        for part in range(min(_ROWS - 1, int(begin / part_s)), min(_ROWS, int(end / part_s) + 1)):
            low, high = max(begin, part * part_s), min(end, (part + 1) * part_s)
            sums[part] += max(0.0, high - low) * rate
    return [each / part_s for each in sums]
