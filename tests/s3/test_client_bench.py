# SPDX-License-Identifier: Apache-2.0
"""`writewise bench-clients` with real pulls from our server, from end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from profiler.cli.main import main
from profiler.requirements import Requirement, checks
from profiler.requirements.checks import CheckResult
from sysctl.host.host import WRITER, Host

KIB = 1024


@pytest.fixture(autouse=True)
def no_probes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run as without root, because stalls are not compared here; do not take the host's lock."""
    monkeypatch.setattr("os.sync", lambda: None)  # of the whole host, regardless of its load
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    absent = Requirement("root", "probes", lambda _: CheckResult("", "there is no root"))
    monkeypatch.setattr(
        "profiler.requirements.ALL", (absent, Requirement("boto3", "", checks.boto3))
    )


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(
        "[{name: own-20x64KiB, what: mine, objects: 20, size: 64KiB, distinct: 2, workers: 1,"
        " first_byte_latency: 5ms, rate_per_connection: 90MB}]"
    )
    return str(path)


def test_two_clients_pull_a_workload_in_turns(
    workload: str, destination: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"bench-clients {destination} --workload {workload} --clients direct,boto3 --pulls 1"
    assert main([*words.split(), "--json", "--markdown", f"{tmp_path}/table.md"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    (row,) = document["rows"]
    assert (row["objects"], row["bytes"]) == (20, 20 * 64 * KIB)
    shape = {"first_byte_latency_ns": 5_000_000, "rate_bytes_per_s": 90_000_000}
    assert (row["workers"], row["server_shape"]) == (1, shape)
    direct, boto3 = row["clients"]
    for client in (direct, boto3):
        assert [pull["round"] for pull in client["pulls"]] == [1]
        assert client["peak_rss_bytes"] > 20 * KIB * KIB
        assert client["cpu_s_per_gib"] > 0 and client["server_cpu_s_per_gib"] >= 0
        assert client["stalled_share"] is None
    assert boto3["time_s"] > 20 * 0.005 > 0  # one after the other, two requests each
    assert direct["ratio_to_default"]["estimate"] == 1
    assert boto3["ratio_to_default"]["pairs"] == 1
    assert document["context"]["no_stalls"] == "there is no root"
    plan, first, *others = err.splitlines()
    assert plan.startswith("1 row, each pulled by direct, boto3 in turns: 4 pulls; ")
    assert first.startswith("own-20x64KiB  warm-up  direct: ")
    assert len(others) == 3
    assert "| boto3 |" in (tmp_path / "table.md").read_text()
    assert list(destination.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can take the lock of sweep")
def test_a_second_measurement_at_the_same_time_is_refused(
    workload: str, destination: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"bench-clients {destination} --workload {workload} --clients direct"
    with Host.lasting(WRITER, "sweep of /data"):
        assert main(words.split()) == 1
    assert "another writewise is running on this host: sweep of /data" in capsys.readouterr().err
