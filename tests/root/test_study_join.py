# SPDX-License-Identifier: Apache-2.0
"""`writewise study join` on this host: a lab's volume, real pulls and sysctls, a real ledger."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysctl.fleet.claims import ClaimKind, ClaimState
from sysctl.fleet.summary import ratios_of
from sysctl.host.host import Host
from sysctl.host.sysctls import read_writeback
from tests.postgresql.server import Server, running
from tests.root.joining import HIGH, Studies, throttled_lab
from tests.root.labs import MIB, SYSTEM, assert_as, host_state, start, wait_until, writewise


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture
def studies(server: Server, tmp_path: Path) -> Iterator[Studies]:
    with throttled_lab(tmp_path) as throttled:
        yield Studies(server, throttled, tmp_path)


def test_a_node_measures_its_blocks_and_leaves_the_host_as_it_was(server, studies, tmp_path):
    words = studies.create("whole", "--blocks", "1")
    before = host_state()
    done = writewise(*words, timeout=180)
    assert done.returncode == 0, done.stderr
    assert_as(before)
    assert "this node has measured all its blocks" in done.stdout
    (record,) = studies.records("whole")
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


def test_sigterm_restores_the_host_and_gives_the_claim_back(studies):
    words = studies.create("stopped")
    before = host_state()
    with start(*words) as node:
        assert wait_until(lambda: read_writeback(SYSTEM)["vm.dirty_bytes"] == HIGH, 60)
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=60)
    assert_as(before)
    assert [record.state for record in studies.records("stopped")] == [ClaimState.LOST]


def test_a_setting_beyond_the_nodes_limit_is_never_applied(studies):
    words = studies.create("refused")
    before = host_state()
    limited = [word if word != "300MiB" else "200MiB" for word in words]
    done = writewise(*limited, timeout=120)
    assert done.returncode != 0
    assert "this node refuses every setting of the study" in done.stderr
    assert_as(before)
    assert studies.records("refused") == []


def test_a_node_of_another_class_or_with_other_settings_does_not_take_part(studies):
    words = studies.create("other")
    with Host.exclusive("other-settings", "test") as host:
        host.set_writeback({"vm.dirty_bytes": 16 * MIB})
        done = writewise(*words, timeout=120)
    assert done.returncode == 2
    assert "other current settings" in done.stderr
    assert studies.records("other") == []
