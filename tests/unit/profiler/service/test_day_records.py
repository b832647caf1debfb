# SPDX-License-Identifier: Apache-2.0
"""The records that a watch makes: one a day, one at its end, and a sentence for none."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from profiler.bpf.probes.throttling import Throttled
from profiler.fleet.reading import read_records
from profiler.fleet.record import MAX_WRITTEN_BYTES, FleetRecord
from profiler.fleet.writing import parse_place
from profiler.service import record_sender
from profiler.service.day_records import UNWRITTEN, DayRecords
from profiler.service.record_sender import RecordSender
from sysctl.host.system import HostError, System
from tests.unit.fleet_records import CLASS, DAY_RECORD
from tests.unit.profiler.service.watching import PAGE, SECOND_NS, Watched, buckets

NODE = "11111111-2222-4333-8444-555555555555"
EVENING = datetime(2026, 11, 24, 23, 59, 30, tzinfo=timezone.utc).timestamp()


class Days:
    """A watch without a kernel whose samples are a second apart, and its records."""

    def __init__(self, tmp_path, at_s=EVENING, system=None):
        self.watched, self.at_s = Watched(tmp_path, disks=2), at_s
        self.sent: list[FleetRecord] = []
        self.said: list[str] = []
        self.records = DayRecords(
            NODE, CLASS, self.watched.stalls, self.sent.append, self.said.append,
            system, clock_s=lambda: self.at_s,
        )  # fmt: skip

    def sample(self, slept_s=0.0, dirty=0):
        self.watched.now_ns += SECOND_NS
        self.at_s += 1
        now_ns = self.watched.stalls.counted.planned_ns + round(slept_s * SECOND_NS)
        self.watched.stalls.counted = Throttled(self.watched.stalls.counted.pauses, now_ns)
        self.watched.set_dirty(dirty)
        self.records.add(self.watched.watch.sample())


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    (tmp_path / "state").mkdir(0o700)
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))


def test_midnight_utc_ends_a_record_and_begins_another(tmp_path) -> None:
    days = Days(tmp_path)
    for at in range(60):
        days.sample(slept_s=0.5 if at < 10 else 0, dirty=160)
    [first] = days.sent
    assert first.start == "2026-11-24T23:59:31.000Z"
    assert (first.seconds, first.day.watched_ns) == (29.0, 29 * SECOND_NS)
    days.records.finish()
    [_, second] = days.sent
    assert second.start == "2026-11-25T00:00:00.000Z"
    assert first.seconds + second.seconds == 59
    assert (first.day.stalled_ns, second.day.stalled_ns) == (9 * SECOND_NS, 0)
    assert days.said == []


def test_it_has_what_was_measured_and_is_read_again(tmp_path) -> None:
    days = Days(tmp_path)
    days.sample()
    days.watched.stalls.missed = 3
    writes = replace(
        days.watched.stalls.device.writes,
        count=7, bytes=8192 + 4096, buckets=buckets(300, 310, 320),
    )  # fmt: skip
    days.watched.stalls.device = replace(days.watched.stalls.device, writes=writes)
    days.sample(slept_s=0.4, dirty=160)
    days.sample()
    days.records.finish()
    [record] = days.sent
    assert record.histograms == {"disk_write_ns": ((320, 2),)}  # of two disks
    assert record.day.written_bytes == 2 * 4096
    assert record.day.lost_events == 3
    assert record.day.throttled_ns == 400_000_000
    assert record.peak_at_risk_bytes == 160 * PAGE
    assert (record.node, record.node_class) == (NODE, CLASS)
    packed = record.packed()
    assert len(packed) < MAX_WRITTEN_BYTES
    (found,) = read_records(packed)
    assert found.to_json() == record.to_json()
    text = str(record.to_json())
    assert os.uname().nodename not in text and str(tmp_path) not in text


def test_without_a_second_sample_there_is_no_record(tmp_path) -> None:
    days = Days(tmp_path)
    days.records.finish()
    days.sample()
    days.records.finish()
    assert days.sent == [] and days.said == []


def test_the_roll_out_of_the_node_is_in_it(tmp_path) -> None:
    marker = tmp_path / "state/rollout.json"
    marker.write_text('{"id": "kernel-6", "stage": 2, "arm": "control"}\n')
    days = Days(tmp_path)
    days.sample()
    days.sample()
    days.records.finish()
    assert days.sent[0].rollout.id == "kernel-6"


def test_a_record_that_cannot_be_made_costs_a_sentence(tmp_path) -> None:
    (tmp_path / "state/rollout.json").write_text("{")
    days = Days(tmp_path)
    for _ in range(60):
        days.sample()
    assert days.sent == []
    assert len(days.said) == 1 and days.said[0].startswith(UNWRITTEN)


def test_a_day_that_cannot_be_begun_costs_a_sentence_a_day(tmp_path) -> None:
    class Unreadable(System):
        def read(self, absolute):
            raise HostError(f"{absolute} cannot be read")

    days = Days(tmp_path, system=Unreadable())
    for _ in range(60):
        days.sample()
    days.records.finish()
    assert days.sent == []
    assert len(days.said) == 2


def test_a_clock_that_is_set_back_ends_a_record_too(tmp_path) -> None:
    days = Days(tmp_path)
    for _ in range(3):
        days.sample()
    days.at_s -= 40 * 86_400
    for _ in range(3):
        days.sample()
    days.records.finish()
    assert [each.start[:10] for each in days.sent] == ["2026-11-24", "2026-10-15"]
    assert [each.seconds for each in days.sent] == [3.0, 2.0]


class Sending:
    """A sender whose place is a directory, and what it said."""

    def __init__(self, place, delay_s=0.0):
        self.said: list[str] = []
        self.dropped = threading.Event()
        self.sender = RecordSender(
            parse_place(str(place)), self.said.append, self.dropped.set, delay_s=lambda: delay_s
        )
        self.sender.start()


def files(folder):
    return sorted(folder.rglob("*.json.gz"))


def test_records_are_written_in_a_thread_without_privileges(tmp_path) -> None:
    sending = Sending(tmp_path / "records")
    sending.sender.send(DAY_RECORD)
    sending.sender.close()
    assert sending.dropped.is_set() and sending.said == []
    [path] = files(tmp_path / "records")
    assert path.parent.parent.name == "dt=2026-11-24"
    (found,) = read_records(path.read_bytes())
    assert found.to_json() == DAY_RECORD.to_json()


def test_a_record_that_cannot_be_written_costs_a_sentence_and_the_next_is_written(
    tmp_path,
) -> None:
    sending = Sending(tmp_path / "records")
    (tmp_path / "records").write_text("in the way")
    sending.sender.send(DAY_RECORD)
    until(lambda: sending.said)
    (tmp_path / "records").unlink()
    sending.sender.send(DAY_RECORD)
    sending.sender.close()
    [sentence] = sending.said
    assert sentence.startswith(UNWRITTEN) and "cannot use the directory" in sentence
    assert "check --record" in sentence
    assert len(files(tmp_path / "records")) == 1


def until(is_so) -> None:
    ends_s = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def test_before_s3_it_waits_and_the_end_of_the_watch_does_not(monkeypatch) -> None:
    written = []
    monkeypatch.setattr(record_sender, "write_record", lambda *args, **_: written.append(args))
    sending = Sending("s3://bucket/prefix", delay_s=3600.0)
    sending.sender.send(DAY_RECORD)
    time.sleep(0.2)
    assert written == []
    sending.sender.send(DAY_RECORD)
    began_s = time.monotonic()
    sending.sender.close()
    assert time.monotonic() - began_s < 5
    assert len(written) == 2 and sending.said == []


def test_a_bucket_that_hangs_does_not_hold_up_the_end(monkeypatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(record_sender, "write_record", lambda *_, **__: release.wait(30))
    monkeypatch.setattr(record_sender, "CLOSE_S", 0.2)
    sending = Sending("s3://bucket/prefix")
    sending.sender.send(DAY_RECORD)
    sending.sender.close()
    release.set()
    assert sending.said == [f"{UNWRITTEN}s3://bucket/prefix does not answer"]
