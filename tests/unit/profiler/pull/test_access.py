# SPDX-License-Identifier: Apache-2.0
"""Region and profile reach boto3 and every other program in the same way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profiler.pull.access import S3Access
from profiler.pull.clients.mountpoint import MountpointClient
from profiler.pull.clients.obstore_parts import ObstoreClient
from profiler.pull.clients.program import ProgramClient
from profiler.pull.clients.programs import AwsSyncClient, RcloneClient, S5cmdClient
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings

CONFIG = "[profile other]\nregion = ap-south-1\n[default]\nregion = us-west-2\n"
CREDENTIALS = "[other]\naws_access_key_id = OF-OTHER\naws_secret_access_key = secret\n"


@pytest.fixture(autouse=True)
def configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "credentials").write_text(CREDENTIALS)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OF-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


@pytest.mark.parametrize(
    ("access", "region", "key"),
    [
        (S3Access(), "us-west-2", "OF-ENVIRONMENT"),
        (S3Access(region="eu-central-1"), "eu-central-1", "OF-ENVIRONMENT"),
        (S3Access(profile="other"), "ap-south-1", "OF-OTHER"),
        (S3Access(region="eu-central-1", profile="other"), "eu-central-1", "OF-OTHER"),
    ],
)
def test_boto3_uses_the_region_and_the_profile(access: S3Access, region: str, key: str) -> None:
    client = access.make_client()
    assert client.meta.region_name == region
    assert region in client.meta.endpoint_url
    assert access.make_session().get_credentials().access_key == key
    assert access.resolved(client) == access  # AWS's own endpoint of that region is not "named"


def test_an_unknown_profile_is_one_sentence() -> None:
    with pytest.raises(PullError) as refused:
        S3Access(profile="nobody").make_client()
    assert refused.value.message == "there is no AWS profile nobody"
    assert "--profile" in refused.value.hint


def test_an_invalid_region_is_one_sentence() -> None:
    with pytest.raises(PullError) as refused:
        S3Access(region="no region").make_client()
    assert refused.value.message == "the AWS region is not valid"
    assert "--region" in refused.value.hint


@pytest.mark.parametrize("kind", [S5cmdClient, AwsSyncClient, RcloneClient, MountpointClient])
def test_programs_find_both_in_their_environment(
    kind: type[ProgramClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-environment")
    monkeypatch.setenv("AWS_DEFAULT_PROFILE", "default")  # botocore looks at it first
    access = S3Access(region="eu-central-1", profile="other")
    given = kind(access, TransferSettings()).all_environment()
    assert given["AWS_REGION"] == given["AWS_DEFAULT_REGION"] == "eu-central-1"
    assert given["AWS_PROFILE"] == "other"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_DEFAULT_PROFILE"):
        assert name not in given


def test_without_options_the_environment_stays_as_it_is() -> None:
    given = S5cmdClient(S3Access(), TransferSettings()).all_environment()
    assert given["AWS_ACCESS_KEY_ID"] == "OF-ENVIRONMENT"
    assert "AWS_REGION" not in given
    assert "AWS_PROFILE" not in given


def test_obstore_uses_both() -> None:
    pytest.importorskip("obstore")
    access = S3Access(region="eu-central-1", profile="other")
    store = ObstoreClient(access, TransferSettings()).store_of("bucket")
    assert store.config["region"] == "eu-central-1"
    assert store.credential_provider().get("access_key_id") == "OF-OTHER"
