# SPDX-License-Identifier: Apache-2.0
"""Records: written and read again, within the bounds, and every error of a hostile one named."""

from __future__ import annotations

import gzip
import json
import random
import time
import tracemalloc
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.stats import BUCKET_COUNT
from profiler.fleet.reading import BrokenRecordError, parse_record, read_records, unpack
from profiler.fleet.record import MAX_UNPACKED_BYTES, MAX_WRITTEN_BYTES, RecordError
from tests.unit.fleet_records import (
    CLASS,
    DAY_RECORD,
    RECORD,
    made_classes,
    made_records,
    spread,
)

DATA, DAY = RECORD.to_json(), DAY_RECORD.to_json()


def line(**changed):
    return json.dumps({**DATA, **changed}).encode()


def problems(raw):
    with pytest.raises(BrokenRecordError) as error:
        parse_record(raw)
    return error.value.problems


def test_a_record_is_read_as_it_was_written():
    (found,) = read_records(RECORD.packed())
    assert found.to_json() == DATA
    assert (found.node_class, found.pulls, found.rates) == (CLASS, RECORD.pulls, RECORD.rates)
    assert found.rollout == RECORD.rollout


def test_records_of_a_fleet_are_read_as_they_were_written():
    for record in made_records(made_classes(20), 100):
        (found,) = read_records(record.packed())
        assert found.to_json() == record.to_json()


def test_equal_records_are_equal_bytes():
    assert RECORD.packed() == replace(RECORD).packed()


def test_a_record_with_many_buckets_is_small_enough():
    many = spread(random.Random(1), 10**6, 400)
    histograms = {**RECORD.histograms, "write_latency_ns": many}
    assert len(replace(RECORD, histograms=histograms).packed()) < MAX_WRITTEN_BYTES


def test_a_record_that_is_too_large_is_not_written():
    rng = random.Random(1)
    full = {
        name: [(index, rng.randrange(1, 10**12)) for index in range(BUCKET_COUNT)]
        for name in RECORD.histograms
    }
    with pytest.raises(RecordError, match=r"more than the"):
        replace(RECORD, histograms=full).packed()


def test_several_records_of_a_file_are_lines():
    lines = gzip.decompress(RECORD.packed()) * 3
    assert len(list(read_records(gzip.compress(lines)))) == 3


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (b"", "the gzip file is not complete"),
        (b"{}", "not a gzip file, or a damaged one"),
        (RECORD.packed()[:-20], "the gzip file is not complete"),
        (RECORD.packed()[:-8] + b"12345678", "not a gzip file, or a damaged one"),
        (RECORD.packed() * 2, "there is more after the end of the gzip data"),
        (gzip.compress(b""), "it has no record"),
        (gzip.compress(b"\n"), "not valid JSON"),
        (gzip.compress(b"{}"), "the last line is not complete"),
        (zlib.compress(b"{}\n"), "not a gzip file, or a damaged one"),
    ],
    ids=("empty", "plain", "cut", "checksum", "twice", "nothing", "no-line", "no-end", "zlib"),
)
def test_a_damaged_file_is_named(packed, problem):
    with pytest.raises(BrokenRecordError) as error:
        list(read_records(packed))
    assert error.value.problems == (problem,)


def test_a_bomb_is_not_unpacked_beyond_the_limit():
    bomb = gzip.compress(bytes(200 * 2**20))
    tracemalloc.start()
    try:
        with pytest.raises(BrokenRecordError, match="more than 1 MiB unpacked"):
            unpack(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_UNPACKED_BYTES


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"[]", "not a JSON object"),
        (b"nothing", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"kind": NaN}', "NaN is not a number of JSON"),
        (b'{"kind": -Infinity}', "-Infinity is not a number of JSON"),
        (b'{"kind": 1, "kind": 2}', "a name occurs twice in an object"),
        (b'{"version": ' + b"9" * 1_000_000 + b"}", "a number with more than 30 digits"),
        (b"[" * 500_000, "not valid JSON"),
        (b'{"a":' * 100_000, "not valid JSON"),
        (b"{}", "kind: not writewise-record"),
        (line(kind="other"), "kind: not writewise-record"),
        (line(version=3), "version: '3' is not 1 or 2"),
        (line(version=True), "version: 'True' is not 1 or 2"),
        (line(version=1.0), "version: '1.0' is not 1 or 2"),
    ],
    ids=range(14),
)
def test_what_is_no_record_is_refused_at_once(raw, problem):
    began = time.monotonic()
    assert problems(raw) == (problem,)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("name", ["class", "node", "histograms", "rollout"])
