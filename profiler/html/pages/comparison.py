# SPDX-License-Identifier: Apache-2.0
"""The page of `writewise compare`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from profiler.compare.subject import Unit
from profiler.html.charts import scale
from profiler.html.charts.chart import Chart, DataTable, thinned_rows
from profiler.html.charts.intervals import IntervalRow, interval_chart
from profiler.html.page import CheckStep, Page, Tone
from profiler.report.comparison import label_text, ratio_text, repeats_text, shown_value
from sysctl.evidence.statistics import Repeats

#: A chart of more rows says less than the table, and of more sentences nobody reads all.
_MOST_ROWS = 30
#: Rows of a table, characters of a name or value, and of a sentence: files of others must not make
#: a huge page.
_MOST_TABLE_ROWS, _LONGEST, _LONGEST_SENTENCE = 200, 200, 1000


def comparison_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a comparison."""
    badge, tone = _badge(document)
    verdict = document["verdict"]
    chart = _ratios(document["figures"])
    return Page(
        kind="comparison",
        badge=badge,
        tone=tone,
        verdict=verdict[0],
        why=_sentences(verdict[1:]),
        facts=tuple(_facts(document)),
        tables=tuple(_tables(document)),
        charts=(chart,) if chart else (),
        caveats=_sentences(document["caveats"]),
        checks=(
            CheckStep("Compare the files again:", "writewise compare BEFORE.json AFTER.json"),
            CheckStep("A file with repeats:", "writewise pull … --all --json >> BEFORE.json"),
        ),
        document=document,
    )


def _badge(document: Mapping[str, Any]) -> tuple[str, Tone]:
    if not document["comparable"]:
        return "Not comparable", Tone.ACT
    asked = [each for each in document["figures"] if each["is_verdict"]]
    intervals = [each["interval"] for each in asked if each["interval"]]
    if not intervals:
        return "No repeats", Tone.PLAIN
    if all(each["low"] <= 1 <= each["high"] for each in intervals):
        return "No difference", Tone.CALM
    return "Different", Tone.ACT


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for title, side in (("Before", document["before"]), ("After", document["after"])):
        when = f", {side['measured_at']}" if side["measured_at"] else ""
        runs = f", {side['runs']} runs" if side["runs"] > 1 else ""
        yield title, f"{side['file']} ({side['kind']}{runs}{when})"


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, DataTable]]:
    figures = document["figures"]
    if figures:
        titles = ("figure", "before", "after", "ratio (interval)", "runs", "outcome")
        note = "A ratio is after : before. ±: the largest deviation of a run from the median."
        yield "Figures", _table(titles, map(_row, figures), frozenset(range(1, 5)), note)
    for title, name in (
        ("Settings that differ", "settings"),
        ("Circumstances that differ", "circumstances"),
        ("Answers that differ", "answers"),
    ):
        if document[name]:
            yield title, _table(("name", "before", "after"), _changes(document[name]))


def _table(
    titles: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    numbers: frozenset[int] = frozenset(),
    note: str | None = None,
) -> DataTable:
    cut = [tuple(map(_shortened, row)) for row in rows]
    kept, left_out = thinned_rows(cut, _MOST_TABLE_ROWS)
    return DataTable(titles, kept, numbers, " ".join(filter(None, (left_out, note))) or None)


def _sentences(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(_shortened(each, _LONGEST_SENTENCE) for each in found[:_MOST_ROWS])


def _shortened(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _row(figure: Mapping[str, Any]) -> tuple[str, ...]:
    sides = [Repeats(**each) if each else None for each in (figure["before"], figure["after"])]
    unit = Unit(figure["unit"])
    return (
        figure["name"],
        *(repeats_text(side, unit) for side in sides),
        _ratio(figure),
        ", ".join("–" if side is None else str(side.count) for side in sides),
        figure["outcome"],
    )


def _interval_name(figures: Sequence[Mapping[str, Any]]) -> str:
    """Return `95% interval`; the confidence is higher if the verdict is about several figures."""
    found = [each["interval"]["confidence"] for each in figures if each["interval"]]
    return f"{100 * found[0]:.4g}% interval" if found else "interval"


def _ratio(figure: Mapping[str, Any]) -> str:
    interval = figure["interval"]
    return ratio_text(figure["ratio"], (interval["low"], interval["high"]) if interval else None)


def _changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for each in changes:
        values = (shown_value(each["name"], each[side]) for side in ("before", "after"))
        yield (label_text(each["name"]), *values)


def _ratios(figures: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return the ratios with their intervals, those of the verdict first."""
    known = [each for each in figures if each["ratio"] is not None]
    known = sorted(known, key=lambda each: not each["is_verdict"])[:_MOST_ROWS]
    if not known:
        return None
    rows = [
        IntervalRow(
            name=_shortened(each["name"]),
            estimate=each["ratio"],
            shown=_ratio(each),
            low=each["interval"]["low"] if each["interval"] else None,
            high=each["interval"]["high"] if each["interval"] else None,
            is_best=False,
        )
        for each in known
    ]
    largest = max(each.estimate for each in rows)
    ends = [each.high for each in rows if each.high is not None]
    highest = max(1.05, min(max([*ends, largest]), 2 * largest))
    return interval_chart(
        "ratios",
        "After relative to before",
        "The ratio of each figure, and its interval where both files have repeats: a figure whose "
        "interval includes 1 does not differ significantly.",
        rows,
        scale.number_ticks(highest, 6, lambda value: f"{value:g}"),
        DataTable(
            ("figure", "after : before"),
            tuple((each.name, each.shown) for each in rows),
            frozenset({1}),
        ),
        same=(1.0, "before"),
        interval=_interval_name(known),
    )
