# SPDX-License-Identifier: Apache-2.0
"""Timeframes of real runs: their content, that they have no gaps, and their log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from contracts.shared.units import parse_count, parse_latency_ns, parse_size_bytes
from profiler.report.log import FIELDS
from tests.places import REPOSITORY
from tests.root.profiling import mounted
from tests.root.test_profile import profile, start, wait_until_attached
from tests.unit.profiler.report.test_log import unescaped

pytestmark = pytest.mark.side_by_side

BURSTS = Path(__file__).with_name("bursts.py")
SCHEMA = json.loads((REPOSITORY / "docs/reference/profile.schema.json").read_text())
FRAME = "200ms"
FRAME_NS = 200 * 10**6


def contract_of(folder: Path, *rules: str, frame: str = FRAME) -> Path:
    (folder / "data").mkdir(exist_ok=True)
    path = folder / "contract"
    path.write_text("".join(f"{line}\n" for line in (f"2,monitortimeframe,{frame}", *rules)))
    return path


def writes(folder: Path, measurement: str, threshold: str, label: str = "writes") -> str:
    return f"{label},{folder / 'data'},write,all,{measurement},{threshold}"


def bursts(folder: Path, calls: int, pause_s: float, *counts: int) -> list[object]:
    arguments = [folder / "data" / "file", calls, pause_s, *counts]
    return [sys.executable, "-BS", BURSTS, *arguments]


def records(log: Path) -> list[dict[str, str]]:
    return [dict(zip(FIELDS, unescaped(line))) for line in log.read_text().splitlines()]


def document_of(*arguments: object) -> dict:
    done = profile("--json", *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    return document


def test_bursts_fall_into_their_timeframes_and_none_is_lost(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"))
    log = tmp_path / "log"
    command = bursts(tmp_path, 100, 0.4, 1, 3, 2)
    document = document_of("--contract", contract, "--log", log, "--", *command)
    (finding,), frames = document["findings"], document["timeframes"]
    assert (finding["value"], finding["bytes"]) == (600, 6000)
    counts = [frame["rules"][0]["value"] for frame in frames["violations"]]
    assert sum(counts) == 600
    assert len(counts) < frames["count"]  # some timeframes have no call
    assert frames["rules"][0]["largest"] == max(counts) >= 200
    logged = records(log)
    assert [parse_count(record["MEASURED"].split("/")[0]) for record in logged] == counts
    assert [int(record["SEQUENCE"]) for record in logged] == list(range(1, len(counts) + 1))


def test_frames_follow_each_other_without_gap_or_drift(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"))
    for _ in range(5):  # on a busy host a whole timeframe may pass without a call
        document = document_of("--contract", contract, "--", *bursts(tmp_path, 1, 0.05, *[1] * 30))
        frames = document["timeframes"]["violations"]
        if len(frames) == document["timeframes"]["count"]:
            break
    assert len(frames) == document["timeframes"]["count"] >= 7
    for before, after in zip(frames, frames[1:]):
        assert after["start_ns"] == before["start_ns"] + before["elapsed_ns"]
    assert frames[-1]["start_ns"] + frames[-1]["elapsed_ns"] == document["elapsed_ns"]
    # On a busy host a frame may be cut late, if by more than a beat then by whole beats; it never
    # # drifts. The first begins a little after its beat, so the others are that much before a beat.
    late_ns = [frame["start_ns"] % FRAME_NS for frame in frames]
    offsets_ns = sorted(min(late, FRAME_NS - late) for late in late_ns)
    assert offsets_ns[len(offsets_ns) // 2] < FRAME_NS / 10


def test_calls_made_without_a_pause_are_each_in_one_timeframe(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"), frame="100ms")
    command = bursts(tmp_path, 400_000, 0, 1)
    document = document_of("--contract", contract, "--", *command)
    counts = [frame["rules"][0]["value"] for frame in document["timeframes"]["violations"]]
    assert len(counts) >= 2
    assert sum(counts) == document["findings"][0]["value"] == 400_000
    assert document["losses"]["total"] == 0


def test_the_rest_is_logged_at_the_exit_with_its_own_length(tmp_path: Path) -> None:
    rules = (
        writes(tmp_path, "bandwidth", "1B", "total, all"),
        writes(tmp_path, "bandwidth", "10B", "more"),
        writes(tmp_path, "bandwidth", "1GB", "never"),
    )
    contract = contract_of(tmp_path, *(rule.replace(", ", "\\, ") for rule in rules), frame="1000s")
    log = tmp_path / "log"
    command = bursts(tmp_path, 2, 0.1, 1)
    for run in (1, 2):
        done = profile("--contract", contract, "--log", log, "--", *command)
        assert (done.returncode, done.stdout) == (0, "2\n")
        assert len(records(log)) == run  # appended; of equal rules only the leading one is logged
    record = records(log)[0]
    assert (record["LABEL"], record["PATH"]) == ("more", str(tmp_path / "data"))
    assert record["COMMAND"] == " ".join(map(str, command))
    assert record["THRESHOLD"] == "10B/1000s"
    measured, length = record["MEASURED"].split("/")
    assert parse_size_bytes(measured) == 20
    assert 10**8 <= parse_latency_ns(length) < 10**10
    stat = subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path], text=True)
    assert record["FSTYPE"][:3] == stat[:3]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", record["TIMESTAMP"])
    assert int(record["PID"]) not in (0, os.getpid())


def test_a_process_s_log_and_its_last_timeframe(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"), frame="100s")
    log = tmp_path / "log"
    shell = ["sh", "-c", 'read line; exec "$@"', "-", *map(str, bursts(tmp_path, 5, 0, 1))]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, text=True) as target:
        process = start("--contract", contract, "--log", log, "--pid", target.pid)
        wait_until_attached(process)
        target.communicate("go\n")
        assert process.wait(20) == 0
    (record,) = records(log)
    assert (record["MEASURED"].split("/")[0], record["PID"]) == ("5", str(target.pid))
    assert record["COMMAND"].startswith("sh -c read line")


def test_an_interrupt_ends_with_the_rest(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"), frame="1000s")
    log = tmp_path / "log"
    process = start("--contract", contract, "--log", log, "--duration", "60s")
    wait_until_attached(process)
    subprocess.run(list(map(str, bursts(tmp_path, 7, 0, 1))), check=True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    (record,) = records(log)
    assert (record["MEASURED"].split("/")[0], record["PID"]) == ("7", "0")


def test_resources_of_a_command(tmp_path: Path) -> None:
    rules = ("rss,/,none,all,memory-rss,50MB", "cpu,/,none,all,cpu-time,3s",
             "host,/,none,all,host-cpu-user-time,1us", writes(tmp_path, "count", "1"))  # fmt: skip
    contract = contract_of(tmp_path, *rules)
    burn = "import time\nmemory = bytearray(100 << 20)\nwhile time.process_time() < 2: pass"
    document = document_of("--contract", contract, "--", sys.executable, "-c", burn)
    values = {finding["label"]: finding["value"] for finding in document["findings"]}
    assert 100 << 20 <= values["rss"] < 200 << 20
    assert 2e9 <= values["cpu"] < 2.5e9
    host = document["resources"]
    assert host["host_user_ns"] == values["host"] > 0
    assert host["host_user_ns"] + host["host_system_ns"] >= 1.5e9  # counted in ticks: not exact
    verdicts = {finding["label"]: finding["violated"] for finding in document["findings"]}
    assert verdicts == {"rss": True, "cpu": False, "host": True, "writes": False}
    assert document["resources"]["rss_bytes"] == values["rss"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--log", "/no/such/folder/log"], "cannot append to /no/such/folder/log: No such file"),
        (["--log", "/dev/null"], "it is not a regular file"),
        (["--log", "/etc/passwd"], "it is not a log in this format"),
        (["--live"], "--live needs a terminal"),
        (["--comm", ""], "comm"),
        (["--cgroup", "/no/such/group"], "/no/such/group"),
    ],
)
def test_bad_arguments_are_a_sentence(arguments: list[str], sentence: str) -> None:
    done = profile(*arguments, "--", "true")
    assert done.returncode == 125
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_timeframe_too_short_is_refused(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"), frame="99ms")
    done = profile("--contract", contract, "--", "true")
    assert done.returncode == 125
    assert "the contract's timeframe of 99ms is too short" in done.stderr


def test_a_log_that_does_not_fit_is_told_after_the_report(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, writes(tmp_path, "count", "0"))
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=4k", "tmpfs") as small:
        (small / "full").write_bytes(bytes(4096))
        command = bursts(tmp_path, 5, 0.3, 1, 1)
        done = profile("--contract", contract, "--log", small / "log", "--", *command)
    assert (done.returncode, done.stdout) == (125, "10\n")
    assert "10 write calls" in done.stderr
    assert done.stderr.splitlines()[-2] == (
        "writewise: the log cannot be written: No space left on device"
    )
