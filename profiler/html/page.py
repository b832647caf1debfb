# SPDX-License-Identifier: Apache-2.0
"""What a page shows, in the order in which it shows it; `profiler.html.rendering` writes it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profiler.html.charts.chart import Chart, DataTable


class Tone(str, enum.Enum):
    """Whether the verdict asks for something; the page has a word for it next to the colour."""

    ACT = "act"
    CALM = "calm"
    PLAIN = "plain"


@dataclass(frozen=True)
class CheckStep:
    """How a reader can check the report: a sentence, and a command to copy."""

    sentence: str
    command: str | None = None


@dataclass(frozen=True)
class Page:
    """A report. `kind` is the command's noun, `badge` the verdict in two words, `verdict` the h1.

    `why` are paragraphs below it. `facts` say where and when it was measured. `tables` come before
    the charts. `price` has the sentences on what a change costs. `document` is the JSON document
    that the page is made from, and a part of it.
    """

    kind: str
    badge: str
    tone: Tone
    verdict: str
    document: Mapping[str, Any]
    why: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[tuple[str, DataTable], ...] = ()
    charts: tuple[Chart, ...] = ()
    price: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    checks: tuple[CheckStep, ...] = ()


def _moment(moment: str | None) -> str | None:
    """Return `2026-11-23 21:35 UTC`, or another form of time as it is."""
    is_utc = moment is not None and moment.endswith("+00:00") and moment[10:11] == "T"
    return f"{moment[:10]} {moment[11:16]} UTC" if moment and is_utc else moment


def facts_of(measured: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """Return where and when something was measured, from a document's `measured`."""
    if not measured:
        return ()
    shown = (
        ("Host", measured.get("host")),
        ("Kernel", measured.get("kernel") and f"Linux {measured['kernel']}"),
        ("Measured", _moment(measured.get("started_at"))),
        ("Writewise", measured.get("version")),
    )
    return tuple((name, str(value)) for name, value in shown if value)
