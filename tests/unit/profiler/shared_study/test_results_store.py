# SPDX-License-Identifier: Apache-2.0
"""Results have one name and are written once, in a directory and in S3 (moto)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from contracts.shared.errors import WritewiseError
from profiler.pull.access import S3Access
from profiler.shared_study.results_store import (
    MAX_BYTES,
    DirectoryStore,
    LocalResults,
    S3Store,
    check_directory_store,
    store_of,
)
from tests.s3.conftest import BUCKET, MotoBackend, aws_environment  # noqa: F401

KEY = "0123456789abcdef.0.0a1b2c.1"


@pytest.fixture(scope="module")
def endpoint(aws_environment):  # noqa: F811
    with MotoBackend({}).serve() as url:
        yield url


@pytest.fixture(params=["directory", "s3"])
def store(request, tmp_path):
    if request.param == "directory":
        return DirectoryStore(tmp_path)
    url = request.getfixturevalue("endpoint")
    return store_of(f"s3://{BUCKET}/{tmp_path.name}/", S3Access(url))


def test_a_result_is_written_once_and_the_first_stays(store):
    assert store.get("s", KEY) is None
    store.put("s", KEY, "first")
    store.put("s", KEY, "second")
    assert store.get("s", KEY) == "first"
    assert store.get("another", KEY) is None


def test_a_result_that_is_too_large_is_not_read(store):
    store.put("s", KEY, "x" * (MAX_BYTES + 1))
    assert store.get("s", KEY) is None


def test_no_temporary_file_is_left(tmp_path):
    DirectoryStore(tmp_path).put("s", KEY, "text")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{KEY}.json"]


def test_a_symlink_under_the_name_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    folder = tmp_path / "store" / "studies" / "s" / "results"
    folder.mkdir(parents=True)
    (folder / f"{KEY}.json").symlink_to(outside)
    DirectoryStore(tmp_path / "store").put("s", KEY, "text")
    assert not outside.exists()


def test_what_s3_refuses_is_an_error_with_the_name(endpoint):
    store = store_of("s3://no-such-bucket/x", S3Access(endpoint))
    assert isinstance(store, S3Store)
    with pytest.raises(WritewiseError, match="NoSuchBucket"):
        store.put("s", KEY, "text")


class Answering:
    """A client to which S3 gives an error; `calls` counts the requests."""

    def __init__(self, code):
        self.code, self.calls = code, 0

    def get_object(self, **_):
        self.calls += 1
        raise ClientError({"Error": {"Code": self.code}}, "GetObject")

    put_object = get_object


def store_with(client, monkeypatch):
    monkeypatch.setattr(S3Access, "make_client", lambda self: client)
    return store_of("s3://b/x", S3Access())


def test_a_missing_result_to_which_s3_denies_access_is_missing(monkeypatch):
    """Without s3:ListBucket S3 answers so; one lost claim must not stop a whole study."""
    client = Answering("AccessDenied")
    store = store_with(client, monkeypatch)
    assert store.get("s", KEY) is None
    assert client.calls == 1
    with pytest.raises(WritewiseError, match="AccessDenied"):
        store.put("s", KEY, "text")


def test_a_conflict_of_two_writes_is_tried_again_later(monkeypatch):
    """It is then unknown whether S3 has kept either."""
    store = store_with(Answering("ConditionalRequestConflict"), monkeypatch)
    with pytest.raises(WritewiseError, match="ConditionalRequestConflict"):
        store.put("s", KEY, "text")


def test_results_are_signed_also_if_the_pulls_are_not():
    store = store_of("s3://b/x", S3Access(sign_requests=False))
    assert isinstance(store, S3Store)
    assert store.access.sign_requests


def test_a_server_that_is_not_there_is_an_error():
    store = store_of("s3://b/x", S3Access("http://127.0.0.1:9"))
    with pytest.raises(WritewiseError, match="cannot be reached"):
        store.put("s", KEY, "text")


def test_a_directory_that_is_missing_is_named(tmp_path):
    with pytest.raises(WritewiseError, match="does not exist"):
        check_directory_store(store_of(str(tmp_path / "no"), S3Access()))


def test_the_nodes_own_results_are_pending_until_they_are_told(tmp_path):
    local = LocalResults(tmp_path / "studies" / "s")
    text = local.keep(KEY, {"a": 1})
    assert list(LocalResults(tmp_path / "studies" / "s").pending()) == [(KEY, text)]
    local.told(KEY)
    local.told(KEY)
    assert list(local.pending()) == []
    folder = Path(tmp_path, "studies", "s", "told")
    assert (folder / f"{KEY}.json").read_text() == text
    assert os.stat(folder).st_mode & 0o077 == 0
