"""A transfer tuning on the terminal: each trial as it ends, the best over time, the verdict."""

from __future__ import annotations

import bisect

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.shared.text import printable
from contracts.shared.units import counted, format_rate, format_seconds, format_size
from profiler.tune import results
from profiler.tune.recheck import Recheck
from profiler.tune.space import SIZES, Point, Value
from profiler.tune.trial import Trial
from profiler.tune.tuner import Tuner, Tuning

INTERRUPTED = "Interrupted before the recheck was done"
_NOISY = "pulls alike differ too much to tell; tune again when host and network are quieter."
_WIDTH_MAX, _HEIGHT = 100, 14
_ASCII = str.maketrans("┌┐└┘┤├┬┴─│·", "++++++++-|.")


def plan_text(tuner: Tuner) -> str:
    """How long all of it takes at most, before it begins."""
    search_s, recheck_s = tuner.budget.seconds, tuner.recheck_limit_s
    if not tuner.pairs:
        return f"search for at most {format_seconds(search_s)}, without a recheck"
    return (
        f"search for at most {format_seconds(search_s)}, then a recheck in up to "
        f"{counted(tuner.pairs, 'pair')} of pulls for at most {format_seconds(recheck_s)} (two "
        f"pairs, if these take longer): {format_seconds(search_s + recheck_s)} in all"
    )


def print_trial(trial: Trial, console: Console) -> None:
    """One trial in a line, as it ends."""
    took = trial.state.value if trial.mean_s is None else format_seconds(trial.mean_s)
    problem = f"  ({trial.problem})" if trial.problem else ""
    text = f"{trial.ended_s:6.1f} s  trial {trial.number}: {took}  {point_text(trial.point)}"
    console.print(Text(printable(text + problem)), soft_wrap=True)


def point_text(point: Point) -> str:
    """A point in short, sizes rounded; exact values are in the files."""
    shown = (f"{name}={_value_text(name, value)}" for name, value in point.items())
    return " ".join(shown)


def _value_text(name: str, value: Value) -> str:
    if isinstance(value, int) and name in SIZES:
        return format_size(value).replace(" ", "")
    return str(value).lower()


def print_tuning(tuning: Tuning, console: Console) -> None:
    """The table, the plot and what follows."""
    console.print(trials_table(tuning))
    text = plot(tuning, min(console.width, _WIDTH_MAX))
    console.print(Text(text.translate(_ASCII) if console.options.ascii_only else text), end="\n\n")
    for line in conclusion(tuning):
        console.print(Text(printable(line)), soft_wrap=True)


def trials_table(tuning: Tuning) -> Table:
    """Trials from the fastest on, those without a mean last; the defaults in bold."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("trial", "mean", "rate", "CPU"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for trial in sorted(tuning.trials, key=lambda trial: trial.mean_s or float("inf")):
        table.add_row(*_cells(trial), style="bold" if trial is tuning.default else "")
    return table


def _cells(trial: Trial) -> tuple[str, ...]:
    mean, rate = trial.state.value, ""
    if trial.mean_s is not None:
        mean = format_seconds(trial.mean_s)
        rate = format_rate(trial.rate_bytes_per_s or 0.0)
    cpu_s = sum(pull.cpu_s for pull in trial.pulls)
    cpu = format_seconds(cpu_s / len(trial.pulls)) if trial.pulls else ""
    return (str(trial.number), mean, rate, cpu, point_text(trial.point))


def plot(tuning: Tuning, width: int) -> str:
    """The best mean over the search's time, `width` columns wide."""
    import plotext

    times, best = results.course(tuning)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, _HEIGHT)
    figure.draw(figure.signal(*_steps(times, best, width), marker="·"))
    top = max(best) * 1.1
    figure.ruler("y").lim(0, top)
    figure.ruler("y").ticks([0, top / 2, top], ["0", *map(format_seconds, (top / 2, top))])
    figure.label("search time (s)", "x")
    figure.label("best mean", "y")
    text = plotext.uncolorize(figure.build().string())
    figure.clear()
    return "\n".join(line.rstrip() for line in str(text).splitlines())


def _steps(times: list[float], best: list[float], width: int) -> tuple[list[float], list[float]]:
    """A point for each column: the best value holds until a trial ends that is better."""
    first, last = times[0], times[-1]
    columns = [first + (last - first) * step / max(1, width - 1) for step in range(width)]
    return columns, [best[max(0, bisect.bisect_right(times, at) - 1)] for at in columns]


def conclusion(tuning: Tuning) -> list[str]:
    """What was found, in sentences."""
    made = counted(len(tuning.trials), "trial")
    lines = [f"The search ended after {made}: {tuning.ended}."]
    if tuning.recheck is not None:
        lines.append(_rechecked(tuning.recheck, is_whole=tuning.has_verdict))
    if tuning.ended_by is not None:
        return [*lines, f"{INTERRUPTED}: nothing is recommended."]
    if tuning.problem:
        return [*lines, f"Nothing is recommended: {tuning.problem}"]
    if tuning.recommended is None and tuning.recheck and tuning.recheck.is_noisy:
        return [*lines, f"No change: {_NOISY}"]
    if tuning.recommended is None:
        return [*lines, f"No change: what holds the defaults back is {tuning.limit}."]
    words = f"--client {tuning.recommended_client} --transfer {tuning.recommended}"
    return [*lines, f"Recommended: {words}"]


def _rechecked(checked: Recheck, *, is_whole: bool) -> str:
    interval, pairs = checked.interval, counted(len(checked.best), "pair")
    if len(checked.best) < checked.wanted:
        pairs += f" of the {checked.wanted} wanted"
        pairs += ", for more there was no time" if is_whole else ""
    high = "unknown" if interval.high == float("inf") else f"{interval.high:.2f}"
    return (
        f"Rechecked in {pairs}: the best takes {interval.estimate:.2f} of the time that boto3's "
        f"defaults take (95 %: {interval.low:.2f} to {high}), {_change(interval.estimate)}; two "
        f"pulls with the defaults differ by {checked.noise_floor:.0%}."
    )


def _change(ratio: float) -> str:
    return f"{1 - ratio:.0%} less" if ratio <= 1 else f"{ratio - 1:.0%} more"
