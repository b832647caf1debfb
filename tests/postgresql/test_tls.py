# SPDX-License-Identifier: Apache-2.0
"""The ledger over TCP with TLS: who is let in, and what each refusal says.

Everything is real: PostgreSQL on 127.0.0.1, libpq, and certificates of authorities of the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from typing import Any

import pytest

from profiler.cli.main import main
from profiler.shared_study.address import parse_address
from profiler.shared_study.ledger import Ledger
from sysctl.fleet.claims import Claim, ClaimState, next_claim
from tests.postgresql.fleet import fleet_of, until
from tests.postgresql.server import OWNER, running
from tests.postgresql.test_ledger import CLASS, slower
from tests.postgresql.test_nodes import SPEC
from tests.postgresql.tls import TlsServer
from tests.shared_study_page import block

ROLES = "writewise_owner", "writewise_node", "writewise_reader"
PASSWORDS = {"writewise_owner": "hunter2-owner", "writewise_node": "hunter2-node"}
ASKED = ["--class", CLASS, "--dirty-ratio", "20,40,60", "--dirty-background-ratio", "5,10"]


@pytest.fixture(scope="module")
def tls():
    """A server with the page's roles, their passwords, a first study, and the grants."""
    with running(TlsServer) as made:
        made.sql(block("sql roles"))
        made.sql("SET password_encryption = 'scram-sha-256'")
        for role, password in PASSWORDS.items():
            made.sql(f"ALTER ROLE {role} PASSWORD '{password}'")
        socket = f"postgresql://writewise_owner@/studies?host={made.socket}&port={made.port}"
        assert main(["study", "create", socket, "--study", "first", *ASKED]) == 0
        made.sql(block("sql grants"), "writewise_owner", "studies")
        yield made


@pytest.fixture(autouse=True)
def served(tls, tmp_path, monkeypatch):
    """The right certificate, and a user without files or variables of libpq."""
    tls.serve("localhost")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


@pytest.fixture
def passwords(tls, tmp_path, monkeypatch):
    """Name a file with the passwords of the roles."""
    path = tmp_path / "passwords"
    lines = (f"localhost:{tls.port}:*:{role}:{word}\n" for role, word in PASSWORDS.items())
    path.write_text("".join(lines))
    path.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(path))
    return path


def studies_at(tls, role, **more):
    return tls.address(role, "studies", sslrootcert=tls.authority.certificate, **more)


def certified(tls, role, of=None):
    """Return the address of a role with a client certificate."""
    made = tls.authority.issue(of or role)
    return studies_at(tls, role, sslcert=made.certificate, sslkey=made.key)


def refused(url, capsys):
    """Return the sentence and the hint with which a command ends."""
    capsys.readouterr()
    assert main(["study", "status", url, "--study", "any"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err and "hunter2" not in said.err
    sentence, hint = said.err.splitlines()
    assert "cannot be used" in sentence
    return sentence, hint


def claim_one(ledger):
    spec = ledger.spec()
    due, trial_id = ledger.claim(
        lambda records: next_claim(spec, records, "n0"),
        lambda due: due if isinstance(due, Claim) else None,
    )
    assert isinstance(due, Claim)
    return due, trial_id


def test_the_right_authority_is_let_in(tls, capsys):
    """`create`, the claim of `join`, and `status`, each over TLS."""
    url = tls.url()
    assert main(["study", "create", url, "--study", "tls", *ASKED]) == 0
    ledger = Ledger(parse_address(url), "tls", 1, 3)
    due, trial_id = claim_one(ledger)
    ledger.beat(trial_id)
    using = "pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL"
    assert set(tls.sql(f"SELECT ssl, version LIKE 'TLSv1.%' FROM {using}").split()) == {"t|t"}
    assert ledger.tell(trial_id, due, slower(due))
    ledger.close()
    capsys.readouterr()
    assert main(["study", "status", url, "--study", "tls"]) == 0
    assert "study tls: 5 candidates" in capsys.readouterr().out


def test_a_certificate_of_another_name_is_refused(tls, capsys):
    tls.serve("db.example.com")
    sentence, hint = refused(tls.url(), capsys)
    assert '"db.example.com" does not match host name "localhost"' in sentence
    assert "the host name of the server's certificate" in hint


def test_an_authority_that_is_not_the_named_one_is_refused(tls, capsys):
    sentence, hint = refused(tls.address(sslrootcert=tls.other_authority.certificate), capsys)
    assert "certificate verify failed" in sentence
    assert "sslrootcert=FILE" in hint


def test_a_server_without_tls_is_refused(tls, capsys):
    tls.serve(None)
    sentence, hint = refused(tls.url(), capsys)
    assert "server does not support SSL" in sentence
    assert "ssl = on" in hint


def test_without_an_option_the_authority_is_that_of_the_users_file(tls, tmp_path, capsys):
    path = tmp_path / "home/.postgresql/root.crt"
    sentence, hint = refused(tls.address(), capsys)
    assert f'root certificate file "{path}" does not exist' in sentence
    assert "sslrootcert=FILE" in hint
    path.parent.mkdir()
    shutil.copy(tls.authority.certificate, path)
    assert main(["study", "status", tls.address(), "--study", "none"]) == 2
    assert "has no study" in capsys.readouterr().err


def test_the_systems_authorities_are_those_of_a_variable(tls, monkeypatch, capsys):
    url = tls.address(sslrootcert="system")
    assert "certificate verify failed" in refused(url, capsys)[0]
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.authority.certificate))
    assert main(["study", "status", url, "--study", "none"]) == 2
    assert "has no study" in capsys.readouterr().err


