# SPDX-License-Identifier: Apache-2.0
"""Nodes that are killed, a server that crashes, a network that is cut: nothing is lost or doubled.

Each node is a process with the real worker, ledger, store and journal; its host is a directory.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sysctl.fleet.claims import ClaimKind, ClaimState, Record
from sysctl.fleet.class_advice import advise_class
from sysctl.fleet.spec import StudySpec
from tests.postgresql.fleet import Cable, Fleet, fleet_of, until
from tests.postgresql.node import GRACE_S, PRESENT
from tests.postgresql.test_ledger import CLASS

SPEC = StudySpec(
    "nodes",
    CLASS,
    {"vm.dirty_ratio": (20, 40, 60, 80), "vm.dirty_background_ratio": (5, 10)},
    PRESENT,
    nodes=3,
)


def running_of(fleet: Fleet, node: str) -> list[Record]:
    records = fleet.ledger.records()
    return [r for r in records if r.claim.node == node and r.state is ClaimState.RUNNING]


def test_three_nodes_finish_a_study(server, tmp_path):
    with fleet_of(server, replace(SPEC, name="finish"), tmp_path) as fleet:
        for at in range(3):
            fleet.start(f"n{at}")
        fleet.wait()
        assert fleet.problems() == []
        advice = advise_class(fleet.spec, fleet.ledger.records())
        assert advice.is_complete
        assert advice.nodes == ("n0", "n1", "n2")
        search = [r for r in fleet.told() if r.claim.kind is ClaimKind.SEARCH]
        assert len(search) == len(SPEC.candidates)


def test_a_killed_node_leaves_nothing_and_its_claim_is_free_again(server, tmp_path):
    with fleet_of(server, replace(SPEC, name="killed"), tmp_path, seconds=1.0) as fleet:
        fleet.start("n0")
        until(lambda: fleet.is_changed("n0") if (tmp_path / "n0/root").exists() else False)
        (claim,) = running_of(fleet, "n0")
        fleet.kill("n0")
        assert fleet.is_changed("n0")
        freed_s = until(lambda: fleet.ledger.fail_stale() or not running_of(fleet, "n0"))
        assert freed_s <= GRACE_S + 5
        for at in range(3):
            fleet.start(f"n{at}")  # n0 restores its host first
        fleet.wait()
        assert fleet.problems() == []
        again = [r.claim for r in fleet.told() if r.claim.settings == claim.claim.settings]
        assert again


def test_a_node_that_starts_again_gives_its_claim_back_at_once(server, tmp_path):
    with fleet_of(server, replace(SPEC, name="again", nodes=3), tmp_path, seconds=2.0) as fleet:
        fleet.start("n0")
        until(lambda: bool(running_of(fleet, "n0")))
        (lost,) = running_of(fleet, "n0")
        fleet.kill("n0")
        fleet.start("n0")

        def is_lost():
            states = {r.claim.key: r.state for r in fleet.ledger.records()}
            return states[lost.claim.key] is ClaimState.LOST

        until(is_lost)  # the test itself frees nothing
        fleet.kill("n0")


def test_a_crash_of_the_server_leaves_no_host_changed_and_loses_no_result(server, tmp_path):
    with fleet_of(server, replace(SPEC, name="crash"), tmp_path, seconds=0.5) as fleet:
        for at in range(3):
            fleet.start(f"n{at}")
        until(lambda: len(fleet.told()) >= 2)
        server.crash()
        time.sleep(3)  # longer than a claim
        during = [fleet.is_changed(node) for node in fleet.processes]
        server.start()
        assert during == [False] * 3
        fleet.wait()
        assert fleet.problems() == []
        assert advise_class(fleet.spec, fleet.ledger.records()).is_complete


def test_a_node_that_is_cut_off_keeps_its_result_and_tells_it_late(server, tmp_path):
    cable = Cable(server, server.folder / "cable")  # a short path: sun_path has 108 bytes
    spec = replace(SPEC, name="cut")
    try:
        with fleet_of(server, spec, tmp_path / "fleet", seconds=1.5) as fleet:
            fleet.start("n0", cable.folder)
            until(lambda: fleet.is_changed("n0"))  # before it, the claim may still be given back
            (cut_off,) = running_of(fleet, "n0")
            cable.cut()
            fleet.start("n1")
            fleet.start("n2")
            time.sleep(2 * GRACE_S)
            until(lambda: not running_of(fleet, "n0"))
            assert not fleet.is_changed("n0")
            cable.mend()
            fleet.wait()
            assert fleet.problems() == []
            (late,) = [r for r in fleet.told() if r.claim.key == cut_off.claim.key]
            assert late.is_late
    finally:
        cable.close()


@pytest.mark.parametrize("keeper", ["node", "store"])
def test_a_result_that_was_never_told_is_adopted(server, tmp_path, keeper):
    """The node was killed after it had kept its result, before or after it was put."""
    spec = replace(SPEC, name=f"untold-{keeper}")
    with fleet_of(server, spec, tmp_path) as fleet:
        kept = tmp_path / "n0/state/studies" / spec.name
        fleet.start("n0")
        until(lambda: len(list(kept.glob("told/*.json"))) >= 1)  # it is told before it moves there
        fleet.kill("n0")
        first = next(kept.glob("told/*.json")).stem
        server.sql(
            "UPDATE trials SET state = 'FAIL' WHERE trial_id IN (SELECT trial_id FROM "
            f"trial_user_attributes WHERE key = 'key' AND value_json LIKE '%{first}%')"
        )
        fleet.ledger = type(fleet.ledger)(fleet.ledger.address, spec.name, 1, GRACE_S)
        if keeper == "node":
            (kept / "told" / f"{first}.json").rename(kept / "pending" / f"{first}.json")
            next((tmp_path / "store").rglob(f"{first}.json")).unlink()
            fleet.start("n0")
        else:
            fleet.start("n1")
        until(lambda: first in {record.claim.key for record in fleet.told()})
        assert [record.claim.key for record in fleet.told()].count(first) == 1
        assert first in fleet.stored()
