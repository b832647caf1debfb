# SPDX-License-Identifier: Apache-2.0
"""The roles of the how-to page: a node can claim and report, and nothing else."""

from __future__ import annotations

import pytest

from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger, LedgerError
from sysctl.fleet.claims import Claim, ClaimState, next_claim
from sysctl.fleet.spec import StudySpec
from tests.postgresql.test_ledger import CLASS, VALUES, slower
from tests.shared_study_page import block
from tests.unit.sysctl.fleet.studies import PRESENT

OWNER, NODE, READER = "writewise_owner", "writewise_node", "writewise_reader"


def ledger_of(server, user, name="roles"):
    url = f"postgresql://{user}@/studies?host={server.socket}"
    return Ledger(parse_address(url), name, 1, 3)


@pytest.fixture(scope="module")
def page(server):
    """The page's statements, in its order: roles, the first study, grants.

    The schema is first made what it is before PostgreSQL 15: an administrator's, and open to all.
    """
    schema = "ALTER SCHEMA public OWNER TO writewise; GRANT CREATE ON SCHEMA public TO PUBLIC"
    server.sql(schema, database="template1")
    server.sql(block("sql roles"))
    spec = StudySpec("roles", CLASS, VALUES, PRESENT)
    ledger_of(server, OWNER).create(spec)
    server.sql(block("sql grants"), OWNER, "studies")
    return spec


def test_a_node_claims_beats_tells_loses_and_adopts(server, page):
    ledger = ledger_of(server, NODE)
    assert ledger.spec() == page
    for at in range(3):
        claim, trial_id = ledger.claim(
            lambda records, at=at: next_claim(page, records, f"n{at}"),
            lambda due: due if isinstance(due, Claim) else None,
        )
        assert isinstance(claim, Claim)
        ledger.beat(trial_id)
        ledger.fail_stale()
        if at == 0:
            assert ledger.tell(trial_id, claim, slower(claim))
        else:
            ledger.lose(trial_id)
    ledger.adopt(claim, slower(claim))
    states = [record.state for record in ledger_of(server, READER).records()]
    assert states == [ClaimState.TOLD, ClaimState.LOST, ClaimState.LOST, ClaimState.TOLD]


FORBIDDEN = [
    "UPDATE study_user_attributes SET value_json = '{}'",
    "INSERT INTO study_user_attributes (study_id, key, value_json) VALUES (1, 'x', '1')",
    "DELETE FROM trials",
    "DELETE FROM studies",
    "TRUNCATE trials CASCADE",
    "DROP TABLE trials",
    "CREATE TABLE x (y int)",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'",
    "UPDATE studies SET study_name = 'x'",
    "UPDATE studies SET study_id = 77",
    "INSERT INTO studies (study_name) VALUES ('x')",
    "UPDATE trials SET study_id = 77",
    "UPDATE version_info SET schema_version = 1",
    "ALTER ROLE writewise_node SUPERUSER",
    "COPY trials TO PROGRAM 'true'",
    "SELECT pg_read_file('/etc/passwd')",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_node_can_do_nothing_else(server, page, statement):
    with pytest.raises(RuntimeError, match="ERROR"):
        server.sql(statement, NODE, "studies")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO trials (study_id, state) VALUES (1, 'RUNNING')",
        "UPDATE trials SET state = 'FAIL'",
        "UPDATE trial_user_attributes SET value_json = '1'",
        *FORBIDDEN,
    ],
)
def test_a_reader_only_reads(server, page, statement):
    with pytest.raises(RuntimeError, match="ERROR"):
        server.sql(statement, READER, "studies")


def test_a_reader_that_claims_is_told_why_not(server, page):
    ledger = ledger_of(server, READER)
    with pytest.raises(LedgerError, match="permission denied"):
        ledger.claim(lambda records: next_claim(page, records, "n9"), lambda due: due)


def test_a_node_cannot_make_a_study(server, page):
    with pytest.raises(LedgerError, match="permission denied"):
        ledger_of(server, NODE, "more").create(StudySpec("more", CLASS, VALUES, PRESENT))


def test_others_cannot_connect(server, page):
    server.sql("CREATE ROLE stranger LOGIN")
    with pytest.raises(RuntimeError, match="permission denied"):
        server.sql("SELECT 1", "stranger", "studies")
