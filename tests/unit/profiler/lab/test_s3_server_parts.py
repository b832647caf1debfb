# SPDX-License-Identifier: Apache-2.0
"""Ranges, listings and objects of the lab's server, without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from profiler.lab.s3_listing import listing_document
from profiler.lab.s3_objects import ObjectStore, load_index
from profiler.lab.s3_protocol import S3Error, parse_range

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (None, None),
        ("bytes=-", None),
        ("bytes=0-", (0, 10)),
        ("bytes=9-", (9, 1)),
        ("bytes=2-4", (2, 3)),
        ("bytes=2-99", (2, 8)),
        ("bytes=-3", (7, 3)),
        ("bytes=-99", (0, 10)),
        ("bytes=4-2", None),
        ("bytes=1-2,4-5", None),
        ("bytes= 1-2", None),
        ("bytes=" + "9" * 30 + "-", None),
    ],
)
def test_a_range_is_a_start_and_a_length(header: str | None, found: tuple[int, int] | None) -> None:
    assert parse_range(header, 10) == found


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=0-", 0), ("bytes=-0", 5)])
def test_a_range_after_the_end_is_416(header: str, size: int) -> None:
    with pytest.raises(S3Error) as error:
        parse_range(header, size)
    assert error.value.status == 416
    assert error.value.headers == {"Content-Range": f"bytes */{size}"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    for key in ("b/a&b", "b/d/1", "b/d/2", "b/d-", "b/e/f/1", "b/z", "x/other"):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text(key)
    (tmp_path / "no-bucket").touch()
    (tmp_path / "link").symlink_to(tmp_path / "x")
    store = ObjectStore(tmp_path, {"b": {"../out": "x/other"}, "indexed": {"k": "x/other"}})
    yield store
    store.close()


def listed(store: ObjectStore, **parameters: str) -> tuple[list[str], list[str], str | None]:
    named = {name.replace("_", "-"): value for name, value in parameters.items()}
    tree = ElementTree.fromstring(listing_document(store, "b", named))
    keys = [element.text or "" for element in tree.iterfind(f"{NAMESPACE}Contents/{NAMESPACE}Key")]
    folded = [
        element.text or ""
        for element in tree.iterfind(f"{NAMESPACE}CommonPrefixes/{NAMESPACE}Prefix")
    ]
    return keys, folded, tree.findtext(f"{NAMESPACE}NextContinuationToken")


def test_buckets_are_folders_and_those_of_the_index(store: ObjectStore) -> None:
    assert store.buckets() == ["b", "indexed", "x"]
    for name in ("link", "no-bucket", "..", ".", "", "b/d", "\0"):
        assert not store.has_bucket(name)
    assert store.keys("indexed") == ["k"]


def test_a_listing_is_sorted_by_bytes(store: ObjectStore) -> None:
    everything = ["../out", "a&b", "d-", "d/1", "d/2", "e/f/1", "z"]
    assert listed(store) == (everything, [], None)
    assert listed(store, prefix="d") == (["d-", "d/1", "d/2"], [], None)
    assert listed(store, start_after="d/1")[0] == ["d/2", "e/f/1", "z"]
    assert listed(store, encoding_type="url", prefix="a")[0] == ["a%26b"]


def test_a_delimiter_folds(store: ObjectStore) -> None:
    assert listed(store, delimiter="/") == (["a&b", "d-", "z"], ["../", "d/", "e/"], None)
    assert listed(store, delimiter="/", prefix="e/") == ([], ["e/f/"], None)
    assert listed(store, delimiter="/", start_after="d/") == (["z"], ["e/"], None)


def test_zero_keys_requested_are_zero_listed(store: ObjectStore) -> None:
    assert listed(store, max_keys="0") == ([], [], None)


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("delimiter", ["", "/"])
def test_pages_add_up(store: ObjectStore, size: int, delimiter: str) -> None:
    found: list[str] = []
    asked = {"max_keys": str(size), "delimiter": delimiter}
    token: str | None = ""
    while token is not None:
        keys, folded, token = listed(store, **asked)
        assert 1 <= len(keys) + len(folded) <= size
        found += sorted(keys + folded)
        asked["continuation_token"] = token or ""
    whole = listed(store, delimiter=delimiter)
    assert found == sorted(whole[0] + whole[1])


def test_digests_are_computed_once_for_hard_links(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(tmp_path / "b" / "z", tmp_path / "b" / "hard")
    store.warm()
    monkeypatch.setattr("profiler.lab.s3_objects.compute_digest", lambda _: pytest.fail("again"))
    entries = {entry.key: entry for entry in store.entries("b", store.keys("b"))}
    assert entries["hard"].digest == entries["z"].digest != entries["d/1"].digest


def test_the_index_cannot_lead_out(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").touch()
    store = ObjectStore(tmp_path / "root", {"b": {"k": "../secret"}})
    with pytest.raises(OSError, match="not the name of a directory entry"):
        store.open("b", "k")
    store.close()


def test_an_index_is_an_object_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    path.write_text('{"b": ["k"]}')
    with pytest.raises(ValueError, match="not a JSON object"):
        load_index(path)
