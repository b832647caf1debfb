# SPDX-License-Identifier: Apache-2.0
"""The merge: exact in any order, hostile files named, and nothing that ends it."""

from __future__ import annotations

import gzip
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.shared.errors import RequirementError, UsageError
from contracts.stats import all_buckets, merge, nonzero_buckets
from profiler.fleet.ingest import BROKEN_NAME, DUPLICATE, ingest
from profiler.fleet.record import MAX_UNPACKED_BYTES, PullRates
from profiler.fleet.sources import PackedFile, files_at
from profiler.fleet.tables import TABLES, FleetTables
from profiler.fleet.writing import name_of, parse_place
from profiler.pull.access import S3Access
from tests.unit.contract_strategies import stats_of
from tests.unit.fleet_records import CLASS, DAY_RECORD, RECORD, made_classes, made_records

ACCESS = S3Access()


def packed(records):
    return [PackedFile(f"{at}.json.gz", each.packed()) for at, each in enumerate(records)]


def at_minute(minute, **changed):
    return replace(
        RECORD, start=f"2026-11-24T{minute // 60:02}:{minute % 60:02}:00.000Z", **changed
    )


def rows(folder, query, parameters=()):
    with FleetTables(folder) as tables:
        return tables.query(query, parameters)


def test_every_table_is_written(tmp_path):
    done = ingest(packed(made_records(made_classes(7), 50)), tmp_path / "new")
    assert (done.files, done.records, done.nodes, done.classes, done.broken) == (50, 50, 50, 7, [])
    assert sorted(path.name for path in done.folder.iterdir()) == sorted(
        [BROKEN_NAME, *(f"{name}.parquet" for name in TABLES)]
    )
    assert sum(row["pulls"] for row in rows(done.folder, "classes", [0.05])) == 50
    assert sum(row["pulls"] for row in rows(done.folder, "predictions")) == 7 * 50


def test_merged_histograms_equal_merged_statistics_for_random_partitions(tmp_path):
    """1,000 partitions of random calls into records, each merged in a random order."""
    rng, files, expected = random.Random(22), [], {}
    for number in range(1000):
        key = replace(CLASS, volume_iops=number)
        calls = [int(rng.lognormvariate(14, 4)) for _ in range(rng.randrange(1, 60))]
        parts: list[list[int]] = [[] for _ in range(rng.randrange(1, 6))]
        for call in calls:
            rng.choice(parts).append(call)
        expected[str(key)] = (stats_of(calls), merge([stats_of(part) for part in parts]))
        for at, part in enumerate(parts):
            histograms = {"write_latency_ns": nonzero_buckets(stats_of(part).buckets)}
            record = at_minute(at, node_class=key, node=f"{number:08x}-0000-4000-8000-000000000000")
            files.append(PackedFile("x", replace(record, histograms=histograms).packed()))
    rng.shuffle(files)
    assert not ingest(files, tmp_path).broken
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows(tmp_path, "histograms"):
        found.setdefault(row["class_key"], []).append((row["bucket"], row["calls"]))
    assert len(found) == 1000
    for key_text, (whole, merged) in expected.items():
        assert all_buckets(found[key_text]) == merged.buckets == whole.buckets


def test_the_order_of_files_changes_nothing(tmp_path):
    files = packed(made_records(made_classes(3), 60))
    ingest(files, tmp_path / "one")
    random.Random(1).shuffle(files)
    ingest(files, tmp_path / "two")
    for query, parameters in (("histograms", ()), ("outliers", (2, 0.5, 1.01))):
        assert rows(tmp_path / "one", query, parameters) == rows(
            tmp_path / "two", query, parameters
        )


def test_several_records_of_a_file_count(tmp_path):
    lines = b"".join(gzip.decompress(at_minute(at).packed()) for at in range(5))
    done = ingest([PackedFile("day", gzip.compress(lines))], tmp_path)
    assert (done.records, done.nodes) == (5, 1)


def test_a_record_that_comes_twice_counts_once(tmp_path):
    done = ingest(packed([RECORD, at_minute(1), RECORD]), tmp_path)
    assert done.records == 2
    assert [(each.name, each.problems) for each in done.broken] == [("2.json.gz", (DUPLICATE,))]


def test_a_file_with_one_broken_record_does_not_count_at_all(tmp_path):
    lines = gzip.decompress(RECORD.packed()) + b"{}\n"
    done = ingest([PackedFile("half", gzip.compress(lines)), *packed([at_minute(1)])], tmp_path)
    assert (done.records, [each.name for each in done.broken]) == (1, ["half"])


