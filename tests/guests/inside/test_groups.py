"""Control groups of version 2 as containers have them: a cap on writes, a limit on memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guests.inside.volumes import MIB, NVME, TIMEOUT_S, formatted
from tests.root.labs import writewise

RATE_BYTES_PER_S = 4 * MIB
LIMIT_BYTES = 256 * MIB
BURST_BYTES = 160 * MIB


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    with formatted(NVME, tmp_path / "volume") as mounted:
        yield mounted


def in_scope(*properties: str) -> tuple[str, ...]:
    """Return the words that run what follows in a scope of systemd's, as a container is."""
    options = [word for each in properties for word in ("-p", each)]
    return ("systemd-run", "--scope", "--quiet", "--collect", *options, "--")


def test_writers_that_io_max_holds_back_wait_for_the_device(target: Path) -> None:
    size = 20 * MIB
    cap = f"IOWriteBandwidthMax={NVME} {RATE_BYTES_PER_S}"
    writer = ("dd", "if=/dev/zero", f"of={target}/file", "bs=1M", f"count={size // MIB}")
    done = writewise(
        *("profile", "--json", "--", *in_scope(cap), *writer, "oflag=direct"), timeout=TIMEOUT_S
    )
    document = json.loads(done.stdout)
    assert document["why"]["cause"] == "waiting for the device"
    split = {each["cause"]: each["time_ns"] for each in document["why"]["split"]}
    assert split["waiting for the device"] >= 0.7e9 * size / RATE_BYTES_PER_S
    [written] = [each for each in document["findings"] if each["label"] == "total_write"]
    assert written["bytes"] >= size


SCRIPT = """
tracepoint:writeback:balance_dirty_pages /comm == "dd"/ {
    @freerun_pages = min(2 * args->setpoint - args->limit); @dirty_pages = max(args->dirty);
}
"""
