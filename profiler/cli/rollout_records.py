# SPDX-License-Identifier: Apache-2.0
"""The records of a roll-out's nodes, from a directory or from the tables of `fleet ingest`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from sysctl.rollout.outcomes import NodeReport, VotingProblems

if TYPE_CHECKING:
    from profiler.fleet.record import FleetRecord
    from sysctl.evidence.class_key import ClassKey
    from sysctl.rollout.plan import RolloutPlan

_TABLE = "records.parquet"
_QUERY = "node_reports"


def read_reports(place: Path, plan: RolloutPlan, problems: VotingProblems) -> Iterator[NodeReport]:
    """Yield what the records say; broken ones are added to `problems`. Raises WritewiseError."""
    if not place.is_dir():
        raise UsageError(
            f"{printable(str(place))} is not a directory",
            "name a directory of records, or one that `writewise fleet ingest` wrote",
        )
    since = _since(plan)
    if (place / _TABLE).is_file():
        yield from _of_tables(place, since)
    else:
        yield from _of_files(place, since, problems)


def _since(plan: RolloutPlan) -> str:
    """Return the first day that matters: a node that was silent before it is of another time."""
    created = datetime.fromtimestamp(plan.created_s, timezone.utc)
    return (created - timedelta(seconds=plan.silent_after_s)).date().isoformat()


def _of_tables(folder: Path, since: str) -> Iterator[NodeReport]:
    from profiler.fleet.tables import FleetTables

    with FleetTables(folder) as tables:
        rows: Iterable[Mapping[str, Any]] = tables.query(_QUERY, [since])
        for row in rows:
            fields = dict(row)
            yield NodeReport(start_s=_seconds(fields.pop("start")), **fields)


def _of_files(folder: Path, since: str, problems: VotingProblems) -> Iterator[NodeReport]:
    from profiler.fleet.reading import BrokenRecordError, read_records
    from profiler.fleet.sources import files_at
    from profiler.fleet.writing import RecordPlace
    from profiler.pull.access import S3Access

    for file in files_at(RecordPlace(folder), S3Access(), since):
        if file.problem:
            problems.add("broken", file.name)
            continue
        try:
            records = list(read_records(file.content))  # all of them, or none
            yield from (_report(record) for record in records if record.is_of_pull)
        except BrokenRecordError:
            problems.add("broken", file.name)


def _report(record: FleetRecord) -> NodeReport:
    pulls, rollout = record.pulls, record.rollout
    good = pulls.count - pulls.failed
    pressure_us = record.memory_psi_full_us
    return NodeReport(
        node=record.node,
        start_s=_seconds(record.start),
        rollout=rollout.id if rollout else None,
        stage=rollout.stage if rollout else None,
        arm=rollout.arm if rollout else None,
        pulls=pulls.count,
        failed_pulls=pulls.failed,
        return_s=pulls.return_ns / 1e9 / good if good > 0 else None,
        durable_s=pulls.durable_ns / 1e9 / good if good > 0 else None,
        peak_at_risk_bytes=record.peak_at_risk_bytes,
        oom_kills=record.oom_kills or 0,
        memory_psi_full_s=None if pressure_us is None else pressure_us / 1e6,
        verify=record.verify,
        class_key=_text_of(record.node_class),
    )


@functools.lru_cache(maxsize=4096)
def _text_of(key: ClassKey) -> str:
    return str(key)


def _seconds(start: str) -> float:
    """Return the seconds since 1970 of a record's start, which its reader has checked."""
    return datetime.fromisoformat(start.replace("Z", "+00:00")).timestamp()
