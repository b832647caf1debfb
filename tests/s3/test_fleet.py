# SPDX-License-Identifier: Apache-2.0
"""Records in S3: written by nodes, listed, fetched and merged, against moto's server."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace

import boto3
import pytest

from contracts.shared.errors import WritewiseError
from profiler.fleet.ingest import ingest
from profiler.fleet.record import MAX_UNPACKED_BYTES
from profiler.fleet.sources import files_at
from profiler.fleet.tables import FleetTables
from profiler.fleet.writing import name_of, parse_place, write_record
from profiler.pull.access import S3Access
from profiler.service.day_records import UNWRITTEN
from profiler.service.record_sender import RecordSender
from tests.s3.conftest import BUCKET, MotoBackend
from tests.unit.fleet_records import DAY_RECORD, RECORD, made_classes, made_records

PLACE = parse_place(f"s3://{BUCKET}/fleet/a")


@pytest.fixture
def endpoint() -> Iterator[str]:
    with MotoBackend({}).serve() as url:
        yield url


def put(endpoint, key, body):
    boto3.client("s3", endpoint_url=endpoint).put_object(Bucket=BUCKET, Key=key, Body=body)


def test_what_nodes_write_is_merged(endpoint, tmp_path):
    access = S3Access(endpoint)
    made = list(made_records(made_classes(5), 150))
    waits: list[float] = []
    for record in made:
        write_record(record, PLACE, access, {"TRIGGER_UNIT": "x.timer"}, waits.append)
    assert len(waits) == 150 and max(waits) > 30
    names = [each.name for each in files_at(PLACE, access)]
    assert names == sorted(f"fleet/a/{name_of(each)}" for each in made)
    done = ingest(files_at(PLACE, access), tmp_path)
    assert (done.records, done.classes, done.broken) == (150, 5, [])
    with FleetTables(tmp_path) as tables:
        assert sum(row["nodes"] for row in tables.query("classes", [0.05])) == 150


def test_a_record_that_is_written_again_replaces_itself(endpoint):
    for _ in range(2):
        write_record(RECORD, PLACE, S3Access(endpoint))
    (found,) = files_at(PLACE, S3Access(endpoint))
    assert found.content == RECORD.packed()


def test_a_bucket_that_needs_no_signature_for_pulls_gets_a_signed_record(endpoint):
    write_record(RECORD, PLACE, S3Access(endpoint, sign_requests=False))
    assert len(list(files_at(PLACE, S3Access(endpoint)))) == 1


def test_earlier_days_are_not_listed(endpoint):
    days = ("2026-11-22", "2026-11-23", "2026-11-24")
    for day in days:
        write_record(replace(RECORD, start=f"{day}T00:00:00.000Z"), PLACE, S3Access(endpoint))
    found = [each.name for each in files_at(PLACE, S3Access(endpoint), "2026-11-23")]
    assert [name.split("dt=")[1][:10] for name in found] == ["2026-11-23", "2026-11-24"]


def test_hostile_objects_are_named_and_the_rest_is_merged(endpoint, tmp_path):
    write_record(RECORD, PLACE, S3Access(endpoint))
    before = "fleet/a/profiles/v1/dt=2026-11-24"
    put(endpoint, f"{before}/class=../../x/1.json.gz", gzip.compress(b"{}\n"))
    put(endpoint, f"{before}/class='; DROP TABLE records; --/2.json.gz", b"")
    put(endpoint, f"{before}/class=x/3.json.gz", bytes(MAX_UNPACKED_BYTES + 1))
    put(endpoint, f"{before}/class=x/4.json.gz", gzip.compress(bytes(30 * 2**20)))
    put(endpoint, f"{before}/class=x/notes.txt", b"not a record")
    done = ingest(files_at(PLACE, S3Access(endpoint)), tmp_path)
    assert (done.records, done.files, len(done.broken)) == (1, 5, 4)
    problems = {each.name.rpartition("/")[2]: each.problems for each in done.broken}
    assert problems == {
        "1.json.gz": ("kind: not writewise-record",),
        "2.json.gz": ("the gzip file is not complete",),
        "3.json.gz": ("more than 1 MiB",),
        "4.json.gz": ("more than 1 MiB unpacked",),
    }


def test_a_bucket_that_is_missing_is_an_error(endpoint):
    missing = parse_place("s3://no-such-bucket/x")
    with pytest.raises(WritewiseError):
        list(files_at(missing, S3Access(endpoint)))
    with pytest.raises(WritewiseError, match="cannot write the record to s3://no-such-bucket/x"):
        write_record(RECORD, missing, S3Access(endpoint))


def test_an_empty_prefix_has_no_files(endpoint):
    assert list(files_at(PLACE, S3Access(endpoint))) == []


def test_the_records_of_a_watch_are_objects_too(endpoint, tmp_path):
    said: list[str] = []
    for place in (PLACE, parse_place("s3://no-such-bucket/x")):
        sender = RecordSender(place, said.append, lambda: None, access=S3Access(endpoint))
        sender.start()
        sender.send(DAY_RECORD)
        sender.close()
    write_record(RECORD, PLACE, S3Access(endpoint))
    done = ingest(files_at(PLACE, S3Access(endpoint)), tmp_path)
    assert (done.records, done.nodes, done.broken) == (2, 2, [])
    [sentence] = said
    assert sentence.startswith(f"{UNWRITTEN}cannot write the record to s3://no-such-bucket/x")
