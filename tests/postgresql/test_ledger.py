# SPDX-License-Identifier: Apache-2.0
"""The ledger on a real PostgreSQL: distinct claims, lost claims, late results, forged entries."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.shared.errors import UsageError
from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger, LedgerError, UnreachableError, studies
from sysctl.fleet.claims import Claim, ClaimKind, ClaimState, Finished, next_claim
from sysctl.fleet.spec import StudySpec
from tests.unit.sysctl.fleet.studies import PRESENT, run

GRACE_S = 2
#: 96 candidates: ratios from 21 to 44, four background ratios each.
VALUES = {
    "vm.dirty_ratio": tuple(range(21, 45)),
    "vm.dirty_background_ratio": (3, 5, 7, 9),
}
CLASS = "m5.large_unknown_xfs_6.1_cgroup2_unlimited_direct_0123456789abcdef"


@pytest.fixture
def made(server, request):
    """A study of its own, with a function that returns another connection to it."""
    name = request.node.name.replace("_", "-")[:50].lower()
    spec = StudySpec(name, CLASS, VALUES, PRESENT, nodes=3)
    opened = []

    def connect():
        opened.append(Ledger(parse_address(server.url()), name, 1, GRACE_S))
        return opened[-1]

    connect().create(spec)
    yield spec, connect
    for each in opened:
        each.close()


def claim_next(ledger, spec, node):
    return ledger.claim(
        lambda records: next_claim(spec, records, node),
        lambda due: due if isinstance(due, Claim) else None,
    )


def only_claim(ledger, spec, node="n0"):
    due, trial_id = claim_next(ledger, spec, node)
    assert isinstance(due, Claim)
    return due, trial_id


def test_eight_workers_claim_each_of_96_candidates_once(made):
    spec, connect = made

    def work(node):
        ledger = connect()
        claimed: list = []
        while len(claimed) < len(spec.candidates):
            due, trial_id = claim_next(ledger, spec, node)
            if not isinstance(due, Claim) or due.kind is not ClaimKind.SEARCH:
                break
            claimed.append(due.settings[0])
            ledger.tell(trial_id, due, slower(due))
        return claimed

    with ThreadPoolExecutor(8) as pool:
        claimed = [each for found in pool.map(work, [f"n{n}" for n in range(8)]) for each in found]
    assert len(claimed) == len(set(claimed)) == len(spec.candidates) == 96


def slower(claim):
    """Return runs in which the candidate is a little slower, so that nothing is compared."""
    return (run(0, 20.0), run(1, 21.0))


def test_a_claim_without_heartbeats_is_free_again_after_the_grace(made):
    spec, connect = made
    ledger, other = connect(), connect()
    lost, _ = only_claim(ledger, spec)
    began_s = time.monotonic()
    while other.records()[0].state is ClaimState.RUNNING:
        other.fail_stale()
        time.sleep(0.2)
        assert time.monotonic() - began_s < GRACE_S + 5
    assert time.monotonic() - began_s >= GRACE_S - 1
    again, _ = only_claim(other, spec, "n1")
    assert again.settings == lost.settings


def test_heartbeats_keep_a_claim(made):
    spec, connect = made
    ledger, other = connect(), connect()
    _, trial_id = only_claim(ledger, spec)
    for _ in range(2 * GRACE_S * 2):
        ledger.beat(trial_id)
        other.fail_stale()
        time.sleep(0.5)
    assert other.records()[0].state is ClaimState.RUNNING


def test_a_claim_that_never_had_a_heartbeat_becomes_free_too(made, server):
    spec, connect = made
    ledger, other = connect(), connect()
    _, trial_id = only_claim(ledger, spec)
    server.sql(f"DELETE FROM trial_heartbeats WHERE trial_id = {trial_id}")
    until_s = time.monotonic() + GRACE_S + 5
    while other.records()[0].state is ClaimState.RUNNING and time.monotonic() < until_s:
        other.fail_stale()
        time.sleep(0.2)
    assert other.records()[0].state is ClaimState.LOST


def test_a_late_result_is_kept_once(made):
    spec, connect = made
    ledger, other = connect(), connect()
    claim, trial_id = only_claim(ledger, spec)
    other.lose(trial_id)
    runs = slower(claim)
    assert ledger.tell(trial_id, claim, runs) is False
    assert ledger.tell(trial_id, claim, runs) is False
    assert not other.adopt(claim, runs)
    kept = [record for record in other.records() if record.state is ClaimState.TOLD]
    assert [record.claim.key for record in kept] == [claim.key]
    assert kept[0].is_late


def test_a_result_that_is_told_twice_is_there_once(made):
    spec, connect = made
    ledger = connect()
    claim, trial_id = only_claim(ledger, spec)
    assert ledger.tell(trial_id, claim, slower(claim)) is True
    ledger.tell(trial_id, claim, slower(claim))
    assert [record.state for record in connect().records()] == [ClaimState.TOLD]


def test_a_claim_whose_lock_was_lost_is_given_back(made, server):
    spec, connect = made
    ledger = connect()

    def choose_and_lose_the_lock(records):
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        return next_claim(spec, records, "n0")

    with pytest.raises(UnreachableError):
        ledger.claim(choose_and_lose_the_lock, lambda due: due)
    assert ClaimState.RUNNING not in {record.state for record in connect().records()}


def test_a_forged_id_hides_no_claim(made, server):
    spec, connect = made
    ledger, other = connect(), connect()
    claim, trial_id = only_claim(ledger, spec)
    ledger.tell(trial_id, claim, slower(claim))
    server.sql(
        f"INSERT INTO trials (trial_id, number, study_id, state) SELECT {2**31 - 1}, 999, "
        f"study_id, 'COMPLETE' FROM studies WHERE study_name = '{spec.name}'"
    )
    assert len(ledger.records()) == len(other.records()) == 1
    claims = [only_claim(each, spec, "n0")[0] for each in (ledger, other, ledger)]
    server.sql(f"DELETE FROM trials WHERE trial_id = {2**31 - 1}")
    assert len({each.settings for each in (claim, *claims)}) == 4


def forge(server, name, attributes, state="COMPLETE"):
    """Insert a trial as someone with the role of a node could."""
    values = "".join(
        f"INSERT INTO trial_user_attributes (trial_id, key, value_json) "
        f"SELECT max(trial_id), '{key}', $j${json.dumps(value)}$j$ FROM trials;"
        for key, value in attributes.items()
    )
    server.sql(
        f"INSERT INTO trials (number, study_id, state) SELECT 999, study_id, '{state}' "
        f"FROM studies WHERE study_name = '{name}'; {values}"
    )


def test_forged_claims_are_counted_and_never_used(made, server):
    spec, connect = made
    evil = {"kind": "block", "node": "x", "replicate": 0, "attempt": 1}
    for settings in ([{"kernel.core_pattern": 1}], [{"vm.dirty_ratio": 100000}], "x", [], None):
        forge(server, spec.name, {"claim": {**evil, "settings": settings}, "runs": []})
    forge(server, spec.name, {"claim": {**evil, "settings": [{"vm.dirty_ratio": 100}]}}, "RUNNING")
    ledger = connect()
    assert [record.claim.settings[0].values for record in ledger.records()] == [
        {"vm.dirty_ratio": 100}
    ]
    assert ledger.broken == 5
    due = next_claim(spec, ledger.records(), "n0")
    # the one that can be read is no candidate, so it is never measured: the study is searched anew
    assert isinstance(due, (Claim, Finished))
    if isinstance(due, Claim):
        assert set(due.settings) <= set(spec.candidates)


def test_a_forged_study_is_refused(made, server):
    spec, connect = made
    document = {**spec.to_json(), "values": {"kernel.core_pattern": [1]}}
    server.sql(
        f"UPDATE study_user_attributes SET value_json = $j${json.dumps(document)}$j$ "
        f"WHERE study_id = (SELECT study_id FROM studies WHERE study_name = '{spec.name}')"
    )
    with pytest.raises(LedgerError, match="refused"):
        connect().spec()


def test_studies_are_listed_and_a_name_is_taken_once(made, server):
    spec, connect = made
    assert spec.name in studies(parse_address(server.url()))
    assert connect().spec() == spec
    with pytest.raises(UsageError, match="exists"):
        connect().create(spec)
    with pytest.raises(UsageError, match="no study"):
        Ledger(parse_address(server.url()), "another").spec()


def test_a_server_that_is_not_there_is_named_without_a_traceback(tmp_path):
    ledger = Ledger(parse_address(f"postgresql://writewise@/study?host={tmp_path}"), "x")
    with pytest.raises(UnreachableError, match="cannot be used"):
        ledger.spec()


def test_waiting_for_the_lock_is_fair_enough_for_many_threads(made):
    spec, connect = made
    ledgers = [connect() for _ in range(6)]
    barrier, found = threading.Barrier(6), []

    def claim(at):
        barrier.wait()
        found.append(only_claim(ledgers[at], spec, f"n{at}")[0].settings[0])

    threads = [threading.Thread(target=claim, args=(at,)) for at in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(set(found)) == 6
