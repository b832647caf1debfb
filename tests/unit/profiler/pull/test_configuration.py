# SPDX-License-Identifier: Apache-2.0
"""An error in the AWS configuration is one sentence before any request to S3."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profiler.pull.access import S3Access
from profiler.pull.errors import PullError
from profiler.pull.source import Location, list_plan


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def refusal(endpoint_url: str | None = None) -> PullError:
    with pytest.raises(PullError) as refused:
        list_plan(S3Access(endpoint_url), Location("bucket", ""))
    return refused.value


@pytest.mark.parametrize(
    ("variable", "value", "detail"),
    [
        (
            "AWS_ENDPOINT_URL",
            "user:hunter2@junk",
            "AWS_ENDPOINT_URL or endpoint_url is not a valid URL",
        ),
        ("AWS_MAX_ATTEMPTS", "junk", "a setting such as AWS_MAX_ATTEMPTS must be a number"),
        ("AWS_MAX_ATTEMPTS", "0", '"max_attempts": 0 must be an integer greater'),
        ("AWS_RETRY_MODE", "ju\x1bnk", '"mode": "ju\\x1bnk" must be one of'),
        ("AWS_DEFAULTS_MODE", "junk", "invalid defaults mode: junk"),
    ],
)
def test_a_bad_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, detail: str
) -> None:
    monkeypatch.setenv(variable, value)
    error = refusal()
    assert error.message.startswith("the AWS configuration is not usable: ")
    assert detail in error.message
    assert "hunter2" not in error.message
    assert error.hint == "check the AWS_… environment variables and ~/.aws/config"


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("s3 = foo", "botocore cannot read it (AttributeError)"),
        ("credential_process = echo {hunter2", "credential_process did not print valid JSON"),
        ("credential_process = /none/such", "a file or program that it names: No such file"),
    ],
)
def test_a_bad_line_of_the_file_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, detail: str
) -> None:
    (tmp_path / "config").write_text(f"[default]\n{line}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    error = refusal()
    assert error.message.startswith(f"the AWS configuration is not usable: {detail}")
    assert "hunter2" not in error.message
    assert error.hint == "check the AWS_… environment variables and ~/.aws/config"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_a_password_in_the_environments_endpoint_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "http://user:hunter2@127.0.0.1:9")
    error = refusal()
    assert "contains a user name or password" in error.message
    assert "hunter2" not in error.message + error.hint
    assert variable in error.hint


@pytest.mark.parametrize("variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_a_damaged_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "damaged").write_text("[default\nhunter2\n")
    monkeypatch.setenv(variable, str(tmp_path / "damaged"))
    error = refusal()
    assert error.message == f"the AWS configuration in {tmp_path}/damaged is damaged"
    assert variable in error.hint


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), ("x", "it contains no certificate")],
)
def test_a_bad_bundle_of_certificates_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, reason: str
) -> None:
    bundle = tmp_path / "bundle.pem"
    if content:
        bundle.write_text(content)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    error = refusal("https://127.0.0.1:9")
    assert error.message.startswith("the CA bundle '")
    assert error.message.endswith(f" cannot be used: {reason}")
    assert "AWS_CA_BUNDLE" in error.hint