def test_nesting_of_any_depth_is_refused(name):
    """What is just shallow enough to be parsed may be too deep to be written or shown."""
    text = json.dumps({**DATA, name: "HERE"})
    for depth in [*range(50, 1100, 7), 5000, 100_000]:
        nested = text.replace('"HERE"', "[" * depth + "]" * depth)
        with pytest.raises(BrokenRecordError):
            parse_record(nested.encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node", "../../etc/passwd"),
        ("node", "a-host.example.com"),
        ("node", "11111111-2222-4333-8444-55555555555g"),
        ("host", "web-17"),
        ("writewise", "1'; DROP TABLE records; --"),
        ("start", "2026-13-01T00:00:00Z"),
        ("start", "2026-11-24 02:08:45"),
        ("start", 1763950125),
        ("seconds", -1),
        ("seconds", "31"),
        ("seconds", True),
        ("seconds", False),
        ("seconds", 1e300),
        ("writer_ns", -1),
        ("writer_ns", 1.5),
        ("writer_ns", 2**63),
        ("peak_at_risk_bytes", "1"),
        ("oom_kills", -1),
        ("oom_kills", 10**29),
        ("memory_psi_full_us", []),
        ("verify", "in force; rm -rf /"),
        ("verify", ["in force"]),
    ],
)
def test_an_invalid_value_is_named(name, value):
    (problem,) = problems(line(**{name: value}))
    assert problem.startswith(f"{name}: invalid value ")
    assert len(problem) < 120


def with_part(part, **changed):
    return line(**{part: {**DATA[part], **changed}})


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (with_part("pulls", count=-1), "pulls.count: invalid value '-1'"),
        (with_part("pulls", paths=["/etc"]), "pulls.'paths': unknown"),
        (with_part("rollout", id="../x"), "rollout.id: invalid value '../x'"),
        (with_part("rollout", stage=0), "rollout.stage: invalid value '0'"),
        (with_part("rollout", arm="both"), "rollout.arm: invalid value 'both'"),
        (with_part("settings", dirty_ratio=101), "settings.dirty_ratio: invalid value '101'"),
        (with_part("settings", swappiness="x"), "settings.'swappiness': unknown"),
        (with_part("stalls", throttling=-5), "stalls.throttling: invalid value '-5'"),
        (with_part("rates", burst_bytes=0), "rates.burst_bytes: invalid value '0'"),
        (with_part("rates", seen_bytes=0.5), "rates.seen_bytes: invalid value '0.5'"),
        (with_part("rates", source_bytes_per_s=0), "rates.source_bytes_per_s: invalid value '0'"),
        (with_part("rates", device_bytes_per_s=9), "rates.device_bytes_per_s: invalid value '9'"),
        (with_part("class", client="a b"), "class.client: invalid value 'a b'"),
        (with_part("class", client="other"), "class_key: not the key of its class"),
        (line(class_key="../../x"), "class_key: not the key of its class"),
        (line(pulls=None), "pulls: null"),
        (line(pulls=[1]), "pulls: not an object"),
        (line(rates=0), "rates: not an object"),
        (line(settings=7), "settings: not an object"),
        (line(keys=["s3://bucket/secret"]), "unknown field 'keys'"),
    ],
    ids=range(20),
)  # fmt: skip
def test_an_invalid_part_is_named(raw, problem):
    assert problems(raw) == (problem,)


@pytest.mark.parametrize(
    "pairs",
    [
        [[-1, 1]],
        [[BUCKET_COUNT, 1]],
        [[5, 0]],
        [[5, -3]],
        [[5, 1], [5, 1]],
        [[6, 1], [5, 1]],
        [[5, 10**13]],
        [[5, True]],
        [[5.0, 1]],
        [[5]],
        [5, 1],
        {"5": 1},
        None,
    ],
)
def test_an_invalid_histogram_is_named(pairs):
    (problem,) = problems(with_part("histograms", write_latency_ns=pairs))
    assert problem.startswith("histograms.write_latency_ns: invalid value")


