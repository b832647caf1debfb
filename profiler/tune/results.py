"""The trials as a table: rows, CSV, a pandas DataFrame, Parquet, and the best value over time."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from contracts.shared.errors import RequirementError
from contracts.shared.installation import how_to_add
from profiler.pull.settings import TransferSettings
from profiler.tune.space import CLIENT, settings_at
from profiler.tune.trial import Trial
from profiler.tune.tuner import Tuning
from sysctl.render.snippet import TITLE

if TYPE_CHECKING:
    import pandas

_ABOUT = f"{TITLE}the trials of `writewise transfer tune`."
#: With these the rows begin, by which the CSV file is known as ours.
FIRST_COLUMNS = ("trial", "ended_s", "state")
#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def rows(tuning: Tuning) -> list[dict[str, Any]]:
    """A dictionary for each trial, in their order; all have the same keys.

    They name all settings, those too that were not searched. `best_s` is the best mean up to that
    trial, `cpu_s` the workers' CPU time of all its pulls.
    """
    return [
        _row(trial, tuning.base, best_s)
        for trial, best_s in zip(tuning.trials, _best_so_far(tuning.trials))
    ]


def _best_so_far(trials: Sequence[Trial]) -> list[float]:
    best_s, course = float("inf"), []
    for trial in trials:
        best_s = min(best_s, trial.mean_s or float("inf"))
        course.append(best_s)
    return course


def _row(trial: Trial, base: TransferSettings, best_s: float) -> dict[str, Any]:
    count = len(trial.pulls)
    first = (trial.number, trial.ended_s, trial.state.value)
    return {
        **dict(zip(FIRST_COLUMNS, first)),
        **asdict(settings_at(trial.point, base)),
        **({CLIENT: trial.point[CLIENT]} if CLIENT in trial.point else {}),
        "mean_s": trial.mean_s,
        "best_s": best_s,
        "rate_bytes_per_s": trial.rate_bytes_per_s,
        "cpu_s": sum(pull.cpu_s for pull in trial.pulls),
        "busy_share": sum(pull.busy_share for pull in trial.pulls) / count if count else None,
        "pulls_s": " ".join(f"{pull.seconds:.3f}" for pull in trial.pulls),
        "problem": trial.problem,
    }


def csv_text(tuning: Tuning) -> str:
    """The rows as CSV with a header, lines ended by a line feed.

    A problem may begin with a key of the bucket: none is taken for a formula.
    """
    table = [{**row, "problem": _no_formula(row["problem"])} for row in rows(tuning)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def data_frame(tuning: Tuning) -> pandas.DataFrame:
    """The rows as a pandas DataFrame. Raises RequirementError where pandas is not installed."""
    _require("pandas")
    import pandas

    return pandas.DataFrame(rows(tuning))


def parquet_bytes(tuning: Tuning) -> bytes:
    """The rows as a Parquet file. Raises RequirementError where PyArrow is not installed."""
    _require("pyarrow")
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_pylist(rows(tuning))
    parquet.write_table(table.replace_schema_metadata({"about": _ABOUT}), sink)
    return bytes(sink.getvalue())


def course(tuning: Tuning) -> tuple[list[float], list[float]]:
    """The best mean over time: seconds since the search began, and the best mean then."""
    table = rows(tuning)
    return [row["ended_s"] for row in table], [row["best_s"] for row in table]


def image_bytes(tuning: Tuning) -> bytes:
    """The best mean over time as SVG. Raises RequirementError where Matplotlib is not installed."""
    _require("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    times, best = course(tuning)
    axes.step(times, best, where="post", label="best so far")
    tried = [(trial.ended_s, trial.mean_s) for trial in tuning.trials if trial.mean_s is not None]
    axes.scatter(
        [at for at, _ in tried],
        [mean for _, mean in tried],
        s=14,
        color="tab:orange",
        label="trial",
    )
    axes.axhline(best[0], linestyle=":", color="gray", label="boto3's defaults")
    axes.set(xlabel="search time (s)", ylabel="mean time of a pull (s)", ylim=(0, None))
    axes.legend(loc="lower right")  # below the best, where no trial is
    image = io.BytesIO()
    figure.savefig(image, format="svg", metadata={"Date": None, "Title": _ABOUT})
    return image.getvalue()


def is_installed(package: str) -> bool:
    """Whether an optional package is there."""
    return importlib.util.find_spec(package) is not None


def _require(package: str) -> None:
    if not is_installed(package):
        raise RequirementError(
            f"this needs {package}, which is not installed",
            f"install it with `{how_to_add('tune')}`; trials.csv needs nothing",
        )
