"""A recommendation for the terminal and as a document for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.text import printable
from contracts.units import format_seconds, format_size
from profiler.report.tradeoff import print_trade_off, setting_text
from sysctl.advise import Recommendation
from sysctl.evidence import Side
from sysctl.explain import LEAVE_OUT, MOUNT_OPTIONS, SET, Reason
from sysctl.forms import Form
from sysctl.price import Price
from sysctl.results import by_reason
from sysctl.setting import Setting
from sysctl.statistics import Interval, Repeats
from sysctl.tradeoff import Point

#: Times to durable that differ by no more are the same device at work.
_SAME_DURABLE = 0.10
_INDENT = "          "


def print_advice(
    recommendation: Recommendation, console: Console, group_lines: Sequence[str] = ()
) -> None:
    """Print verdict, comparison, price and trade-off, the reasons, and what was left out.

    `group_lines` say what a control group's memory limit does (`sysctl.group_advice`).
    """
    console.print(Text(printable(recommendation.verdict), style="bold"), soft_wrap=True)
    console.print(_comparison(recommendation))
    _print_lines([_noise_line(recommendation), *_price_lines(recommendation)], console)
    _print_lines(recommendation.notes, console)
    console.print()
    print_trade_off(recommendation.trade_off, recommendation.results, console)
    if recommendation.reasons:
        console.print()
    for reason in recommendation.reasons:
        _print_reason(reason, console)
    _print_lines(_form_lines(recommendation.forms), console)
    _print_lines(group_lines, console, "yellow")
    left_out = by_reason(recommendation.results.left_out)
    _print_lines((f"left out  {item.what}: {item.why}" for item in left_out), console, "dim")


def _print_lines(lines: Iterable[str], console: Console, style: str = "") -> None:
    for line in lines:
        console.print(Text(printable(line), style=style), soft_wrap=True)


def _comparison(recommendation: Recommendation) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    sides = [(recommendation.present, recommendation.present_price)]
    table.add_column("present", justify="right", overflow="fold")
    if recommendation.best is not None and recommendation.price is not None:
        sides.append((recommendation.best, recommendation.price))
        table.add_column("recommended", justify="right", overflow="fold", style="bold")
    for title, cells in _rows(recommendation, sides):
        table.add_row(title, *cells)
    return table


def _rows(
    recommendation: Recommendation, sides: Sequence[tuple[Side, Price]]
) -> list[tuple[str, list[str]]]:
    seen = [side.observation for side, _ in sides]
    thresholds = [side.thresholds for side, _ in sides]
    return [
        ("settings", [_words_of(side.setting, recommendation) for side, _ in sides]),
        ("time to return", [format_seconds(side.return_s.median) for side, _ in sides]),
        ("  its runs", [_runs(side.return_s) for side, _ in sides]),
        ("time to durable", [_seconds(price.durable_s) for _, price in sides]),
        ("writers stalled", [f"{o.stall_share:.0%}" for o in seen]),
        ("writers wait from", [format_size(t.freerun_bytes) for t in thresholds]),
        ("background threshold", [format_size(t.background_bytes) for t in thresholds]),
        ("dirty threshold", [format_size(t.dirty_bytes) for t in thresholds]),
        ("bytes at risk, at most", [format_size(price.at_risk_bytes) for _, price in sides]),
    ]


def _words_of(setting: Setting, recommendation: Recommendation) -> str:
    """A word a line; mount options only where they differ from the present mount."""
    text = setting_text(setting, recommendation.results)
    return "\n".join(printable(word) for word in text.split(" "))


def _runs(times: Repeats) -> str:
    return f"{times.count}: {times.smallest:.1f} to {times.largest:.1f} s"


def _seconds(seconds: float | None) -> str:
    return "not measured" if seconds is None else format_seconds(seconds)


def _noise_line(recommendation: Recommendation) -> str:
    return (
        f"Noise floor: two runs of the present settings typically differ by "
        f"{recommendation.noise_floor:.1%}."
    )


def _price_lines(recommendation: Recommendation) -> list[str]:
    """What the recommended setting costs beside the present one."""
    price, present = recommendation.price, recommendation.present_price
    if price is None:
        return []
    lines = [
        f"A power loss during this pull takes up to {format_size(price.at_risk_bytes)} of written "
        f"data, {format_size(present.at_risk_bytes)} before; with a larger pull up to "
        f"{format_size(price.ceiling_bytes)}, {format_size(present.ceiling_bytes)} before."
    ]
    if price.durable_s is None or present.durable_s is None:
        return lines
    ratio = price.durable_s / present.durable_s
    is_same = abs(ratio - 1) <= _SAME_DURABLE
    change = "did not change" if is_same else f"changed to {ratio:.2f} of it"
    why = ": the device is as fast as before, the writers just do not wait for it" * is_same
    durable = (
        f"The time until all is on the device {change} "
        f"({format_seconds(present.durable_s)} and {format_seconds(price.durable_s)}){why}."
    )
    return [durable, *lines]


def _print_reason(reason: Reason, console: Console) -> None:
    sign = " " if reason.name == MOUNT_OPTIONS else " = "
    before = f" (before: {reason.before})" if reason.before else ""
    head = f"{reason.action:9} {reason.name}{sign}{reason.value}{before}"
    style = {SET: "green", LEAVE_OUT: "dim"}.get(reason.action, "")
    _print_lines([head], console, style)
    _print_lines(
        [f"{_INDENT}{text}" for text in (reason.mechanism, reason.effect) if text], console
    )
    if reason.risk:
        _print_lines([f"{_INDENT}risk: {reason.risk}"], console, "yellow")
    if reason.undo:
        _print_lines([f"{_INDENT}undo: {reason.undo}"], console)


def _form_lines(forms: tuple[Form, Form] | None) -> list[str]:
    """Both forms, and which of them suits."""
    if forms is None:
        return []
    lines = ["", "The same thresholds in both forms:"]
    for form in forms:
        values = " ".join(f"{name}={value}" for name, value in form.values.items())
        mark = "measured; " if form.is_measured else ""
        lines.append(f"  as {form.kind:6} {values or 'not to be had'}  ({mark}{form.note})")
    if not all(form.values for form in forms):
        return lines
    return [
        *lines,
        "Bytes suit a fleet of nodes with different memory that pull the same; ratios where a "
        "larger node also pulls more.",
    ]


def advice_document(
    recommendation: Recommendation, group_lines: Sequence[str] = ()
) -> dict[str, object]:
    """The same as plain data: seconds, bytes and shares in their names."""
    best, price = recommendation.best, recommendation.price
    interval, trade_off = recommendation.interval, recommendation.trade_off
    return {
        "change_recommended": best is not None,
        "case": recommendation.case.value,
        "verdict": recommendation.verdict,
        "speedup": recommendation.speedup,
        "time_ratio": _interval_document(interval) if interval else None,
        "noise_floor": recommendation.noise_floor,
        "present": _side_document(recommendation.present, recommendation.present_price),
        "recommended": _side_document(best, price) if best and price else None,
        "notes": list(recommendation.notes),
        "excluded": [
            {**item.setting.to_json(), "why": item.why, "time_ratio": item.ratio}
            for item in recommendation.excluded
        ],
        "trade_off": [_point_document(point) for point in trade_off.points],
        "not_predicted": list(trade_off.missing),
        "forms": [vars(form) for form in recommendation.forms or ()],
        "reasons": [{**vars(reason), "why": reason.why} for reason in recommendation.reasons],
        "memory_group": list(group_lines),
        "left_out": [vars(item) for item in recommendation.results.left_out],
    }


def _interval_document(interval: Interval) -> dict[str, object]:
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "pairs": interval.count,
    }


def _side_document(side: Side, price: Price) -> dict[str, object]:
    seen, thresholds = side.observation, side.thresholds
    return {
        **side.setting.to_json(),
        "return_seconds": vars(side.return_s),
        "durable_seconds": price.durable_s,
        "stalled_share": seen.stall_share,
        "background_threshold_bytes": thresholds.background_bytes,
        "dirty_threshold_bytes": thresholds.dirty_bytes,
        "freerun_bytes": thresholds.freerun_bytes,
        "peak_dirty_bytes": price.at_risk_bytes,
    }


def _point_document(point: Point) -> dict[str, object]:
    return {
        **point.setting.to_json(),
        "names": list(point.names),
        "return_seconds": point.return_s,
        "at_risk_bytes": point.at_risk_bytes,
        "durable_seconds": point.durable_s,
        "runs": point.runs,
        "is_measured": point.is_measured,
        "extrapolates": point.note,
    }
