# SPDX-License-Identifier: Apache-2.0
"""Where a record goes: a file, a directory, or a prefix in S3.

In a directory and in S3 its place is `profiles/v1/dt=DATE/class=CLASS/NODE.START.json.gz`, so that
a copy of the one has the form of the other, and a record that is written again replaces itself.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted
from contracts.shared.writing import check_directory, make_directories, write_atomically
from profiler.fleet.record import FleetRecord, RecordError
from profiler.pull.permissions import Permission

if TYPE_CHECKING:
    from profiler.pull.access import S3Access

PREFIX = "profiles/v1"
SUFFIX = ".json.gz"
PUT = Permission(
    "s3:PutObject",
    f"arn:aws:s3:::BUCKET/PREFIX/{PREFIX}/*",
    ("PutObject",),
    "write one record for each pull or day",
)
_SCHEME = "s3://"
#: Nodes whose timers go off together spread their requests over this time (s). S3 takes at least
#: 3,500 PUT/s for a prefix, and 100,000 nodes are 1,667/s.
SPREAD_S = 60.0
#: Set by systemd (252 or later) for a service that a timer has started: systemd.exec(5).
_TRIGGER = "TRIGGER_UNIT"


@dataclass(frozen=True)
class RecordPlace:
    """A place for records: a `path` (`is_file`: of a single record), or a bucket and a prefix."""

    path: Path | None = None
    is_file: bool = False
    bucket: str = ""
    prefix: str = ""

    def __str__(self) -> str:
        """Return the printable address."""
        where = f"{_SCHEME}{self.bucket}/{self.prefix}" if self.path is None else str(self.path)
        return printable(where)


def parse_place(text: str) -> RecordPlace:
    """Return the place that an option names. Raises UsageError, also for an unusable directory."""
    if text.startswith(_SCHEME):
        from profiler.pull.source import parse_location

        location = parse_location(text)
        return RecordPlace(bucket=location.bucket, prefix=location.prefix.strip("/"))
    if "://" in text or not text:
        raise UsageError(
            f"invalid place for records {quoted(text)}",
            f"use s3://BUCKET/PREFIX, a directory, or a file whose name ends in {SUFFIX}",
        )
    path = Path(text)
    is_file = text.endswith(SUFFIX) and not path.is_dir()
    check_directory(path.parent if is_file else path)
    return RecordPlace(path, is_file)


def name_of(record: FleetRecord) -> str:
    """Return the record's place below a directory or prefix."""
    at = record.start.replace("-", "").replace(":", "")
    partition = quote(str(record.node_class), safe="")
    return f"{PREFIX}/dt={record.start[:10]}/class={partition}/{record.node}.{at}{SUFFIX}"


def write_record(
    record: FleetRecord,
    place: RecordPlace,
    access: S3Access,
    environment: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write a record. A run that a timer has started waits a random time before a request to S3.

    Raises WritewiseError.
    """
    packed = record.packed()
    if place.path is None:
        sleep(delay_s(environment))
        _put(packed, record, place, access)
        return
    path = place.path if place.is_file else place.path / name_of(record)
    try:
        make_directories(path.parent)
        write_atomically(path, packed)
    except UsageError as error:  # its hint is about the report of a command
        raise RecordError(error.message, "name another place for records") from None


def delay_s(environment: Mapping[str, str]) -> float:
    """Return how long to wait (s) before a request: 0 unless a timer started this program."""
    is_timed = environment.get(_TRIGGER, "").endswith(".timer")
    return random.uniform(0, SPREAD_S) if is_timed else 0.0  # noqa: S311


def _put(packed: bytes, record: FleetRecord, place: RecordPlace, access: S3Access) -> None:
    from profiler.pull.errors import explain

    key = "/".join(filter(None, (place.prefix, name_of(record))))
    try:
        client = replace(access, sign_requests=True).make_client()
        client.put_object(Bucket=place.bucket, Key=key, Body=packed)
    except Exception as error:  # botocore's, and those of what it uses
        found = explain(error, place.bucket)
        raise RecordError(
            f"cannot write the record to {place}: {found.message}", found.hint
        ) from error
