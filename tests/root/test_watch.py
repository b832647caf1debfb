# SPDX-License-Identifier: Apache-2.0
"""`writewise watch` on the real kernel: a stall of the lab, seen through a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.loading import load_contract
from profiler.bpf.disks import devices_of
from profiler.bpf.session import ProfileSession
from profiler.bpf.stall_session import StallSession
from profiler.lab import lab
from profiler.metrics.definitions import most_series
from tests.root.governing import (
    RATE_MIB_PER_S,
    SIZE_MIB,
    burst,
    throttled_lab,
    without_dirty_pages,
)
from tests.root.labs import MIB, command, endpoint_arguments, writewise
from tests.root.prometheus import prometheus, query, scrape, value, wait_for, watching


@pytest.fixture(scope="module")
def throttling_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A capped volume, on a host whose own thresholds are small."""
    with throttled_lab(tmp_path_factory.mktemp("watch")) as present:
        yield present


@pytest.fixture
def present(throttling_host: lab.Lab) -> Iterator[lab.Lab]:
    """The same, without dirty pages before and after the test."""
    with without_dirty_pages(throttling_host) as present:
        yield present


def stall(present: lab.Lab) -> dict[str, float]:
    """Write faster than the volume; return what the writer measured."""
    return burst(Path(present.destination, "burst"), SIZE_MIB, RATE_MIB_PER_S)


def sectors_written(disk: str) -> int:
    """Return the kernel's own count (Documentation/block/stat.rst)."""
    return int(Path(f"/sys/block/{disk}/stat").read_text().split()[6])


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: tools/setup test")
def test_prometheus_shows_the_stall_and_the_calls_of_its_time(
    present: lab.Lab, tmp_path: Path
) -> None:
    [disk] = devices_of([present.destination])
    with (
        watching(present.destination, "--escalate", "30s") as (process, port),
        prometheus(tmp_path, {"writewise": port}) as url,
    ):
        wait_for(lambda: query(url, "writewise_up == 1"), 20)
        before, sectors = scrape(port), sectors_written(disk.name)
        assert value(before, "call_probes_attached") == 0
        first = stall(present)
        wait_for(lambda: query(url, "writewise_call_probes_attached == 1"), 10)
        Path(present.destination, "burst").rename(Path(present.destination, "burst1"))
        stall(present)
        subprocess.run(["sync", "-f", present.destination], check=True)
        after, written = scrape(port), (sectors_written(disk.name) - sectors) * 512
        time.sleep(2.5)  # two scrapes
        [(labels, seconds)] = query(url, "increase(writewise_throttle_seconds_total[1m])")
        [(_, above)] = query(url, "increase(writewise_above_freerun_seconds_total[1m])")
        [(_, throttled)] = query(
            url, 'sum(writewise_call_time_seconds_total{cause="throttling", call="write"})'
        )
        [(_, up)] = query(url, 'up{job="writewise"}')
        assert query(url, "ALERTS{alertname='WritewiseDown'}") == []
        process.send_signal(signal.SIGTERM)
        text, errors = process.communicate(timeout=30)
    assert (process.returncode, errors, up) == (0, "", 1)
    assert "writers are throttled: calls are counted for a while" in text
    assert labels["job"] == "writewise"
    assert seconds > first["return_s"] / 2
    assert above > 1
    assert throttled > 0.5
    counted = value(after, "disk_written_bytes_total", device=disk.name)
    assert counted - value(before, "disk_written_bytes_total", device=disk.name) == written
    assert written >= 2 * SIZE_MIB * MIB
    assert len(after) <= most_series(slots=1, disks=1, rules=3, governed=True)


def test_throttling_is_counted_as_by_a_profile(present: lab.Lab) -> None:
    with (
        StallSession(devices_of([present.destination])) as stalls,
        ProfileSession(load_contract(None), host_wide=True) as session,
    ):
        session.reset()
        before = stalls.throttled()
        stall(present)
        counted, after = session.snapshot().stall, stalls.throttled()
        assert stalls.runs_missed() == 0
    assert after.pauses - before.pauses == counted.pauses > 0
    assert after.planned_ns - before.planned_ns == counted.planned_ns


def test_level_calls_counts_every_write_of_the_contract(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(
        f"timeframe: 1s\nrules:\n- {{label: few, path: {tmp_path}, calls: write, "
        "measure: count, threshold: 10}\n"
    )
    labels = {"call": "write", "path": str(tmp_path), "sizes": "all"}
    with watching("--level", "calls", "--contract", contract) as (_, port):
        with (tmp_path / "file").open("wb", buffering=0) as file:
            for _ in range(1000):
                file.write(b"x" * 100)
        found = scrape(port)
        assert value(found, "call_bytes_total", **labels) == 100_000
        assert value(found, "call_duration_seconds_count", **labels) == 1000

        def violated() -> bool:
            return value(scrape(port), "contract_violated_timeframes_total", rule="few") >= 1

        wait_for(violated, 5)
        assert value(scrape(port), "call_bytes_total", **labels) == 100_000


def test_a_pull_leaves_its_times_for_the_node_exporter(present: lab.Lab, tmp_path: Path) -> None:
    file = tmp_path / "writewise.prom"
    options = (*endpoint_arguments(present), "--metrics-textfile", file)
    done = writewise("pull", present.source, present.destination, "--json", *options)
    assert done.returncode == 0, done.stderr
    times = json.loads(done.stdout)
    text = file.read_text()
    for name in ("return", "durable"):
        found = re.search(rf"^writewise_last_pull_{name}_seconds (\S+)$", text, re.M)
        assert found is not None
        assert float(found[1]) == pytest.approx(times[f"{name}_s"], abs=0.01)
    again = writewise("pull", present.source, present.destination, *options)
    assert again.returncode == 0
    assert file.read_text() == text  # nothing was pulled


def test_a_port_in_use_costs_a_sentence_and_measuring_goes_on() -> None:
    with watching() as (_, port):
        words = ["--listen", f"127.0.0.1:{port}"]
        second = subprocess.Popen(
            command("watch", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        lines = [second.stdout.readline(), second.stdout.readline()]
        time.sleep(1.5)
        assert second.poll() is None
        second.terminate()
        _, errors = second.communicate(timeout=20)
    assert "Address already in use; measuring continues" in lines[1]
    assert (second.returncode, errors) == (0, "")
