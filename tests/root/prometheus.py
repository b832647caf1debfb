# SPDX-License-Identifier: Apache-2.0
"""A running `writewise watch`, a real Prometheus that scrapes it, and what they answer."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

import profiler.metrics
from tests.root.hosts import SLOWNESS
from tests.root.labs import command

ALERTS = Path(profiler.metrics.__file__).parent / "shipped/alerts.yml"
#: Labels and their values → value, by name of the series.
Scraped = dict[tuple[str, frozenset[tuple[str, str]]], float]


def free_port() -> int:
    """Return a port of the loopback address that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def watching(*options: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `writewise watch` from when it serves metrics; yield it and its port."""
    port = free_port()
    words = command("watch", *options, "--listen", f"127.0.0.1:{port}")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while line := process.stdout.readline():
            if line.startswith("metrics are at"):
                break
        else:
            raise AssertionError(process.communicate()[1])
        yield process, port
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def get(url: str) -> str:
    """Return what a server of this host answers."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def scrape(port: int) -> Scraped:
    """Return the values of a scrape."""
    text = get(f"http://127.0.0.1:{port}/metrics")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(scraped: Scraped, name: str, **labels: str) -> float:
    """Return one value; without labels that of the series that has none."""
    return scraped[f"writewise_{name}", frozenset(labels.items())]


@contextlib.contextmanager
def prometheus(folder: Path, targets: dict[str, int], interval: str = "1s") -> Iterator[str]:
    """Run Prometheus with the shipped alerts; `targets` are jobs and ports. Yield its URL.

    `interval` is that of scrapes and of the rules.
    """
    port = free_port()
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
        for name, target in targets.items()
    ]
    config = folder / "prometheus.json"  # JSON is YAML, too
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": interval, "evaluation_interval": interval},
                "rule_files": [str(ALERTS)],
                "scrape_configs": jobs,
            }
        )
    )
    words = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    url = f"http://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
        try:
            wait_for(lambda: "Ready" in get(f"{url}/-/ready"), 30 * SLOWNESS)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def wait_for(is_true: Any, seconds: float) -> Any:
    """Return the first true result; fail after some time. A server may not answer yet."""
    deadline_s = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            found = is_true()
            if found:
                return found
        assert time.monotonic() < deadline_s, "it did not come in time"
        time.sleep(0.2)


def query(url: str, expression: str) -> list[tuple[dict[str, str], float]]:
    """Return labels and value of each series that Prometheus finds now."""
    words = urllib.parse.urlencode({"query": expression})
    document = json.loads(get(f"{url}/api/v1/query?{words}"))
    assert document["status"] == "success", document
    return [(each["metric"], float(each["value"][1])) for each in document["data"]["result"]]
