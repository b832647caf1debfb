# SPDX-License-Identifier: Apache-2.0
"""The page of `writewise pull`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from contracts.shared.units import counted, format_rate, format_seconds, format_size
from profiler.html.charts.bars import Bar, bar_chart
from profiler.html.charts.chart import Chart, DataTable
from profiler.html.page import CheckStep, Page, Tone, facts_of
from profiler.html.pages.write_back import (
    charts_of,
    findings_table,
    kernel_checks,
    loss_line,
    volume_lines,
)

_SHOWN_FAILURES = 20
#: From this share of the writers' time on, a pull was held up.
_NOTICED_SHARE = 0.05


def pull_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a pull."""
    badge, tone = _badge(document)
    evidence, sizes = document["evidence"], _sizes(document)
    advice = evidence["advice"] if evidence else None
    checks = (
        CheckStep(
            "Pull again, into an empty directory:", "sudo writewise pull s3://BUCKET/PREFIX DEST"
        ),
        *kernel_checks(),
    )
    return Page(
        kind="pull",
        badge=badge,
        tone=tone,
        verdict=_verdict(document),
        why=(f"What would help: {advice}.",) if advice else (),
        facts=facts_of(document["measured"]),
        tables=tuple(_tables(document)),
        charts=(*charts_of(document), *([sizes] if sizes else [])),
        caveats=tuple(_caveats(document)),
        checks=checks,
        document=document,
    )


def _badge(document: Mapping[str, Any]) -> tuple[str, Tone]:
    if document["ended_by"] or document["failures"]:
        return "Failed", Tone.ACT
    share = document["stalled_share"]
    if share is None:
        return "Pull", Tone.PLAIN
    return ("Writers waited", Tone.ACT) if share >= _NOTICED_SHARE else ("No wait", Tone.CALM)


def _verdict(document: Mapping[str, Any]) -> str:
    objects, size = counted(document["objects"], "object"), format_size(document["bytes"])
    if document["ended_by"]:
        return f"The pull ended early, after {objects}, {size}: {document['ended_by']}."
    sentence = f"{objects}, {size}, in {format_seconds(document['return_s'])}"
    share, evidence = document["stalled_share"], document["evidence"]
    if share is not None:
        sentence += f"; writers waited {share:.0%} of that time in dirty throttling"
    held_up = f" Held up by {evidence['limited_by']}." if evidence else ""
    failed = len(document["failures"])
    missing = f" {counted(failed, 'object')} missing or damaged." if failed else ""
    return f"{sentence}.{held_up}{missing}"


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, DataTable]]:
    yield "Figures", DataTable(("figure", "value"), tuple(_figures(document)))
    failures = document["failures"]
    if failures:
        rows = tuple((each["key"], each["reason"]) for each in failures[:_SHOWN_FAILURES])
        more = len(failures) - len(rows)
        note = f"{more:,} more are in the data below." if more else None
        yield "Objects that are missing or damaged", DataTable(("key", "why"), rows, note=note)
    rules = findings_table(document["findings"])
    if rules is not None:
        yield "Rules of the contract", rules


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    size, evidence = document["bytes"], document["evidence"]
    yield "pulled", f"{counted(document['objects'], 'object')}, {format_size(size)}"
    if document["kept_objects"]:
        kept = counted(document["kept_objects"], "object")
        yield "there already", f"{kept}, {format_size(document['kept_bytes'])}"
    if document["whole_objects"] > document["objects"] + document["kept_objects"]:
        whole = counted(document["whole_objects"], "object")
        yield "a sample of", f"{whole}, {format_size(document['whole_bytes'])}"
    yield "worker processes", f"{document['workers']:,}"
    yield "time to return", _time(document["return_s"], size)
    if document["durable_s"] is not None:
        yield "time to durable", _time(document["durable_s"], size)
    if document["stalled_share"] is not None:
        yield "writers waited", f"{document['stalled_share']:.1%} of their time"
    if document["timeline"]:
        yield "most data only in memory", format_size(document["timeline"]["peak_bytes"])
    if evidence:
        yield "requests", f"{evidence['requests_per_s']:,.0f}/s"
        first = format_seconds(evidence["mean_first_byte_s"])
        yield "time to a first byte", f"{first} on average"
        yield "writing, of the connections' time", f"{evidence['write_share']:.0%}"
        yield "CPU time of the workers", f"{evidence['cpu_share']:.0%} of the pull's time"
    verified = document["verified_by_method"]
    how = (f"{counted(count, 'object')} by {method}" for method, count in sorted(verified.items()))
    yield "verified", ", ".join(how) or "nothing"


def _time(seconds: float, size: int) -> str:
    rate = format_rate(size / seconds) if seconds else "–"
    return f"{format_seconds(seconds)} ({rate})"


def _sizes(document: Mapping[str, Any]) -> Chart | None:
    evidence = document["evidence"]
    buckets = [each for each in evidence["object_sizes"] if each["objects"]] if evidence else []
    if len(buckets) < 2:
        return None
    bars = [
        Bar(
            _range(each),
            each["bytes"],
            f"{counted(each['objects'], 'object')}, {format_size(each['bytes'])}",
        )
        for each in buckets
    ]
    return bar_chart(
        *("sizes", "Sizes of the objects", "The length of a bar is the bytes of the objects."),
        bars,
        ("size of the objects", "objects, bytes"),
    )


def _range(bucket: Mapping[str, Any]) -> str:
    if bucket["below_bytes"] is None:
        return f"{format_size(bucket['from_bytes'])} or more"
    return f"{format_size(bucket['from_bytes'])} to {format_size(bucket['below_bytes'])}"


def _caveats(document: Mapping[str, Any]) -> Iterator[str]:
    if document["profile"]:
        yield loss_line(document["profile"]["losses"])
    if document["why"]:
        yield from document["why"]["blind_spots"]
    yield from volume_lines(document["ebs_volumes"], "s")
    if document["whole_objects"] > document["objects"] + document["kept_objects"]:
        yield "Only a sample was pulled: a pull of everything may wait longer for write-back."
    yield "One pull is one measurement; `writewise sweep` repeats pulls and gives intervals."
