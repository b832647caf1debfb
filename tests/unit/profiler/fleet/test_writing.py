# SPDX-License-Identifier: Apache-2.0
"""Where records go, and the delay before a request to S3."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.shared.errors import UsageError, WritewiseError
from profiler.fleet.reading import read_records
from profiler.fleet.writing import SPREAD_S, delay_s, name_of, parse_place, write_record
from profiler.pull.access import S3Access
from tests.unit.fleet_records import CLASS, RECORD

ACCESS = S3Access()


def read(path):
    (found,) = read_records(path.read_bytes())
    return found.to_json()


def test_the_name_has_the_day_the_class_the_node_and_the_time():
    assert name_of(RECORD) == (
        f"profiles/v1/dt=2026-11-24/class={CLASS}/{RECORD.node}.20261124T020845.123Z.json.gz"
    )


def test_a_directory_gets_a_file_for_each_pull(tmp_path):
    place = parse_place(f"{tmp_path}/new")
    later = replace(RECORD, start="2026-11-24T03:00:00.000Z")
    for record in (RECORD, RECORD, later):
        write_record(record, place, ACCESS)
    written = [tmp_path / "new" / name_of(each) for each in (RECORD, later)]
    assert sorted(tmp_path.rglob("*.gz")) == sorted(written)
    assert [read(path) for path in written] == [RECORD.to_json(), later.to_json()]


def test_a_file_is_replaced(tmp_path):
    place = parse_place(f"{tmp_path}/last.json.gz")
    for record in (replace(RECORD, seconds=1.0), RECORD):
        write_record(record, place, ACCESS)
    assert [path.name for path in tmp_path.iterdir()] == ["last.json.gz"]
    assert read(tmp_path / "last.json.gz") == RECORD.to_json()


def test_a_symlink_at_the_files_place_is_replaced_not_followed(tmp_path):
    (tmp_path / "target").write_text("kept")
    (tmp_path / "r.json.gz").symlink_to(tmp_path / "target")
    write_record(RECORD, parse_place(f"{tmp_path}/r.json.gz"), ACCESS)
    assert (tmp_path / "target").read_text() == "kept"
    assert read(tmp_path / "r.json.gz") == RECORD.to_json()


def test_an_address_in_s3_is_a_bucket_and_a_prefix():
    place = parse_place("s3://bucket/a/b/")
    assert (place.bucket, place.prefix, str(place)) == ("bucket", "a/b", "s3://bucket/a/b")


@pytest.mark.parametrize("text", ["", "s3://", "http://host/x", "s3:///x"])
def test_another_address_is_refused(text):
    with pytest.raises(UsageError):
        parse_place(text)


def test_a_place_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot use the directory"):
        parse_place(f"{tmp_path}/file/below")


def test_a_directory_that_vanished_is_named(tmp_path):
    place = parse_place(f"{tmp_path}/new")
    (tmp_path / "new").write_text("in the way")
    with pytest.raises(WritewiseError, match="cannot use the directory"):
        write_record(RECORD, place, ACCESS)


def test_only_a_run_of_a_timer_waits():
    waits = [delay_s({"TRIGGER_UNIT": "writewise-pull.timer"}) for _ in range(2000)]
    assert 0 <= min(waits) < SPREAD_S / 20 and SPREAD_S * 0.95 < max(waits) <= SPREAD_S
    assert sum(waits) / 2000 == pytest.approx(SPREAD_S / 2, rel=0.1)
    assert delay_s({}) == delay_s({"TRIGGER_UNIT": "x.path"}) == 0