@pytest.mark.parametrize("name", sorted(set(DATA) - {"kind", "version"}))
def test_a_missing_field_is_named(name):
    raw = json.dumps({key: value for key, value in DATA.items() if key != name}).encode()
    assert f"{name}: missing" in problems(raw)


def test_every_error_is_named_at_once():
    raw = line(node=1, seconds=-1, verify="x", pulls={**DATA["pulls"], "failed": None})
    assert [each.split(":")[0] for each in problems(raw)] == [
        *("node", "seconds", "verify", "pulls.failed")
    ]


def test_a_record_with_thousands_of_errors_names_some_and_counts_the_rest():
    found = problems(line(**{f"x{number}": 1 for number in range(5000)}))
    assert len(found) == 21 and found[-1] == "and 4980 more errors"


def test_messages_have_no_control_characters():
    (problem,) = problems(line(verify="\x1b[31m\n\u202e"))
    assert problem.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=500)
@given(st.sampled_from(sorted(DATA)), JSON)
def test_any_value_of_a_field_is_read_or_named(name, value):
    try:
        found = parse_record(line(**{name: value}))
    except BrokenRecordError as error:
        assert error.problems and all(problem.isprintable() for problem in error.problems)
    else:
        assert found.to_json() == json.loads(line(**{name: value}))


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(raw):
    with pytest.raises(BrokenRecordError):
        list(read_records(raw))


def of_day(**changed):
    return json.dumps({**DAY, **changed}).encode()


def with_day(**changed):
    return of_day(day={**DAY["day"], **changed})


def test_the_record_of_a_day_is_read_as_it_was_written():
    (found,) = read_records(DAY_RECORD.packed())
    assert found.to_json() == DAY
    assert (found.day, found.is_of_pull, found.pulls.count) == (DAY_RECORD.day, False, 0)
    assert (DATA["version"], DAY["version"]) == (1, 2)


def test_the_record_of_a_day_with_many_buckets_is_small_enough():
    rng = random.Random(1)
    full = [(index, rng.randrange(1, 10**6)) for index in range(BUCKET_COUNT)]
    packed = replace(DAY_RECORD, histograms={"disk_write_ns": full}).packed()
    assert len(packed) < MAX_WRITTEN_BYTES


@pytest.mark.parametrize("name", ["pulls", "stalls", "writer_ns", "rates"])
def test_the_record_of_a_day_has_nothing_of_pulls(name):
    assert name not in DAY
    assert problems(of_day(**{name: DATA[name]})) == (f"unknown field {name!r}",)


def test_a_record_is_read_by_the_form_of_its_version():
    assert "day: missing" in problems(line(version=2))
    assert "pulls: missing" in problems(of_day(version=1))
    assert problems(line(day=DAY["day"])) == ("unknown field 'day'",)


@pytest.mark.parametrize("name", sorted(set(DAY) - {"kind", "version"}))
def test_a_missing_field_of_a_day_is_named(name):
    raw = json.dumps({key: value for key, value in DAY.items() if key != name}).encode()
    assert f"{name}: missing" in problems(raw)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (with_day(watched_ns=-1), "day.watched_ns: invalid value '-1'"),
        (with_day(pauses=1.5), "day.pauses: invalid value '1.5'"),
        (with_day(paths=["/etc"]), "day.'paths': unknown"),
        (with_day(burst_ns=10**14), "day.burst_ns: more than watched_ns"),
        (with_day(stalled_ns=10**13), "day.stalled_ns: more than burst_ns"),
        (with_day(above_freerun_ns=10**13), "day.above_freerun_ns: more than burst_ns"),
        (of_day(day=None), "day: null"),
        (of_day(day=[]), "day: not an object"),
        (of_day(histograms={"disk_write_ns": [[1, 0]]}), "histograms.disk_write_ns: invalid"),
        (of_day(histograms={**DAY["histograms"], "return_time_ns": []}), "histograms.'return"),
    ],
    ids=range(10),
)
def test_an_invalid_day_is_named(raw, problem):
    (found,) = problems(raw)
    assert found.startswith(problem)


@settings(max_examples=300)
@given(st.sampled_from(sorted(DAY)), JSON)
def test_any_value_of_a_field_of_a_day_is_read_or_named(name, value):
    try:
        found = parse_record(of_day(**{name: value}))
    except BrokenRecordError as error:
        assert error.problems and all(problem.isprintable() for problem in error.problems)
    else:
        assert found.to_json() == json.loads(of_day(**{name: value}))