def test_broken_files_are_named_and_the_rest_is_merged(tmp_path):
    bad = [
        PackedFile("bomb", gzip.compress(bytes(50 * 2**20))),
        PackedFile("../../\x1b[31m", b""),
        PackedFile("unreadable", problem="cannot be read: Permission denied"),
    ]
    done = ingest([*bad, *packed([RECORD])], tmp_path / "inside")
    assert done.records == 1
    named = [json.loads(line) for line in (done.folder / BROKEN_NAME).read_text().splitlines()]
    assert [each["file"] for each in named] == ["bomb", "../../\\x1b[31m", "unreadable"]
    assert all(each["problems"] for each in named)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_records_of_no_real_host_end_nothing(tmp_path):
    """Every value is within its bounds, and together they make no sense."""
    extremes = [
        PullRates(1, 1, 1e3, 1e12, 0),
        PullRates(2**53, 1, 1e12, 1e3, 2**53),
        PullRates(1, 2**53, 1e3, 1e3, 0),
        PullRates(2**53, 2**53, 1e12, 1e12, 0),
    ]
    odd_settings = [{}, {"vm.dirty_ratio": 0}, {"vm.dirty_writeback_centisecs": 0}]
    made = [
        replace(RECORD, rates=rates, settings=settings, start=f"2026-11-24T00:{at:02}:00.000Z")
        for at, (rates, settings) in enumerate(
            (rates, settings) for rates in extremes for settings in odd_settings
        )
    ]
    done = ingest(packed(made), tmp_path)
    assert (done.records, done.broken) == (12, [])
    assert rows(tmp_path, "predictions") is not None


def test_nothing_merged_gives_empty_tables(tmp_path):
    done = ingest([], tmp_path)
    assert (done.files, rows(tmp_path, "classes", [0.05])) == (0, [])


def test_a_later_merge_replaces_the_tables(tmp_path):
    ingest(packed(made_records(made_classes(2), 20)), tmp_path)
    ingest(packed([RECORD]), tmp_path)
    assert [row["nodes"] for row in rows(tmp_path, "classes", [0.05])] == [1]


def test_the_reports_for_a_roll_out_have_its_figures(tmp_path):
    ingest(packed([RECORD]), tmp_path)
    (row,) = rows(tmp_path, "node_reports", ["2026-11-24"])
    assert (row["rollout"], row["stage"], row["arm"]) == ("kernel-6", 2, "treated")
    assert (row["return_s"], row["durable_s"]) == (20.0, 30.0)
    assert (row["pulls"], row["failed_pulls"], row["verify"]) == (1, 0, "in force")
    assert rows(tmp_path, "node_reports", ["2026-11-25"]) == []


def test_files_are_found_below_a_directory(tmp_path):
    for at in (0, 1):
        path = tmp_path / name_of(at_minute(at))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(at_minute(at).packed())
    (tmp_path / "README").write_text("not a record")
    (tmp_path / "link.json.gz").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.json.gz")
    (tmp_path / "large.json.gz").write_bytes(bytes(MAX_UNPACKED_BYTES + 1))
    found = {each.name: each for each in files_at(parse_place(str(tmp_path)), ACCESS)}
    assert {name: each.problem for name, each in found.items() if each.problem} == {
        "link.json.gz": "cannot be read: Too many levels of symbolic links",
        "pipe.json.gz": "not a regular file",
        "large.json.gz": "more than 1 MiB",
    }
    assert found[name_of(at_minute(0))].content == at_minute(0).packed()
    assert len(found) == 5


def test_earlier_days_are_left_out(tmp_path):
    days = ("2026-11-22", "2026-11-23", "2026-11-24")
    for day in days:
        path = tmp_path / f"profiles/v1/dt={day}/class=x/1.json.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(RECORD.packed())
    found = [each.name for each in files_at(parse_place(str(tmp_path)), ACCESS, "2026-11-23")]
    assert [name.split("/")[2] for name in found] == ["dt=2026-11-23", "dt=2026-11-24"]


def test_a_source_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        list(files_at(parse_place(f"{tmp_path}/none"), ACCESS))


def test_a_folder_without_tables_is_an_error(tmp_path):
    with pytest.raises(UsageError, match=r"has no records\.parquet"):
        FleetTables(tmp_path)


def test_damaged_tables_are_an_error(tmp_path):
    for name in TABLES:
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(UsageError, match="cannot be read"), FleetTables(tmp_path):
        pass


def test_without_duckdb_the_error_has_the_command(tmp_path, monkeypatch):
    ingest(packed([RECORD]), tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(RequirementError) as error:
        FleetTables(tmp_path)
    assert "fleet" in error.value.hint


@pytest.mark.parametrize("query", sorted(Path("profiler/fleet/queries").glob("*.sql")), ids=str)
def test_a_query_begins_with_what_it_answers(query):
    assert query.read_text().startswith("-- ")


def test_records_of_pulls_and_of_days_are_merged_together(tmp_path):
    done = ingest(packed([RECORD, DAY_RECORD]), tmp_path)
    assert (done.records, done.nodes, done.broken) == (2, 2, [])
    merged = {(row["name"], row["bucket"]): row["calls"] for row in rows(tmp_path, "histograms")}
    assert merged["disk_write_ns", 100] == 70_000
    assert merged["write_latency_ns", 100] == 7
    assert sum(row["pulls"] for row in rows(tmp_path, "classes", [0.05])) == 1


def test_records_of_days_are_no_reports_of_a_roll_out(tmp_path):
    treated = replace(DAY_RECORD, rollout=RECORD.rollout, verify="in force")
    ingest(packed([RECORD, treated]), tmp_path)
    (row,) = rows(tmp_path, "node_reports", ["2026-11-24"])
    assert row["node"] == RECORD.node
