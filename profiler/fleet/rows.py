# SPDX-License-Identifier: Apache-2.0
"""A record as one row of plain columns, with the model's predictions for a pull.

Three tables are made of the rows: `records`, `histograms` and `predictions` (`TABLES`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from contracts.causes import Cause
from profiler.fleet.record import HISTOGRAMS, DayCounts, FleetRecord
from sysctl.evidence.prediction import Model
from sysctl.volume.write_back import CANDIDATES

#: The settings in force, among the predictions.
PRESENT = "present"
#: The settings whose effect is predicted, the one with the least dirty memory first.
SETTINGS: Mapping[str, Mapping[str, int]] = {
    PRESENT: {},
    **{str(candidate): candidate.values for candidate in CANDIDATES},
}
_CAUSES = [cause.name.lower() for cause in Cause]
_CLASS = {
    "instance_type": "VARCHAR",
    "volume_type": "VARCHAR",
    "volume_iops": "BIGINT",
    "volume_mib_per_s": "DOUBLE",
    "file_system": "VARCHAR",
    "kernel": "VARCHAR",
    "cgroup_version": "BIGINT",
    "memory_limit_band": "VARCHAR",
    "client": "VARCHAR",
}
#: What a record is of: the values of the column `source`.
PULL, DAY = "pull", "day"
#: Columns of the record of a day; null for a pull. Those of a pull are 0 or null for a day.
_OF_DAY = tuple(field.name for field in fields(DayCounts))
#: The columns of `records`, with their types in DuckDB.
COLUMNS: Mapping[str, str] = {
    "dt": "VARCHAR",
    "class_key": "VARCHAR",
    "node": "VARCHAR",
    "start": "VARCHAR",
    "seconds": "DOUBLE",
    "writewise": "VARCHAR",
    "source": "VARCHAR",
    **_CLASS,
    "mount_words": "VARCHAR",
    "rollout": "VARCHAR",
    "stage": "BIGINT",
    "arm": "VARCHAR",
    "pulls": "BIGINT",
    "failed_pulls": "BIGINT",
    "bytes": "BIGINT",
    "return_ns": "BIGINT",
    "durable_ns": "BIGINT",
    **{f"{name}_ns": "BIGINT" for name in _CAUSES},
    "writer_ns": "BIGINT",
    "peak_at_risk_bytes": "BIGINT",
    "oom_kills": "BIGINT",
    "memory_psi_full_us": "BIGINT",
    "verify": "VARCHAR",
    "dirtyable_bytes": "BIGINT",
    "source_bytes_per_s": "DOUBLE",
    "device_bytes_per_s": "DOUBLE",
    **dict.fromkeys(_OF_DAY, "BIGINT"),
}
#: What a row has in addition, for the other tables.
LISTS: Mapping[str, str] = {
    **{f"{name}_{part}": "BIGINT[]" for name in HISTOGRAMS for part in ("index", "calls")},
    "predicted_return_s": "DOUBLE[]",
    "predicted_peak_bytes": "BIGINT[]",
}


def row_of(record: FleetRecord, class_key: str) -> dict[str, Any]:
    """Return the columns of a record; `class_key` is its class as text."""
    pulls, rates, rollout, key = record.pulls, record.rates, record.rollout, record.node_class
    row = {
        "dt": record.start[:10],
        "class_key": class_key,
        "node": record.node,
        "start": record.start,
        "seconds": record.seconds,
        "writewise": record.writewise,
        "source": PULL if record.is_of_pull else DAY,
        **{name: getattr(key, name) for name in _CLASS},
        "mount_words": ",".join(key.mount_words),
        "rollout": rollout.id if rollout else None,
        "stage": rollout.stage if rollout else None,
        "arm": rollout.arm if rollout else None,
        "pulls": pulls.count,
        "failed_pulls": pulls.failed,
        "bytes": pulls.bytes,
        "return_ns": pulls.return_ns,
        "durable_ns": pulls.durable_ns,
        **{f"{name}_ns": record.stalls.get(cause, 0) for name, cause in zip(_CAUSES, Cause)},
        "writer_ns": record.writer_ns,
        "peak_at_risk_bytes": record.peak_at_risk_bytes,
        "oom_kills": record.oom_kills,
        "memory_psi_full_us": record.memory_psi_full_us,
        "verify": record.verify,
        "dirtyable_bytes": rates.dirtyable_bytes if rates else None,
        "source_bytes_per_s": rates.source_bytes_per_s if rates else None,
        "device_bytes_per_s": rates.device_bytes_per_s if rates else None,
        **(vars(record.day) if record.day else dict.fromkeys(_OF_DAY)),
    }
    for name in HISTOGRAMS:
        pairs = record.histograms.get(name, ())
        row[f"{name}_index"] = [index for index, _ in pairs]
        row[f"{name}_calls"] = [calls for _, calls in pairs]
    return {**row, **_predicted(record)}


def _predicted(record: FleetRecord) -> dict[str, list[Any]]:
    """Return the pull's predicted time and data at risk for each setting of `SETTINGS`.

    A record that does not show enough, or for which the model has no answer, has no predictions.
    """
    nothing: dict[str, list[Any]] = {"predicted_return_s": [], "predicted_peak_bytes": []}
    if record.rates is None:
        return nothing
    model = Model(present=record.settings, **vars(record.rates))
    try:
        found = [model.predict(values) for values in SETTINGS.values()]
    except (ArithmeticError, ValueError):  # values of no real host
        return nothing
    return {
        "predicted_return_s": [each.return_s for each in found],
        "predicted_peak_bytes": [each.peak_dirty_bytes for each in found],
    }
