# SPDX-License-Identifier: Apache-2.0
"""The result of a sweep on one screen: what to change, why, the gain and the cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import format_seconds, format_size
from profiler.report import volume_words
from profiler.report.conclusions import (
    gain_text,
    headline_text,
    note_texts,
    stall_text,
    why_none_text,
)
from profiler.report.console import print_lines
from profiler.report.price import because_texts, durable_text, limits_text
from profiler.report.reasons import ReasonText, reason_texts
from sysctl.advice.advise import Recommendation
from sysctl.advice.conclusions import BeyondMemory, Change, Sampled
from sysctl.advice.reasons import LEAVE_OUT, MOUNT_OPTIONS, SET
from sysctl.evidence.comparison import NEGLIGIBLE_SHARE, Side
from sysctl.evidence.price import Limits, Price
from sysctl.evidence.results import by_reason

#: The column where the text of a part begins.
_COLUMN = 10
_SHOWN_SETTINGS = 8
_SHOWN_NOTES = 3
_TOO_SMALL = "the sample is too small to show what write-back costs the whole pull"
_LOST = (
    "It is lost if the instance is terminated, the kernel panics or the host fails, and a "
    "snapshot of the volume taken before then lacks it."
)


def print_summary(
    recommendation: Recommendation, console: Console, group_lines: Sequence[str] = ()
) -> None:
    """Print the recommendation, why, the settings, the gain and the cost in at most 30 lines.

    `group_lines` say what a control group's memory limit does (`profiler.report.groups`).
    """
    print_lines([sentence_text(recommendation)], console, "bold")
    print_lines([f"Why: {reason_text(recommendation)}"], console, hanging=len("Why: "))
    for title, lines in _parts(recommendation, group_lines):
        console.print()
        for number, line in enumerate(lines):
            lead = title.ljust(_COLUMN) if number == 0 else " " * _COLUMN
            print_lines([lead + line], console, hanging=_COLUMN)
    console.print()
    console.print(_figures(recommendation))


def sentence_text(recommendation: Recommendation) -> str:
    """Return what to do, in one sentence."""
    conclusion = recommendation.conclusion
    other_volume = volume_words.headline_text(recommendation)
    if other_volume:
        return other_volume
    if not isinstance(conclusion, Change):
        is_hidden = any(isinstance(n, Sampled) and n.hides_waits for n in recommendation.notes)
        headline = _TOO_SMALL if is_hidden else headline_text(conclusion)
        return f"No change recommended: {headline}."
    new, now = format_seconds(conclusion.best_s), format_seconds(conclusion.present_s)
    return f"Recommended: {_what(recommendation)}; the pull then returns in {new} instead of {now}."


def _what(recommendation: Recommendation) -> str:
    chosen = [each for each in reason_texts(recommendation) if each.action == SET]
    if len(chosen) != 1:
        return f"change {len(chosen)} settings"
    (only,) = chosen
    if only.name == MOUNT_OPTIONS:
        return f"mount the volume with {only.value}"
    return f"set {only.name} to {only.value}"


def reason_text(recommendation: Recommendation) -> str:
    """Return why, in one or a few sentences."""
    best, present = recommendation.best, recommendation.present
    if best is None:
        text = why_none_text(recommendation)
        return text[:1].upper() + text[1:]
    changed = recommendation.analysis.runs.baseline.changed_thresholds(best.setting)
    if not changed or present.observation.throttled_share < NEGLIGIBLE_SHARE:
        effects = (each.effect for each in reason_texts(recommendation) if each.action == SET)
        return f"{next(filter(None, effects), 'it was faster in pairs of runs')}."
    freerun = format_size(present.thresholds.freerun_bytes)
    raised = format_size(best.thresholds.freerun_bytes)
    return (
        f"writers waited {stall_text(present.observation)} of their time, because the kernel "
        f"throttles them above {freerun} of unwritten data. The change raises it to {raised}; "
        f"they wait {stall_text(best.observation)}."
    )


def _parts(
    recommendation: Recommendation, group_lines: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    settings = _settings(recommendation)
    if settings:
        yield "Settings", settings
    if isinstance(recommendation.conclusion, Change):
        yield "Gain", [f"{gain_text(recommendation.conclusion)}."]
    yield "Cost", list(_cost(recommendation))
    volume = volume_words.summary_texts(recommendation)
    if volume:
        yield "Volume", volume
    notes = [*_notes(recommendation), *group_lines[:2]]
    if notes:
        yield "Note", notes[:_SHOWN_NOTES]


def _settings(recommendation: Recommendation) -> list[str]:
    """Return `vm.dirty_ratio = 90 (now 20)`, changed settings first."""
    shown = [each for each in reason_texts(recommendation) if each.action != LEAVE_OUT]
    shown.sort(key=lambda each: each.action != SET)
    lines = [_setting(each) for each in shown[:_SHOWN_SETTINGS]]
    more = len(shown) - _SHOWN_SETTINGS
    return [*lines, *([f"and {more} more"] if more > 0 else [])]


def _setting(reason: ReasonText) -> str:
    sign = " " if reason.name == MOUNT_OPTIONS else " = "
    now = f"now {reason.before}" if reason.action == SET else "unchanged"
    return f"{reason.name}{sign}{reason.value} ({now})"


def _cost(recommendation: Recommendation) -> Iterator[str]:
    """Return the label with its reason, and which events lose the bytes at risk."""
    best, price = recommendation.best, recommendation.price
    shown = price or recommendation.present_price
    whose = "" if price else "The current settings have "
    if shown.rating is not None:
        because = "; ".join(because_texts(shown.rating))
        yield f"{whose}{shown.rating.label.value} risk{f': {because}' if because else ''}."
    if best is None or price is None:
        return
    after_s = price.after_return_s
    until = "" if after_s is None else f" until {format_seconds(after_s)} after the return"
    yield f"Up to {format_size(price.at_risk_bytes)} is not on the device{until}. {_LOST}"


def _notes(recommendation: Recommendation) -> Iterator[str]:
    """Return the important notes: limits, what a sample cannot show, and what was not tried."""
    pairs = zip(recommendation.notes, note_texts(recommendation))
    for note, text in pairs:
        if isinstance(note, (BeyondMemory, Sampled)):
            yield text
    limits = recommendation.analysis.limits
    if limits != Limits():
        yield f"Your limits: {limits_text(limits)}."
    left_out = by_reason(recommendation.left_out)
    if len(left_out) == 1:
        yield f"Not tried: {left_out[0].what} ({left_out[0].why})."
    elif left_out:
        yield f"Not tried: {left_out[0].what}, and others; --details says why."


_Cell = Callable[[Side, Price], str]


def _fsync(price: Price) -> str:
    fsync = price.seen.fsync if price.seen else None
    return format_seconds(fsync.worst_s) if fsync else ""


#: Title of a row → its cell; rows without any cell are left out.
_ROWS: tuple[tuple[str, _Cell], ...] = (
    ("time to return", lambda side, _: format_seconds(side.return_s.median)),
    ("writers waited", lambda side, _: stall_text(side.observation)),
    ("time to durable", lambda _, price: durable_text(price)),
    ("bytes at risk, at most", lambda _, price: format_size(price.at_risk_bytes)),
    ("longest fsync of another program", lambda _, price: _fsync(price)),
)


def _figures(recommendation: Recommendation) -> Table:
    """Return the current settings next to the recommended ones."""
    sides = [(recommendation.present, recommendation.present_price)]
    if recommendation.best is not None and recommendation.price is not None:
        sides.append((recommendation.best, recommendation.price))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    for title in ("current", "recommended")[: len(sides)]:
        table.add_column(title, justify="right", overflow="fold")
    for title, show in _ROWS:
        cells = [show(*side) for side in sides]
        if any(cells):
            table.add_row(title, *(Text(printable(cell or "not observed")) for cell in cells))
    return table
