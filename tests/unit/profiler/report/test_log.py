# SPDX-License-Identifier: Apache-2.0
"""Mistral's record: what is written is read back by its rules, whatever the texts hold."""

from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.evaluate import evaluate
from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.shared.errors import UsageError, WritewiseError
from contracts.shared.text import printable
from contracts.shared.units import parse_count, parse_latency_ns, parse_size_bytes
from profiler.bpf.probes.scope import Losses
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSnapshot
from profiler.recording.append_only import open_to_append
from profiler.recording.log_origin import (
    JOB_GROUP_VARIABLES,
    JOB_ID_VARIABLES,
    Origin,
    Volume,
    command_of,
    origin,
    volume_of,
)
from profiler.recording.timeframes import Frame
from profiler.report.log import FIELDS, RecordLog, figure_text, is_record, length_text
from tests.places import REPOSITORY
from tests.unit.contract_strategies import rules, stats_of

SECOND_NS = 10**9
VOLUME = Volume("nfs4", "server:/export", "server")
ORIGIN = Origin("node.example", 42, "dd of=a,b", "group", "job", {"/": VOLUME})


def unescaped(line: str) -> list[str]:
    """The fields as Mistral's plug-ins read them (`line_split_and_unescape`)."""
    fields, characters = [""], iter(line)
    for character in characters:
        if character == ",":
            fields.append("")
        elif character == "\\":
            following = next(characters, "\\")
            fields[-1] += "\n" if following == "n" else following
        else:
            fields[-1] += character
    return fields


def write_rule(measurement: Measurement, threshold: int, label: str = "rule") -> Rule:
    return Rule(label, "/", (CallType.WRITE,), SizeRange(), measurement, threshold)


def frame_of(contract: Contract, elapsed_ns: int = SECOND_NS) -> Frame:
    """Two writes of 1 MB that took 1,501 ns each, counted for every rule."""
    stats = (stats_of([1501, 1501], call_bytes=10**6),) * len(contract.rules)
    snapshot = ProfileSnapshot(stats, Losses(), 0, StallStats(), elapsed_ns)
    at = datetime(2026, 11, 21, 15, 20, 3, 42)
    return Frame(1, 0, at, snapshot, evaluate(contract, stats))


def records(contract: Contract, *frames: Frame, of: Origin = ORIGIN) -> list[dict[str, str]]:
    file = io.StringIO()
    log = RecordLog(file, contract, of, cpu=lambda: 3)
    for frame in frames:
        log(frame)
    lines = file.getvalue().splitlines()
    assert all(map(is_record, lines))
    return [dict(zip(FIELDS, unescaped(line))) for line in lines]


def test_a_record_of_mistral_s() -> None:
    contract = Contract(SECOND_NS, (write_rule(Measurement.BANDWIDTH, 10**6, "total, all"),))
    assert records(contract, frame_of(contract)) == [
        {
            "TIMESTAMP": "2026-11-21T15:20:03.000042",
            "LABEL": "total, all",
            "PATH": "/",
            "FSTYPE": "nfs4",
            "FSNAME": "server:/export",
            "FSHOST": "server",
            "CALL-TYPE": "write",
            "SIZE-RANGE": "all",
            "MEASUREMENT": "bandwidth",
            "MEASURED": "2MB/1s",
            "THRESHOLD": "1MB/1s",
            "HOSTNAME": "node.example",
            "PID": "42",
            "CPU": "3",
            "COMMAND": "dd of=a,b",
            "FILENAME": "",
            "JOB-GROUP-ID": "group",
            "JOB-ID": "job",
            "MPI-RANK": "",
            "SEQUENCE": "1",
        }
    ]


def test_only_leading_violations_are_logged_and_numbered_through_all_frames() -> None:
    limits = (1, 2, 0)
    contract = Contract(
        SECOND_NS, tuple(write_rule(Measurement.COUNT, n, f"over {n}") for n in limits)
    )
    found = records(contract, frame_of(contract), frame_of(contract))
    assert [(each["LABEL"], each["SEQUENCE"]) for each in found] == [
        ("over 1", "1"),
        ("over 1", "2"),
    ]


@pytest.mark.parametrize(
    ("elapsed_ns", "measured"),
    [(SECOND_NS + 999, "2/1s"), (350 * 10**6, "2/350ms"), (350 * 10**6 + 1, "2/350001us")],
)
def test_a_frame_s_measured_time_is_its_own(elapsed_ns: int, measured: str) -> None:
    contract = Contract(SECOND_NS, (write_rule(Measurement.COUNT, 1),))
    (record,) = records(contract, frame_of(contract, elapsed_ns))
    assert (record["MEASURED"], record["THRESHOLD"]) == (measured, "1/1s")


