# SPDX-License-Identifier: Apache-2.0
"""The trials of a search in the order in which they ran, and the best time so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from contracts.shared.units import counted, format_seconds
from profiler.html.charts import scale
from profiler.html.charts.axis import height_axis
from profiler.html.charts.chart import LINE, WIDTH, Chart, DataTable, KeyEntry, chart_of
from profiler.html.charts.columns import reduced
from profiler.html.charts.marks import mark
from profiler.html.charts.svg import box, element, line, path, text

_LEFT, _RIGHT, _TOP, _HEIGHT = 78.0, 24.0, 30.0, 230.0
_MOST = 600
_FORMS = {"present": "square", "candidate": "circle", "recheck": "diamond", "price": "triangle"}
_MEANINGS = {
    "present": "current settings",
    "candidate": "tried in the search",
    "recheck": "again, next to the current ones",
    "price": "with a neighbour, for the cost",
}


@dataclass(frozen=True)
class TrialMark:
    """A trial. `return_s` is None if it has no valid time; `stopped_s` if it took longer."""

    number: int
    role: str
    setting: str
    block: int | None
    return_s: float | None
    stopped_s: float | None
    is_best: bool = False


def trials_chart(trials: Sequence[TrialMark], table: DataTable) -> Chart | None:
    """Return the chart; None without a time."""
    times = [time for each in trials for time in (each.return_s, each.stopped_s) if time]
    if not times:
        return None
    bottom = _TOP + _HEIGHT
    ticks = scale.seconds_ticks(max(times), 5)
    x = scale.Scale(0.5, len(trials) + 0.5, _LEFT, WIDTH - _RIGHT)
    y = scale.Scale(0.0, ticks.top, bottom, _TOP)
    parts: list[Markup] = [text("Time to return", 0, LINE - 3, "panel-title")]
    parts += _blocks(trials, x, bottom)
    parts += height_axis(ticks, y.at, _LEFT, WIDTH - _RIGHT)
    parts += _numbers(len(trials), x, bottom)
    height = bottom + 2 * LINE + 8
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(text("Trial", middle, height - 5, "panel-title", anchor="middle"))
    parts.append(path(_best_so_far(trials, x, y), "frontier"))
    for trial in _drawn(trials):
        parts.append(_mark(trial, x, y))
    title, summary = "Trials over time", _summary(trials)
    return chart_of("trials", title, summary, height, parts, table, _key(trials))


def _drawn(trials: Sequence[TrialMark]) -> Sequence[TrialMark]:
    """Return the trials to draw: all, or the first and last, best and worst of each part."""
    if len(trials) <= _MOST:
        return trials
    numbers = [float(at) for at in range(len(trials))]
    values = [each.return_s or each.stopped_s or 0.0 for each in trials]
    return [trials[int(at)] for at, _ in reduced(numbers, values, _MOST // 4)]


def _blocks(trials: Sequence[TrialMark], x: scale.Scale, bottom: float) -> Iterator[Markup]:
    """Yield a band behind every second block, whose runs are compared with each other."""
    blocks: dict[int, list[int]] = {}
    for trial in trials:
        if trial.block is not None:
            blocks.setdefault(trial.block, []).append(trial.number)
    for at, numbers in enumerate(blocks.values()):
        if at % 2 == 0:
            begin, end = x.at(min(numbers) - 0.5), x.at(max(numbers) + 0.5)
            yield box(begin, _TOP, end - begin, bottom - _TOP, "band")


def _numbers(count: int, x: scale.Scale, bottom: float) -> Iterator[Markup]:
    step = max(1, round(scale.round_step(count, 12)))
    shown = [1, *(value for value in range(step, count + 1, step) if value > 1)]
    for value in shown:
        at = x.at(value)
        yield line(at, bottom, at, bottom + 5, "axis")
        yield text(f"{value:,}", at, bottom + LINE + 3, "tick", anchor="middle")


def _mark(trial: TrialMark, x: scale.Scale, y: scale.Scale) -> Markup:
    at = x.at(trial.number)
    if trial.return_s is not None:
        how = format_seconds(trial.return_s)
        form, height = _FORMS[trial.role], y.at(trial.return_s)
        class_ = "mark-best" if trial.is_best else ("mark-now" if form == "square" else "")
    elif trial.stopped_s is not None:
        how = f"stopped after {format_seconds(trial.stopped_s)}"
        form, height, class_ = "arrow", y.at(trial.stopped_s), ""
    else:
        how, form, height, class_ = "not valid", "cross", y.at(0.0) - 12, ""
    named = element("title", f"Trial {trial.number}, {trial.setting}: {how}")
    return mark(form, at, height, f"mark {class_}".strip(), named)


def _best_so_far(
    trials: Sequence[TrialMark], x: scale.Scale, y: scale.Scale
) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    best: float | None = None
    for trial in trials:
        if trial.return_s is not None and trial.role != "price":
            if best is not None and trial.return_s < best:
                points.append((x.at(trial.number), y.at(best)))
            best = trial.return_s if best is None else min(best, trial.return_s)
            points.append((x.at(trial.number), y.at(best)))
    return points


def _summary(trials: Sequence[TrialMark]) -> str:
    valid = [each for each in trials if each.return_s is not None]
    stopped = sum(1 for each in trials if each.stopped_s is not None)
    broken = len(trials) - len(valid) - stopped
    parts = [f"{counted(len(trials), 'trial')}, {len(valid):,} of them with a valid time"]
    if stopped:
        parts.append(f"{stopped:,} stopped because they could no longer win")
    if broken:
        parts.append(f"{broken:,} not valid")
    return f"{', '.join(parts)}. The dashed line is the best time so far."


def _key(trials: Sequence[TrialMark]) -> Iterator[KeyEntry]:
    roles = {each.role for each in trials if each.return_s is not None}
    for role, form in _FORMS.items():
        if role in roles:
            class_ = "mark mark-now" if form == "square" else "mark"
            yield KeyEntry(class_, form, _MEANINGS[role])
    if any(each.is_best for each in trials):
        yield KeyEntry("mark mark-best", "diamond", "filled: the recommended settings")
    if any(each.stopped_s is not None for each in trials):
        yield KeyEntry("mark", "arrow", "took longer")
    if any(each.return_s is None and each.stopped_s is None for each in trials):
        yield KeyEntry("mark", "cross", "not valid")
    if any(each.block is not None for each in trials):
        yield KeyEntry("band", "area", "a block of runs that are compared")
