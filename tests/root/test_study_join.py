# SPDX-License-Identifier: Apache-2.0
"""`writewise study join` on this host: a lab's volume, real pulls and sysctls, a real ledger."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.lab import lab
from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger
from sysctl.fleet.claims import ClaimKind, ClaimState, Record
from sysctl.fleet.summary import ratios_of
from sysctl.host.host import Host
from sysctl.host.sysctls import read_writeback
from tests.postgresql.server import Server, running
from tests.root.labs import (
    MIB,
    SMALL,
    SYSTEM,
    assert_as,
    endpoint_arguments,
    guarded,
    host_state,
    start,
    wait_until,
    writewise,
)

#: Thresholds with which the writers of a pull of 32 MiB wait.
PRESENT = {"vm.dirty_bytes": 8 * MIB, "vm.dirty_background_bytes": 4 * MIB}
HIGH = 256 * MIB


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture
def throttled(tmp_path) -> Iterator[lab.Lab]:
    """A slow lab with settings that make its writers wait; a separate journal restores them."""
    with (
        guarded(tmp_path),
        lab.running(replace(SMALL, rate_bytes_per_s=24 * MIB)) as slow,
        Host.exclusive("throttled", "test") as host,
    ):
        host.set_writeback(PRESENT)
        yield slow


@pytest.fixture
def joined(server, throttled, tmp_path):
    """The words of `study join` for a study of this host's class."""
    (tmp_path / "results").mkdir()
    words = [*(throttled.source, throttled.destination, *endpoint_arguments(throttled))]
    words += ["--results", str(tmp_path / "results"), "--max-at-risk", "300MiB"]
    present = ",".join(f"{name}={value}" for name, value in PRESENT.items())
    values = ["--dirty-bytes", HIGH, "--dirty-background-bytes", "4MiB", "--present", present]

    def create(name: str, class_key: str, *more: object) -> list[str]:
        asked = ["--class", class_key, *values, *more]
        made = writewise("study", "create", server.url(), "--study", name, *asked)
        assert made.returncode == 0, made.stderr
        return ["study", "join", server.url(), "--study", name, *words]

    def with_class(name: str, *more: object) -> list[str]:
        probe = create(f"{name}-probe", "any")
        looked = writewise(*probe, "--dry-run", "--json")
        assert looked.returncode == 0, looked.stderr
        found = json.loads(looked.stdout)
        assert "the study of any" in found["problem"]
        return create(name, found["class_key"], *more)

    return with_class


def records_of(server: Server, name: str) -> list[Record]:
    ledger = Ledger(parse_address(server.url()), name)
    found = ledger.records()
    ledger.close()
    return found


def test_a_node_measures_its_blocks_and_leaves_the_host_as_it_was(server, joined, tmp_path):
    words = joined("whole", "--blocks", "1")
    before = host_state()
    done = writewise(*words, timeout=180)
    assert done.returncode == 0, done.stderr
    assert_as(before)
    assert "this node has measured all its blocks" in done.stdout
    (record,) = records_of(server, "whole")
    assert f"measured as node {record.claim.node}: " in done.stdout
    assert record.claim.kind is ClaimKind.BLOCK and record.state is ClaimState.TOLD
    ratios = ratios_of(record.runs, 1)
    assert len(ratios) == 2 and max(ratios) < 0.8, "higher thresholds are faster"
    (result,) = Path(tmp_path, "results").rglob("*.json")
    document = json.loads(result.read_text())
    assert len(document["trials"]) >= 5
    assert "destination" not in json.dumps(document["class"])
    advice = writewise("study", "advise", server.url(), "--study", "whole")
    assert "too few for an estimate" in advice.stdout
    again = writewise(*words, timeout=180)
    assert "0 claims measured" in again.stdout


def test_sigterm_restores_the_host_and_gives_the_claim_back(server, joined):
    words = joined("stopped")
    before = host_state()
    with start(*words) as node:
        assert wait_until(lambda: read_writeback(SYSTEM)["vm.dirty_bytes"] == HIGH, 60)
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=60)
    assert_as(before)
    assert [record.state for record in records_of(server, "stopped")] == [ClaimState.LOST]


def test_a_setting_beyond_the_nodes_limit_is_never_applied(server, joined):
    words = joined("refused")
    before = host_state()
    limited = [word if word != "300MiB" else "200MiB" for word in words]
    done = writewise(*limited, timeout=120)
    assert done.returncode != 0
    assert "this node refuses every setting of the study" in done.stderr
    assert_as(before)
    assert records_of(server, "refused") == []


def test_a_node_of_another_class_or_with_other_settings_does_not_take_part(server, joined):
    words = joined("other")
    with Host.exclusive("other-settings", "test") as host:
        host.set_writeback({"vm.dirty_bytes": 16 * MIB})
        done = writewise(*words, timeout=120)
    assert done.returncode == 2
    assert "other current settings" in done.stderr
    assert records_of(server, "other") == []