def test_a_time_of_years_is_exact() -> None:
    assert length_text(68_023_617_784_619_001) == "68023617784620us"


def test_a_violation_of_less_than_a_microsecond_does_not_read_as_equal() -> None:
    contract = Contract(SECOND_NS, (write_rule(Measurement.MEAN_LATENCY, 1000),))
    (record,) = records(contract, frame_of(contract))
    assert (record["MEASURED"], record["THRESHOLD"]) == ("2us/1s", "1us/1s")


@given(rules(), st.integers(0, 2**63))
def test_figures_are_exact_and_in_units_of_the_language(rule: Rule, value: int) -> None:
    text = figure_text(rule, value)
    parse = {"size": parse_size_bytes, "count": parse_count, "latency": parse_latency_ns}
    read = parse[rule.measurement.quantity.value](text)
    assert (
        read == value if rule.measurement.quantity.value != "latency" else 0 <= read - value < 1000
    )


@given(*[st.text()] * 3)
def test_any_text_comes_back_printable(command: str, job_id: str, source: str) -> None:
    contract = Contract(SECOND_NS, (write_rule(Measurement.COUNT, 1),))
    texts = replace(
        ORIGIN, command=command, job_id=job_id, volume_of_path={"/": Volume("x", source, "y")}
    )
    (record,) = records(contract, frame_of(contract), of=texts)
    read = record["COMMAND"], record["JOB-ID"], record["FSNAME"]
    wanted = ("\n".join(map(printable, text.split("\n"))) for text in (command, job_id, source))
    assert read == tuple(wanted)
    assert list(record) == list(FIELDS)


