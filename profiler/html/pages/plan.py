# SPDX-License-Identifier: Apache-2.0
"""The pages of `writewise plan`: one volume, and the cheapest ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from contracts.shared.units import counted, format_minutes, format_rate, format_size
from profiler.html.charts.bars import Bar, bar_chart
from profiler.html.charts.chart import Chart, DataTable
from profiler.html.charts.course import CoursePhase, course_chart
from profiler.html.page import CheckStep, Page, Tone

_TABLES = {"volumes": "of volumes", "instances": "of instances", "prices": "of prices"}


def plan_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a plan."""
    verdict = document["verdict"]
    badge, tone = _badge(document["meets_deadline"])
    course = course_chart(_phases(document), document["deadline_s"])
    settings = _settings(document)
    return Page(
        kind="plan of a pull",
        badge=badge,
        tone=tone,
        verdict=verdict[0],
        why=tuple(verdict[1:]),
        tables=(("The pull and the volume", DataTable(("figure", "value"), _figures(document))),),
        charts=tuple(each for each in (course, settings) if each is not None),
        price=tuple(_price(document)),
        caveats=tuple(_caveats(document)),
        checks=(
            CheckStep(
                "Measure a pull on the volume itself:",
                "sudo writewise pull s3://BUCKET/PREFIX DEST",
            ),
        ),
        document=document,
    )


def cheapest_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a search for the cheapest volumes."""
    volumes = document["volumes"]
    deadline_s = document["deadline_s"]
    chart = _prices(volumes)
    within = "" if deadline_s is None else f" within {format_minutes(deadline_s)}"
    return Page(
        kind="search for volumes",
        badge="Found" if volumes else "None found",
        tone=Tone.CALM if volumes else Tone.ACT,
        verdict=document["verdict"],
        tables=((f"Volumes{within}", _volumes_table(volumes)),) if volumes else (),
        charts=(chart,) if chart else (),
        caveats=tuple(_cheapest_caveats(document)),
        checks=(
            CheckStep(
                "One of the volumes in full, with its credits over time:",
                "writewise plan --burst SIZE --volume-type TYPE --volume-size GIB",
            ),
        ),
        document=document,
    )


def _badge(meets_deadline: bool | None) -> tuple[str, Tone]:
    if meets_deadline is None:
        return "Computed", Tone.PLAIN
    return ("In time", Tone.CALM) if meets_deadline else ("Too slow", Tone.ACT)


def _phases(document: Mapping[str, Any]) -> list[CoursePhase]:
    def share(percent: float | None) -> float | None:
        return None if percent is None else percent / 100

    return [
        CoursePhase(
            each["begins_s"],
            each["ends_s"],
            each["bytes_per_s"],
            each["limited_by"],
            share(each["balance_before"]),
            share(each["balance_after"]),
        )
        for each in document["phases"]
    ]


def _figures(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pull, source = document["pull"], document["source"]
    io = "sequential" if pull["io_bytes"] is None else f"random {format_size(pull['io_bytes'])}"
    rows = [("pull", f"{format_size(pull['size_bytes'])}, {io} I/O")]
    if document["volume"]:
        rows.append(("volume", volume_name(document["volume"])))
    if document["instance"]:
        rows.append(("instance", document["instance"]))
    if source:
        rows.append(("source", f"{source['kind']}, {format_rate(source['bytes_per_s'])}"))
    rows.append(("time to durable", format_minutes(document["durable_s"])))
    if document["return_s"] is not None:
        rows.append(("time to return", format_minutes(document["return_s"])))
    rows.append(("limited by", document["limited_by"]))
    for name, key in (
        ("credits run out after", "credits_end_s"),
        ("without the volume's credits", "empty_durable_s"),
        ("with the margin of HDD volumes", "margin_durable_s"),
        ("each pull in the end", "steady_durable_s"),
    ):
        if document[key] is not None:
            rows.append((name, format_minutes(document[key])))
    for name, key in (("volume", "balance_after"), ("instance", "instance_balance_after")):
        if document[key] is not None:
            rows.append((f"credits of the {name} after it", f"{document[key]:.0f}%"))
    if document["first_slow_pull"] is not None:
        rows.append(("first slow pull", f"{document['first_slow_pull']:,}"))
    rows.append(("fast pulls a day", f"{document['pulls_per_day']:,.1f}"))
    return tuple(rows)


def volume_name(volume: Mapping[str, Any]) -> str:
    """Return a volume's type, size, IOPS and throughput."""
    parts = [volume["type"]]
    if volume["size_gib"] is not None:
        parts.append(f"{volume['size_gib']:,} GiB")
    if volume["iops"] is not None:
        parts.append(f"{volume['iops']:,} IOPS")
    if volume["throughput_mib_per_s"] is not None:
        parts.append(f"{volume['throughput_mib_per_s']:g} MiB/s")
    return ", ".join(parts)


