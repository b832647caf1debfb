# SPDX-License-Identifier: Apache-2.0
"""Why PostgreSQL cannot be used; `tests/postgresql/test_tls.py` has a real server's messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.text import is_unprintable
from profiler.shared_study.refusals import explain

_AT = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "reason", "hint"),
    [
        (
            f"{_AT}Connection refused\n\tIs the server running on that host?",
            "Connection refused",
            "check that PostgreSQL runs",
        ),
        (
            f"{_AT}SSL error: certificate verify failed",
            "SSL error: certificate verify failed",
            "sslrootcert=FILE",
        ),
        (
            f'{_AT}FATAL:  password authentication failed for user "canary"\n'
            'password retrieved from file "/root/.pgpass"',
            'password authentication failed for user "canary"',
            "PGPASSFILE",
        ),
        (f"{_AT}fe_sendauth: no password supplied", "fe_sendauth: no password", "PGPASSFILE"),
        (f'{_AT}FATAL:  no pg_hba.conf entry for host "10.0.0.8"', "no pg_hba.conf", "hostssl"),
        ("", "no reason given", "check that PostgreSQL runs"),
        (_AT, "no reason given", "check that PostgreSQL runs"),
    ],
)
def test_the_reason_and_what_to_do(said, reason, hint):
    found = explain(said)
    assert found.reason.startswith(reason)
    assert hint in found.hint


def test_of_several_addresses_the_one_that_says_most():
    """`localhost` has two addresses on most hosts; at the first one nothing listens."""
    one = f'{_AT}server certificate for "db" does not match host name "localhost"'
    said = (
        'connection failed: connection to server at "::1", port 5432 failed: Connection refused\n'
        "Multiple connection attempts failed. All failures were:\n"
        "- host: 'localhost', port: '5432', hostaddr: '::1': Connection refused\n"
        f"- host: 'localhost', port: '5432', hostaddr: '10.0.0.7': {one}"
    )
    assert explain(said).reason.endswith('"db" does not match host name "localhost"')


@given(st.text())
def test_any_message_is_a_short_line_that_is_safe_to_print(said):
    found = explain(said)
    assert found.hint
    assert not any(map(is_unprintable, found.reason))
    assert 0 < len(found.reason) <= 300