class FullDisk(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_ends_the_log_and_is_reported_at_the_end() -> None:
    contract = Contract(SECOND_NS, (write_rule(Measurement.COUNT, 1),))
    log = RecordLog(FullDisk(), contract, ORIGIN)
    log(frame_of(contract))
    log(frame_of(contract))
    with pytest.raises(WritewiseError, match="cannot be written: No space left"):
        log.close()


def test_the_cpu_is_one_of_the_host_s() -> None:
    contract = Contract(SECOND_NS, (write_rule(Measurement.COUNT, 1),))
    file = io.StringIO()
    RecordLog(file, contract, ORIGIN)(frame_of(contract))
    cpu = unescaped(file.getvalue())[FIELDS.index("CPU")]
    assert 0 <= int(cpu) < (os.cpu_count() or 1)


def test_the_docs_have_every_field_and_variable_in_order() -> None:
    text = (REPOSITORY / "docs/reference/profile.md").read_text()
    assert re.findall(r"^\| ([A-Z-]{3,}) \|", text, re.MULTILINE) == list(FIELDS)
    rows = {row.split(" | ")[0]: re.findall(r"`(\w+)`", row) for row in text.split("\n| ")}
    assert rows["JOB-ID"] == list(JOB_ID_VARIABLES)
    assert rows["JOB-GROUP-ID"] == list(JOB_GROUP_VARIABLES)


# Where a record comes from.

MOUNTINFO = """\
22 1 8:1 / / rw - ext4 /dev/root rw
23 22 0:5 / /mnt/a\\040b rw shared:1 - nfs4 fs-1.efs:/x,y rw
24 22 0:6 / /mnt rw - cifs //files/share rw
25 24 0:7 / /mnt/a\\040b rw - xfs /dev/nvme1n1 rw
"""


@pytest.mark.parametrize(
    ("path", "fstype", "source", "host"),
    [
        ("/", "ext4", "/dev/root", "here"),
        ("/mntx", "ext4", "/dev/root", "here"),
        ("/mnt", "cifs", "//files/share", "files"),
        ("/mnt/a b/c", "xfs", "/dev/nvme1n1", "here"),
    ],
)
def test_the_volume_of_a_path(
    tmp_path: Path, path: str, fstype: str, source: str, host: str
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTINFO)
    assert volume_of(path, "here", table) == Volume(fstype, source, host)
    table.write_text("".join(MOUNTINFO.splitlines(keepends=True)[:2]))
    assert volume_of("/mnt/a b", "here", table).host == "fs-1.efs"


def test_the_job_s_ids_are_the_first_that_are_set() -> None:
    environment = {"SLURM_JOB_ID": "7", "AWS_BATCH_JOB_ID": "8", "AWS_BATCH_JQ_NAME": "queue"}
    found = origin(["/"], 5, ["dd", "of=x"], environment=environment)
    assert (found.job_id, found.job_group_id, found.pid, found.command) == (
        "7",
        "queue",
        5,
        "dd of=x",
    )
    assert found.volume_of_path["/"].fstype
    assert origin([], environment={"WRITEWISE_JOB_ID": "mine", **environment}).job_id == "mine"


@pytest.mark.parametrize(
    ("argv", "logged"),
    [
        (["run", "--secret=hunter2"], "run --secret=***"),
        (["run", "--db-password", "hunter2 hunter2", "in"], "run --db-password *** in"),
        (["run", "--API-KEY", "hunter2"], "run --API-KEY ***"),
        (["run", "--session-token=hunter2 hunter2"], "run --session-token=***"),
        (["run", "--no-token", "--verbose"], "run --no-token --verbose"),
        (["env", "AWS_SECRET_ACCESS_KEY=hunter2", "run"], "env AWS_SECRET_ACCESS_KEY=*** run"),
        (
            ["curl", "https://b/k?X-Amz-Signature=hunter2&X-Amz-Credential=hunter2%2Fx&a=1"],
            "curl https://b/k?X-Amz-Signature=***&X-Amz-Credential=***&a=1",
        ),
        (
            ["curl", "https://b/k?Expires=1&Signature=hunter2"],
            "curl https://b/k?Expires=1&Signature=***",
        ),
        (["curl", "https://u:hunter2@host/k"], "curl https://u:***@host/k"),
        (["curl", "https://u:hunt@er2@host/k@2"], "curl https://u:***@host/k@2"),
        (["curl", "https://host:80/k@2"], "curl https://host:80/k@2"),
        (["curl", "-H", "Authorization: Bearer hunter2"], "curl -H Authorization: ***"),
        (["sh", "-c", "curl -H 'authorization:hunter2' x"], "sh -c curl -H 'authorization:***"),
        (["env", "MYSQL_PWD=hunter2", "mysql"], "env MYSQL_PWD=*** mysql"),
        (["gpg", "--passphrase", "hunter2"], "gpg --passphrase ***"),
        (["a", "--credentials=hunter2"], "a --credentials=***"),
        (["sh", "-c", "a --token hunter2; KEY=hunter2 b"], "sh -c a --token *** KEY=*** b"),
        (["dd", "if=/data/monkey", "of=/x"], "dd if=/data/monkey of=/x"),
    ],
)
def test_arguments_with_secret_names_are_not_logged(argv: list[str], logged: str) -> None:
    assert origin(["/"], 1, argv).command == logged
    contract = Contract(SECOND_NS, (write_rule(Measurement.COUNT, 1),))
    (record,) = records(contract, frame_of(contract), of=replace(ORIGIN, command=logged))
    assert (record["COMMAND"], list(record)) == (logged, list(FIELDS))


def test_a_very_long_command_is_masked_quickly() -> None:
    assert len(origin(["/"], 1, ["a" * 2**20] * 10**6).command) == 1405


def test_the_command_of_a_process() -> None:
    assert command_of(os.getpid())
    assert command_of(2**22) == []


# The file.


def is_anything(_: str) -> bool:
    return True


def test_a_log_is_made_and_then_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for text in ("one\n", "two \udc80\n"):
        with open_to_append(str(path), is_anything) as file:
            file.write(text)
            assert path.read_text().endswith("\n")  # each line is out at once
    assert path.read_text() == "one\ntwo \\udc80\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_a_full_disk_has_cut_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthr")
    with open_to_append(str(path), is_anything) as file:
        file.write("three\n")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_a_file_that_is_not_a_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n")
    with pytest.raises(UsageError, match="it is not a log in this format"):
        open_to_append(str(path), is_record)
    assert path.read_text() == "127.0.0.1 localhost\n"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.symlink_to(path.with_name("target")), "symbolic links"),
        (lambda path: path.mkdir(), "directory"),
        (os.mkfifo, "not a regular file"),
        (lambda path: (path.touch(), path.chmod(0o666)), "other users can write"),
        (lambda path: (path.touch(), os.link(path, f"{path}2")), "several names"),
        (lambda path: (path.touch(), os.chown(path, 65534, 65534)), "belongs to another user"),
    ],
)
def test_what_others_may_have_put_there_is_refused(tmp_path, make, problem: str) -> None:
    path = tmp_path / "log"
    if problem == "belongs to another user" and os.geteuid() != 0:
        pytest.skip("only root can give a file away; run as root")
    make(path)
    with pytest.raises(UsageError, match=problem):
        open_to_append(str(path), is_anything)
    assert not (tmp_path / "target").exists()
