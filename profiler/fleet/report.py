# SPDX-License-Identifier: Apache-2.0
"""What the records of a fleet show: whose writers wait and why, what to study, outliers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.stats import NonzeroBuckets, stats_of_buckets
from profiler.fleet.record import HISTOGRAMS
from profiler.fleet.rows import PRESENT, SETTINGS
from profiler.fleet.tables import FleetTables
from profiler.watch.causes import SLOW_SHARE
from sysctl.evidence.comparison import is_gain

#: The predicted setting is the one with the least dirty memory that takes at most this much longer
#: than the fastest.
_NEAR_BEST = 0.02
#: A study compares nodes; for fewer the answer does not hold for another node.
FEW_NODES = 5
#: An outlier: in classes of at least so many nodes, so many units (1.4826 MAD) and this factor away
#: from the median node.
OUTLIER_NODES, OUTLIER_UNITS, OUTLIER_FACTOR = 8, 5.0, 1.25
_NS_PER_S = 1e9


@dataclass(frozen=True)
class MergedTimes:
    """The merged values of a histogram, in s."""

    count: int
    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True)
class PredictedSaving:
    """What a setting would save all recorded pulls of a class, and its largest data at risk.

    `present_s` is the predicted time of these pulls under the settings in force, `saved_s` the part
    of it that is saved.
    """

    setting: str
    pulls: int
    present_s: float
    saved_s: float
    peak_bytes: int
    present_peak_bytes: int

    @property
    def share(self) -> float:
        """The saved share of the time, 0 to 1."""
        return self.saved_s / self.present_s if self.present_s else 0.0


@dataclass(frozen=True)
class WatchedTime:
    """What `watch` saw on so many nodes: the whole time, that with bursts, and with stalls (s)."""

    nodes: int
    watched_s: float
    burst_s: float
    stalled_s: float


@dataclass(frozen=True)
class ClassSummary:
    """One class. `waiting` is how many nodes' writers wait, by main cause.

    `watched` is None if no node of the class has a record of a day.
    `saving` is None if the model predicts no gain; `predicted_pulls` is of how many pulls it could
    predict anything.
    """

    class_key: str
    nodes: int
    pulls: int
    failed_pulls: int
    bytes: float
    waiting: Mapping[str, int]
    peak_at_risk_bytes: int | None
    oom_kills: int
    nodes_not_in_force: int
    distributions: Mapping[str, MergedTimes]
    predicted_pulls: int
    saving: PredictedSaving | None
    watched: WatchedTime | None = None

    @property
    def waiting_nodes(self) -> int:
        """How many nodes' writers wait, whatever for."""
        return sum(self.waiting.values())


@dataclass(frozen=True)
class Outlier:
    """A node, its time per byte as a multiple of the median node's, and the distance in MADs.

    `units` is None if all other nodes are equal.
    """

    class_key: str
    node: str
    times_the_median: float
    units: float | None


@dataclass(frozen=True)
class FleetReport:
    """The classes, the first to study first, and the outliers, the furthest first."""

    classes: tuple[ClassSummary, ...]
    outliers: tuple[Outlier, ...]

    @property
    def to_study(self) -> tuple[ClassSummary, ...]:
        """The classes of which the model predicts a gain, the largest saving first."""
        return tuple(each for each in self.classes if each.saving)


def report_on(folder: Path) -> FleetReport:
    """Return the report on the tables of a folder. Raises WritewiseError."""
    with FleetTables(folder) as tables:
        rows = tables.query("classes", [SLOW_SHARE])
        merged = _merged(tables.query("histograms"))
        predicted = _by_class(tables.query("predictions"))
        outliers = tables.query("outliers", [OUTLIER_NODES, OUTLIER_UNITS, OUTLIER_FACTOR])
    classes = [_class_summary(row, merged, predicted.get(row["class_key"], ())) for row in rows]
    classes.sort(key=_first_to_study)
    return FleetReport(tuple(classes), tuple(Outlier(**row) for row in outliers))


def _first_to_study(one: ClassSummary) -> tuple[float, int, str]:
    return -(one.saving.saved_s if one.saving else 0.0), -one.waiting_nodes, one.class_key


def _merged(rows: Iterable[Mapping[str, Any]]) -> Mapping[tuple[str, str], NonzeroBuckets]:
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        found[row["class_key"], row["name"]].append((row["bucket"], int(row["calls"])))
    return found


def _by_class(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["class_key"]].append(row)
    return found


def _class_summary(
    row: Mapping[str, Any],
    merged: Mapping[tuple[str, str], NonzeroBuckets],
    predicted: Iterable[Mapping[str, Any]],
) -> ClassSummary:
    key = row["class_key"]
    by_setting = {each["setting"]: each for each in predicted}
    known = {
        name: _distribution(buckets) for name in HISTOGRAMS if (buckets := merged.get((key, name)))
    }
    return ClassSummary(
        class_key=key,
        nodes=int(row["nodes"]),
        pulls=int(row["pulls"]),
        failed_pulls=int(row["failed_pulls"]),
        bytes=row["bytes"],
        waiting={
            cause: int(row[column])
            for cause, column in (
                ("dirty throttling", "throttled_nodes"),
                ("waiting for the device", "device_nodes"),
                ("other waits", "other_nodes"),
            )
        },
        peak_at_risk_bytes=row["peak_at_risk_bytes"],
        oom_kills=int(row["oom_kills"]),
        nodes_not_in_force=int(row["nodes_not_in_force"]),
        distributions=known,
        predicted_pulls=by_setting[PRESENT]["pulls"] if by_setting else 0,
        saving=saving_of(by_setting),
        watched=_watched(row),
    )


def _watched(row: Mapping[str, Any]) -> WatchedTime | None:
    if not row["watched_nodes"]:
        return None
    times = (row["watched_s"], row["burst_s"], row["stalled_s"])
    return WatchedTime(int(row["watched_nodes"]), *times)


def _distribution(buckets: NonzeroBuckets) -> MergedTimes:
    stats = stats_of_buckets(buckets)
    p50, p95, p99 = (stats.percentile_ns(percent) / _NS_PER_S for percent in (50, 95, 99))
    return MergedTimes(stats.count, p50, p95, p99)


def saving_of(by_setting: Mapping[str, Mapping[str, Any]]) -> PredictedSaving | None:
    """Return what the cheapest of the fastest settings saves; None for no gain.

    The cheapest has the least dirty memory. The settings are those of a class, with the sum of all
    its pulls' times.
    """
    if not by_setting:
        return None
    present = by_setting[PRESENT]
    others = [by_setting[name] for name in SETTINGS if name != PRESENT]
    fastest_s = min(each["return_s"] for each in others)
    best = next(each for each in others if each["return_s"] <= fastest_s * (1 + _NEAR_BEST))
    if not present["return_s"] or not is_gain(best["return_s"] / present["return_s"]):
        return None
    return PredictedSaving(
        setting=best["setting"],
        pulls=present["pulls"],
        present_s=present["return_s"],
        saved_s=present["return_s"] - best["return_s"],
        peak_bytes=best["peak_bytes"],
        present_peak_bytes=present["peak_bytes"],
    )
