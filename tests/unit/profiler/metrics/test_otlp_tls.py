# SPDX-License-Identifier: Apache-2.0
"""OTLP over TLS: whose certificate is trusted, and which is shown."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from profiler.metrics.otlp_push import OtlpPusher
from profiler.metrics.otlp_settings import settings_from
from tests.unit.profiler.metrics.test_otlp import RESOURCE, Endpoint, request

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


def made(folder, name, host, *more):
    """Make a certificate that signs itself; return it and its key."""
    paths = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         *(more or ["-nodes"]), "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=IP:{host}", "-out", paths[0], "-keyout", paths[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return paths


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def own(folder):
    return made(folder, "own", "127.0.0.1")


@pytest.fixture(scope="module")
def client(folder):
    return made(folder, "client", "127.0.0.1")


@pytest.fixture
def context(own, client):
    """What the endpoint shows; it trusts `client`, but does not ask for a certificate."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(*own)
    found.load_verify_locations(client[0])
    return found


@pytest.fixture
def endpoint(context):
    found = Endpoint()
    found.server.socket = context.wrap_socket(found.server.socket, server_side=True)
    with found:
        yield found


def pushed(endpoint, **variables):
    """Push once; return whether it succeeded, and what was said."""
    said: list[str] = []
    named = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    url = f"https://127.0.0.1:{endpoint.server.server_port}"
    settings = settings_from({**named, "OTEL_EXPORTER_OTLP_TIMEOUT": "5000"}, url, RESOURCE)
    return OtlpPusher(settings, request, said.append).push(), " ".join(said)


def test_a_certificate_of_nobody_known_is_not_trusted(endpoint) -> None:
    has_arrived, said = pushed(endpoint)
    assert not has_arrived
    assert "its certificate is not trusted (self" in said
    assert endpoint.got == []


def test_the_certificate_of_the_variable_is_trusted(endpoint, own) -> None:
    assert pushed(endpoint, CERTIFICATE=own[0]) == (True, "")
    [(path, headers, _)] = endpoint.got
    assert (path, headers["Content-Type"]) == ("/v1/metrics", "application/json")


def test_the_name_is_checked(endpoint, context, folder) -> None:
    other = made(folder, "other", "127.0.0.9")
    context.load_cert_chain(*other)
    has_arrived, said = pushed(endpoint, CERTIFICATE=other[0])
    assert not has_arrived
    assert "its certificate is not trusted (IP address mismatch" in said


def test_a_client_shows_its_certificate(endpoint, context, own, client) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    assert not pushed(endpoint, CERTIFICATE=own[0])[0]
    certificate, key = client
    words = {"CERTIFICATE": own[0], "CLIENT_CERTIFICATE": certificate, "CLIENT_KEY": key}
    assert pushed(endpoint, **words) == (True, "")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("missing", "No such file or directory"),
        ("text", ""),
        ("encrypted", "the client's key has a passphrase"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_a_sentence(wrong, why, endpoint, folder, own) -> None:
    """OpenSSL would ask for a passphrase on the terminal, and wait."""
    certificate, key = str(folder / "missing.pem"), own[1]
    if wrong == "text":
        certificate = str(folder / "text.pem")
        (folder / "text.pem").write_text("no certificate")
    elif wrong == "encrypted":
        certificate, key = made(folder, "encrypted", "127.0.0.1", "-passout", "pass:hunter2")
    words = {"CERTIFICATE": own[0], "CLIENT_CERTIFICATE": certificate, "CLIENT_KEY": key}
    has_arrived, said = pushed(endpoint, **words)
    assert not has_arrived
    assert f"its certificates cannot be used ({why}" in said
