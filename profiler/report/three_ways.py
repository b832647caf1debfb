# SPDX-License-Identifier: Apache-2.0
"""The table of three ways: at rest, standing thresholds, and raised only while a burst lasts."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from contracts.shared.units import format_seconds, format_size
from profiler.report.conclusions import stall_text
from profiler.report.console import plain_table, print_lines
from sysctl.advice.advise import Recommendation
from sysctl.evidence.comparison import Side
from sysctl.evidence.price import Price

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class GovernedPull:
    """One pull under the governor. Figures that were not seen are None.

    `raised_s` is how long the thresholds were raised, `problem` why the governor ended early.
    """

    return_s: float
    durable_s: float | None
    stalled_share: float | None
    at_risk_bytes: int | None
    raised_s: float | None
    problem: str | None = None


def print_three_ways(
    recommendation: Recommendation, governed: GovernedPull, console: Console
) -> None:
    """Print what the pull was at rest, with the recommended settings, and under the governor."""
    best, price = recommendation.best, recommendation.price
    sides = [("at rest", recommendation.present, recommendation.present_price, "never")]
    if best is not None and price is not None:
        sides.append(("standing settings", best, price, "always"))
    table = plain_table("", "returned", "waited", "at risk", "thresholds high")
    for name, side, of_side, high in sides:
        table.add_row(name, *_cells(side, of_side), high)
    table.add_row("govern", *_governed_cells(governed))
    console.print(table)
    lines = ["Pulls of the same objects; the last line is one pull under `writewise run --auto`."]
    if governed.problem:
        lines.append(governed.problem)
    print_lines(lines, console)


def _cells(side: Side, price: Price) -> tuple[str, str, str]:
    return (
        format_seconds(side.return_s.median),
        stall_text(side.observation),
        format_size(price.at_risk_bytes),
    )


def _governed_cells(pull: GovernedPull) -> tuple[str, ...]:
    share, risk, raised_s = pull.stalled_share, pull.at_risk_bytes, pull.raised_s
    return (
        format_seconds(pull.return_s),
        _UNKNOWN if share is None else f"{share:.0%}",
        _UNKNOWN if risk is None else format_size(risk),
        _UNKNOWN if raised_s is None else f"for {format_seconds(raised_s)}",
    )
