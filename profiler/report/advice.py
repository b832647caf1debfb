"""A recommendation for the terminal and as a document for JSON."""

from __future__ import annotations

from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.text import printable
from contracts.units import format_size
from sysctl.advise import Recommendation, changed_options
from sysctl.evidence import Side
from sysctl.explain import Reason
from sysctl.results import Results
from sysctl.setting import Setting
from sysctl.statistics import Repeats


def print_advice(recommendation: Recommendation, console: Console) -> None:
    """Print the verdict, present against recommended, the reasons and what was left out."""
    console.print(Text(printable(recommendation.verdict), style="bold"))
    console.print(_comparison(recommendation))
    for line in _cost_lines(recommendation):
        console.print(Text(line), soft_wrap=True)
    if recommendation.reasons:
        console.print()
    for reason in recommendation.reasons:
        _print_reason(reason, console)
    for item in recommendation.results.left_out:
        line = f"left out  {item.what}: {item.why}"
        console.print(Text(printable(line), style="dim"), soft_wrap=True)


def _comparison(recommendation: Recommendation) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    sides = [recommendation.present]
    table.add_column("present", justify="right", no_wrap=True)
    if recommendation.best is not None:
        sides.append(recommendation.best)
        table.add_column("recommended", justify="right", no_wrap=True, style="bold")
    for title, cells in _rows(sides, recommendation.results):
        table.add_row(title, *cells)
    return table


def _rows(sides: list[Side], results: Results) -> list[tuple[str, list[str]]]:
    seen = [side.observation for side in sides]
    thresholds = [side.thresholds for side in sides]
    return [
        ("settings", [_lines_of(side.setting, results) for side in sides]),
        ("time to return", [_seconds(side.return_s.median) for side in sides]),
        ("  its runs", [_runs(side.return_s) for side in sides]),
        ("time to durable", [_seconds(side.durable_s) for side in sides]),
        ("writers stalled", [f"{o.stall_share:.0%}" for o in seen]),
        ("writers wait from", [format_size(t.freerun_bytes) for t in thresholds]),
        ("background threshold", [format_size(t.background_bytes) for t in thresholds]),
        ("dirty threshold", [format_size(t.dirty_bytes) for t in thresholds]),
        ("peak of dirty pages", [format_size(o.peak_dirty_bytes) for o in seen]),
    ]


def _lines_of(setting: Setting, results: Results) -> str:
    """A word a line; mount options only where they differ from the present mount."""
    if not changed_options(results, setting):
        setting = replace(setting, mount_options=None)
    return "\n".join(printable(word) for word in str(setting).split(" "))


def _runs(times: Repeats) -> str:
    return f"{times.count}: {times.smallest:.1f} to {times.largest:.1f} s"


def _seconds(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{seconds:.1f} s"


def _cost_lines(recommendation: Recommendation) -> list[str]:
    present, best = recommendation.present, recommendation.best
    if best is None:
        return []
    lines = [
        f"A power loss may take up to {format_size(best.thresholds.dirty_bytes)} of written data, "
        f"{format_size(present.thresholds.dirty_bytes)} before."
    ]
    if present.durable_s is not None and best.durable_s is not None:
        ratio = best.durable_s / present.durable_s
        changed = "did not change" if 0.9 <= ratio <= 1.1 else f"changed to {ratio:.2f} of it"
        lines.insert(
            0,
            f"The time until all is on the device {changed} ({present.durable_s:.1f} s and "
            f"{best.durable_s:.1f} s): the device is as fast as before, the writers just do not "
            "wait for it.",
        )
    return lines


def _print_reason(reason: Reason, console: Console) -> None:
    is_sysctl = reason.name.startswith("vm.")
    what = f"{reason.name} = {reason.value}" if is_sysctl else f"{reason.name} {reason.value}"
    style = "green" if reason.action == "set" else "dim" if reason.action == "leave out" else ""
    head = Text(printable(f"{reason.action:9} {what}"), style=style)
    console.print(head, soft_wrap=True)
    console.print(Text(printable(f"          {reason.why}")), soft_wrap=True)
    if reason.risk:
        console.print(Text(printable(f"          risk: {reason.risk}"), "yellow"), soft_wrap=True)


def advice_document(recommendation: Recommendation) -> dict[str, object]:
    """The same as plain data: seconds, bytes and shares in their names."""
    best = recommendation.best
    return {
        "change_recommended": best is not None,
        "verdict": recommendation.verdict,
        "speedup": recommendation.speedup,
        "present": _side_document(recommendation.present),
        "recommended": _side_document(best) if best else None,
        "reasons": [vars(reason) for reason in recommendation.reasons],
        "left_out": [vars(item) for item in recommendation.results.left_out],
    }


def _side_document(side: Side) -> dict[str, object]:
    seen, thresholds = side.observation, side.thresholds
    return {
        **side.setting.to_json(),
        "return_seconds": vars(side.return_s),
        "durable_seconds": side.durable_s,
        "stalled_share": seen.stall_share,
        "background_threshold_bytes": thresholds.background_bytes,
        "dirty_threshold_bytes": thresholds.dirty_bytes,
        "freerun_bytes": thresholds.freerun_bytes,
        "peak_dirty_bytes": seen.peak_dirty_bytes,
    }