def test_a_node_is_let_in_by_password_and_certificate_and_neither_is_shown(
    tls, passwords, tmp_path, capsys
):
    """The page's roles, from `create` to a claim of a real node."""
    spec = replace(SPEC, name="password")
    roles: Any = Roles(tls)
    with fleet_of(roles, spec, tmp_path / "fleet", seconds=2.0) as fleet:
        fleet.start("n0")
        until(lambda: [r for r in fleet.ledger.records() if r.state is ClaimState.RUNNING])
        shown = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True)
        assert f"sslkey={tls.folder}/own/writewise_node.key" in shown.stdout  # the node is there
        activity = tls.sql("SELECT * FROM pg_stat_activity")
        until(lambda: len(fleet.told()) >= 1)
        fleet.kill("n0")
        for text in (shown.stdout, activity, fleet.log("n0"), str(capsys.readouterr())):
            assert not any(word in text for word in PASSWORDS.values())


class Roles:
    """The server as its owner and its nodes reach it."""

    def __init__(self, tls):
        self._tls, self._is_first = tls, True

    def url(self, host=None):
        """Return the owner's address once, to make the study, then that of the nodes."""
        if self._is_first:
            self._is_first = False
            return studies_at(self._tls, "writewise_owner")
        return certified(self._tls, "writewise_node")


def test_a_wrong_password_is_refused_and_not_repeated(tls, passwords, capsys):
    passwords.write_text(passwords.read_text().replace("-owner\n", "-wrong\n"))
    sentence, hint = refused(studies_at(tls, "writewise_owner"), capsys)
    assert 'password authentication failed for user "writewise_owner"' in sentence
    assert "PGPASSFILE" in hint


def test_without_a_password_it_says_where_to_put_it(tls, passwords, monkeypatch, capfd):
    passwords.chmod(0o644)  # libpq ignores what others can read, and warns
    sentence, hint = refused_by_fd(studies_at(tls, "writewise_owner"), capfd)
    assert "no password supplied" in sentence
    assert "mode 0600" in hint
    monkeypatch.delenv("PGPASSFILE")
    assert "PGPASSFILE" in refused_by_fd(studies_at(tls, "writewise_owner"), capfd)[1]


def refused_by_fd(url, capfd):
    """Return the same; libpq itself may have written a warning."""
    capfd.readouterr()
    assert main(["study", "status", url, "--study", "any"]) == 1
    said = capfd.readouterr().err
    assert "Traceback" not in said and "hunter2" not in said
    lines = [line for line in said.splitlines() if not line.startswith("WARNING: password file")]
    sentence, hint = lines
    return sentence, hint


def test_a_reader_is_let_in_by_certificate_alone(tls, capsys):
    url = certified(tls, "writewise_reader")
    assert main(["study", "status", url, "--study", "first"]) == 0
    assert "study first: 5 candidates" in capsys.readouterr().out
    ledger = Ledger(parse_address(url), "first", 1, 3)
    assert ledger.records() == []
    who = "SELECT usename, client_dn FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
    assert "writewise_reader|/CN=writewise_reader" in tls.sql(who)
    ledger.close()


def test_the_certificate_of_another_role_is_refused(tls, capsys):
    sentence, hint = refused(certified(tls, "writewise_reader", of="writewise_node"), capsys)
    assert 'certificate authentication failed for user "writewise_reader"' in sentence
    assert "sslcert=FILE&sslkey=FILE" in hint


def test_a_client_without_a_certificate_is_refused(tls, passwords, capsys):
    for role in ("writewise_reader", "writewise_node"):
        sentence, hint = refused(studies_at(tls, role), capsys)
        assert "requires a valid client certificate" in sentence
        assert "sslcert=FILE&sslkey=FILE" in hint


def test_a_client_certificate_of_another_authority_is_refused(tls, capsys):
    made = tls.other_authority.issue("writewise_reader")
    url = studies_at(tls, "writewise_reader", sslcert=made.certificate, sslkey=made.key)
    sentence, _ = refused(url, capsys)
    assert "unknown ca" in sentence or "certificate" in sentence


def test_a_key_that_others_can_read_is_refused(tls, capsys):
    url = certified(tls, "writewise_reader")
    (tls.folder / "own/writewise_reader.key").chmod(0o644)
    sentence, hint = refused(url, capsys)
    assert "private key file" in sentence
    assert "0600" in hint


def test_a_node_whose_server_loses_its_certificate_waits_until_it_is_back(tls, tmp_path):
    """A certificate that is renewed late ends no node."""
    spec = replace(SPEC, name="renewed")
    with fleet_of(tls, spec, tmp_path / "fleet", seconds=0.5) as fleet:
        fleet.start("n0")
        until(lambda: len(fleet.told()) >= 1)
        tls.serve("db.example.com")
        tls.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'writewise'"
        )
        until(lambda: "does not match host name" in fleet.log("n0"))
        time.sleep(1)
        assert fleet.is_running("n0")
        tls.serve("localhost")
        before = len(fleet.told())
        until(lambda: len(fleet.told()) > before)
        fleet.kill("n0")


def test_the_owner_of_the_cluster_needs_tls_too(tls):
    """The test's own server has no way in without TLS but its socket."""
    done = subprocess.run(
        ["psql", "-X", "-h", "127.0.0.1", "-p", str(tls.port), "-U", OWNER, "-c", "SELECT 1"],
        env={**os.environ, "PGSSLMODE": "disable"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no encryption" in done.stderr