def _settings(document: Mapping[str, Any]) -> Chart | None:
    write_back = document["write_back"]
    if not write_back:
        return None
    best = write_back["best"]
    current = write_back["current"]
    bars = [Bar("current settings", current["return_s"], format_minutes(current["return_s"]))]
    bars += [
        Bar(
            " ".join(f"{name.split('.')[-1]}={value}" for name, value in each["sysctls"].items()),
            each["return_s"],
            format_minutes(each["return_s"]),
            is_main=bool(best) and each["sysctls"] == best["sysctls"],
        )
        for each in write_back["settings"][:12]
    ]
    return bar_chart(
        "settings",
        "Time until the last write returns, by setting",
        "Computed from the rates of source and volume; a sweep measures it.",
        bars,
        ("setting", "time to return"),
    )


def _price(document: Mapping[str, Any]) -> Iterator[str]:
    usd = document["monthly_usd"]
    if usd is not None:
        yield f"The volume costs ${usd:,.2f} a month (prices of {document['tables']['prices']})."
    guaranteed = document["guaranteed_pulls_per_day"]
    if guaranteed is not None:
        yield f"The instance's credits are guaranteed for {counted(guaranteed, 'pull')} a day."


def _caveats(document: Mapping[str, Any]) -> Iterator[str]:
    yield "This is computed from the limits that AWS publishes, and not measured."
    yield from _read_as(document)
    dates = [f"{_TABLES[name]} {date}" for name, date in document["tables"].items() if date]
    yield f"From the tables: {', '.join(dates)}."


def _cheapest_caveats(document: Mapping[str, Any]) -> Iterator[str]:
    yield "This is computed from the limits and prices that AWS publishes, and not measured."
    yield from _read_as(document)
    reasons = {
        "too_slow": "cannot be durable in time",
        "too_small": "cannot hold the capacity",
        "unpriced": "no price is known",
    }
    for name, why in reasons.items():
        if document["left_out"][name]:
            yield f"Left out: {', '.join(document['left_out'][name])}: {why}."


def _read_as(document: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"Warning: {each}." for each in document["warnings"])
    yield from (f"Assumed: {each}." for each in document["assumed"])
    if document["sources"]:
        yield f"From AWS: {'; '.join(document['sources'])}."


def _volumes_table(volumes: list[Mapping[str, Any]]) -> DataTable:
    rows = tuple(
        (
            volume_name(each["volume"]),
            "–" if each["monthly_usd"] is None else f"${each['monthly_usd']:,.2f}",
            format_minutes(each["durable_s"]),
            "–" if each["balance_after"] is None else f"{each['balance_after']:.0f}%",
            each["limited_by"],
        )
        for each in volumes
    )
    titles = ("volume", "a month", "durable", "credits after", "limited by")
    return DataTable(titles, rows, frozenset({1, 2, 3}))


def _prices(volumes: list[Mapping[str, Any]]) -> Chart | None:
    priced = [each for each in volumes if each["monthly_usd"] is not None]
    if len(priced) < 2:
        return None
    bars = [
        Bar(
            volume_name(each["volume"]),
            each["monthly_usd"],
            f"${each['monthly_usd']:,.2f}, {format_minutes(each['durable_s'])}",
            is_main=number == 0,
        )
        for number, each in enumerate(priced)
    ]
    return bar_chart(
        "prices",
        "Price a month",
        "The cheapest volume is first; the text has the time to durable too.",
        bars,
        ("volume", "a month, time to durable"),
    )
