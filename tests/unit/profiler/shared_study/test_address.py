# SPDX-License-Identifier: Apache-2.0
"""The ledger's address: no password, no TLS that verifies nothing, nothing that is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.errors import UsageError
from profiler.shared_study.address import parse_address


def test_over_the_network_the_server_is_verified():
    address = parse_address("postgresql://canary@db.example.com/studies?sslrootcert=/etc/ca.pem")
    assert address.options() == {
        "host": "db.example.com",
        "port": "5432",
        "dbname": "studies",
        "user": "canary",
        "sslmode": "verify-full",
        "gssencmode": "disable",
        "sslrootcert": "/etc/ca.pem",
    }
    assert str(address) == "postgresql://canary@db.example.com:5432/studies"


@pytest.mark.parametrize(
    "url", ["postgresql:///s?host=/run/postgresql", "postgresql://%2Frun%2Fpostgresql/s"]
)
def test_a_unix_socket_needs_no_tls(url):
    address = parse_address(url)
    assert address.host == "/run/postgresql"
    assert address.options()["sslmode"] == "disable"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://canary:hunter2@db/studies",
        "postgresql://canary@db/studies?password=hunter2",
        "postgresql://:hunter2@db/studies",
        "postgresql://canary:@db/studies",
    ],
)
def test_a_password_is_refused_and_not_repeated(url):
    with pytest.raises(UsageError) as refused:
        parse_address(url)
    assert "password" in refused.value.message
    assert "PGPASSFILE" in refused.value.hint
    assert "hunter2" not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "mysql://db/studies",
        "postgresql+psycopg://db/studies",
        "postgresql:///studies",
        "postgresql://db/",
        "postgresql://db/studies/more",
        "postgresql://db:99999999/studies",
        "postgresql://db:port/studies",
        "postgresql://db/studies?port=0",
        "postgresql://-db/studies",
        "postgresql://db/a%20b",
        "postgresql://db/studies?options=-c%20role%3Dx",
        "postgresql://db/studies?service=x",
        "postgresql://db/studies#x",
        "postgresql://[::1/studies",
        "postgresql:///studies?host=/run/postgresql,db.example.com",
        "postgresql://%2Frun%2Fpostgresql,db.example.com/studies",
        "",
    ],
)
def test_what_is_not_known_is_refused(url):
    with pytest.raises(UsageError):
        parse_address(url)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca", ""])
def test_tls_that_does_not_verify_the_name_is_refused(mode):
    with pytest.raises(UsageError, match="TLS"):
        parse_address(f"postgresql://db/studies?sslmode={mode}")


@given(st.text())
def test_any_text_is_an_address_or_a_usage_error(text):
    for url in (text, f"postgresql://{text}", f"postgresql://db/s?{text}"):
        try:
            options = parse_address(url).options()
        except UsageError:
            continue
        assert options["sslmode"] in ("verify-full", "disable")
        assert options["sslmode"] == "verify-full" or options["host"].startswith("/")
        assert "," not in options["host"], "libpq would take it as several hosts"
