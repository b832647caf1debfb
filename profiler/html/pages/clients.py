# SPDX-License-Identifier: Apache-2.0
"""The page of `writewise bench-clients`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from contracts.shared.units import format_seconds, format_size
from profiler.html.charts import scale
from profiler.html.charts.chart import Chart, DataTable
from profiler.html.charts.intervals import IntervalRow, interval_chart
from profiler.html.page import CheckStep, Page, Tone, facts_of

_NONE = "–"


def clients_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a comparison of clients."""
    rows = document["rows"]
    verdicts = [each["verdict"] for each in rows]
    context = document["context"]
    faster = any(each["recommended_client"] for each in rows)
    first = verdicts[0] if verdicts else "Nothing was measured"
    return Page(
        kind="comparison of pull clients",
        badge="Faster client" if faster else "No change",
        tone=Tone.ACT if faster else Tone.CALM,
        verdict=f"{first}.",
        why=tuple(f"{each}." for each in verdicts[1:]),
        facts=facts_of({"kernel": context["kernel"], "started_at": context["measured_at"]}),
        tables=tuple((each["headline"], _table(each)) for each in rows),
        charts=tuple(
            chart for number, row in enumerate(rows, start=1) for chart in _charts(row, number)
        ),
        caveats=tuple(_caveats(document)),
        checks=(
            CheckStep("Compare again:", "sudo writewise bench-clients DEST --pulls 4"),
            CheckStep("The clients and their versions:", "writewise clients"),
        ),
        document=document,
    )


def _table(row: Mapping[str, Any]) -> DataTable:
    base = row["yardstick"]
    titles = ("client", "time", "MiB/s", "objects/s", "CPU-s/GiB", "peak memory", "waited")
    last = f"time relative to {base}" if base else "ratio"
    ordered = sorted(row["clients"], key=lambda each: each["time_s"] or math.inf)
    return DataTable(
        (*titles, last), tuple(_cells(each, base) for each in ordered), frozenset(range(1, 8))
    )


def _cells(client: Mapping[str, Any], base: str | None) -> tuple[str, ...]:
    def shown(name: str, form: str) -> str:
        return _NONE if client[name] is None else form.format(client[name])

    time_s, memory, ratio = client["time_s"], client["peak_rss_bytes"], client["ratio_to_yardstick"]
    relative = _NONE if ratio is None else f"{ratio['estimate']:.2f}"
    return (
        client["client"],
        _NONE if time_s is None else format_seconds(time_s),
        shown("mib_per_s", "{:.0f}"),
        shown("objects_per_s", "{:.3g}"),
        shown("cpu_s_per_gib", "{:.2f}"),
        _NONE if memory is None else format_size(memory),
        shown("stalled_share", "{:.0%}"),
        "1" if client["client"] == base else relative,
    )


def _charts(row: Mapping[str, Any], number: int) -> Iterator[Chart]:
    times = _times(row, number)
    if times is not None:
        yield times
    ratios = _ratios(row, number)
    if ratios is not None:
        yield ratios


def _times(row: Mapping[str, Any], number: int) -> Chart | None:
    measured = [each for each in row["clients"] if each["time_s"] is not None]
    if not measured:
        return None
    measured.sort(key=lambda each: each["time_s"])
    rows = [
        IntervalRow(
            name=each["client"],
            estimate=each["time_s"],
            shown=format_seconds(each["time_s"]),
            singles=tuple(pull["time_s"] for pull in each["pulls"]),
            is_best=each["client"] == row["recommended_client"],
        )
        for each in measured
    ]
    highest = max(time for each in rows for time in (each.estimate, *each.singles))
    cells = tuple(
        (each.name, each.shown, ", ".join(map(format_seconds, each.singles))) for each in rows
    )
    return interval_chart(
        f"times-{number}",
        f"Time of a pull: {row['name']}",
        "The median of each client's pulls, and every single pull.",
        rows,
        scale.seconds_ticks(highest, 6),
        DataTable(("client", "median", "single pulls"), cells, frozenset({1})),
        single="one pull",
    )


def _ratios(row: Mapping[str, Any], number: int) -> Chart | None:
    base = row["yardstick"]
    others = [
        each for each in row["clients"] if each["ratio_to_yardstick"] and each["client"] != base
    ]
    if not base or not others:
        return None
    others.sort(key=lambda each: each["ratio_to_yardstick"]["estimate"])
    rows = [
        IntervalRow(
            name=each["client"],
            estimate=each["ratio_to_yardstick"]["estimate"],
            shown=_ratio_text(each["ratio_to_yardstick"]),
            low=each["ratio_to_yardstick"]["low"],
            high=each["ratio_to_yardstick"]["high"],
            is_best=each["client"] == row["recommended_client"],
        )
        for each in others
    ]
    ends = [value for each in rows for value in (each.estimate, each.high) if value]
    highest = max(1.05, min(max(ends), 2 * max(each.estimate for each in rows)))
    cells = tuple((each.name, each.shown) for each in rows)
    return interval_chart(
        f"ratios-{number}",
        f"Time relative to {base}: {row['name']}",
        "Ratios of pulls of the same round, which met the same conditions, with 95% intervals.",
        rows,
        scale.share_ticks(highest, 6),
        DataTable(("client", f"time relative to {base}"), cells, frozenset({1})),
        same=(1.0, base),
    )


def _ratio_text(ratio: Mapping[str, Any]) -> str:
    high = "one pull" if ratio["high"] is None else f"{ratio['low']:.0%} to {ratio['high']:.0%}"
    return f"{ratio['estimate']:.0%} ({high})"


def _caveats(document: Mapping[str, Any]) -> Iterator[str]:
    yield from document["failed_sources"]
    for row in document["rows"]:
        for each in row["clients"]:
            if each["problem"]:
                yield f"{row['name']}: {each['client']}: {each['problem']}."
    yield from document["conditions"]
