# SPDX-License-Identifier: Apache-2.0
"""The textfile, read by a real node_exporter."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import MetricValue
from profiler.metrics.textfile import write_textfile

PROGRAM = shutil.which("prometheus-node-exporter")


@pytest.mark.skipif(PROGRAM is None, reason="no node_exporter here: tools/setup test")
def test_it_shows_the_last_pull(tmp_path) -> None:
    write_textfile(
        tmp_path / "writewise.prom",
        [MetricValue(each, 12.5 + at) for at, each in enumerate(metrics.OF_A_BATCH)],
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    process = subprocess.Popen(
        [
            str(PROGRAM),
            f"--web.listen-address={address}",
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={tmp_path}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        text = answer_of(f"http://{address}/metrics")
    finally:
        process.terminate()
        process.wait(20)
    for at, each in enumerate(metrics.OF_A_BATCH):
        assert f"\n{each.name} {12.5 + at}\n" in text
    assert "\nnode_textfile_scrape_error 0\n" in text


def answer_of(url: str) -> str:
    """Return what it answers once it listens."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.read().decode()
        except urllib.error.URLError:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
