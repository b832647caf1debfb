# SPDX-License-Identifier: Apache-2.0
"""The page of `writewise profile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.loading import FIRST_LOOK
from contracts.shared.units import counted, format_duration, format_size
from profiler.html.charts.chart import DataTable
from profiler.html.page import CheckStep, Page, Tone, facts_of
from profiler.html.pages.write_back import (
    charts_of,
    findings_table,
    kernel_checks,
    loss_line,
    volume_lines,
)
from profiler.recording.scope import restrictions

_BADGES = {
    "write-back": ("Write-back", Tone.ACT),
    "device": ("The device", Tone.ACT),
    "fsync": ("fsync", Tone.ACT),
    "other": ("Another wait", Tone.PLAIN),
    "nothing waited": ("No wait", Tone.CALM),
    "not writing": ("No writes", Tone.PLAIN),
}
_TARGETS = {"command": "the command", "process": "the process", "host": "the whole host"}
_SHOWN = 8


def profile_page(document: Mapping[str, Any]) -> Page:
    """Return the page of a profile."""
    verdict = document["verdict"]
    badge, tone = _BADGES[verdict["answer"]] if verdict else ("Profile", Tone.PLAIN)
    sentence = verdict["sentence"] if verdict else document["why"]["sentence"]
    return Page(
        kind="profile",
        badge=badge,
        tone=tone,
        verdict=f"{sentence[:1].upper()}{sentence[1:]}",
        why=(document["why"]["sentence"],) if verdict else (),
        facts=facts_of(document["measured"]),
        tables=tuple(_tables(document)),
        charts=charts_of(document),
        caveats=tuple(_caveats(document)),
        checks=(
            CheckStep(
                "Profile the host again for a minute, while its job runs:", "sudo writewise profile"
            ),
            *kernel_checks(),
        ),
        document=document,
    )


def _tables(document: Mapping[str, Any]) -> Iterator[tuple[str, DataTable]]:
    yield "Figures", DataTable(("figure", "value"), tuple(_figures(document)))
    rules = findings_table(document["findings"])
    if rules is not None and Path(document["contract"]).name != FIRST_LOOK.name:
        yield "Rules of the contract", rules


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    stall, timeline, verdict = document["stall"], document["timeline"], document["verdict"]
    yield "profiled for", format_duration(document["elapsed_ns"])
    if document["writers"]:
        yield "threads that wrote", counted(document["writers"], "thread")
    pauses = counted(stall["pauses"], "pause")
    asleep = f"{format_duration(stall['total_ns'])} in {pauses}" if stall["pauses"] else "never"
    yield "asleep in dirty throttling, all threads", asleep
    if timeline:
        yield "most data only in memory", format_size(timeline["peak_bytes"])
        if timeline["io_some_share"] is not None:
            yield "time in which a program waited for I/O", f"{timeline['io_some_share']:.1%}"
    if verdict:
        for name in ("volumes", "commands"):
            shown = _shares(verdict[name])
            if shown:
                yield f"{name} of the throttled writers", shown
    yield "calls counted of", _scope_text(document["scope"])
    if document["command_user"]:
        yield "the command ran as", document["command_user"]
    yield "contract", document["contract"]


def _scope_text(scope: Mapping[str, Any]) -> str:
    return ", ".join([_TARGETS[scope["target"]], *restrictions(scope["comm"], scope["cgroup"])])


def _shares(shares: Sequence[Mapping[str, Any]]) -> str:
    shown = [f"{each['name']} {each['share']:.0%}" for each in shares[:_SHOWN]]
    more = len(shares) - _SHOWN
    return ", ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def _caveats(document: Mapping[str, Any]) -> Iterator[str]:
    yield loss_line(document["losses"])
    yield from document["why"]["blind_spots"]
    if document["in_flight"]:
        calls = counted(document["in_flight"], "call")
        yield f"{calls} had not returned at the end and are not counted."
    yield from volume_lines(document["ebs_volumes"], "ns")
    yield (
        "Sleeps are summed over all threads, so they can be longer than the profile. Dirty memory "
        "is sampled: a peak between two samples is not in the chart."
    )
