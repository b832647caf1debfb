# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from contracts.shared.errors import UsageError
from profiler.pull.access import S3Access
from profiler.pull.errors import PullError
from profiler.pull.source import Location, UnsafeKeysError, list_plan, parse_location


class Listing:
    """A bucket as ListObjectsV2 lists it; replaces S3Access and the client that it makes."""

    def __init__(self, *keys: str) -> None:
        self.contents: list[dict[str, Any]] = [
            {"Key": key, "Size": 0 if key.endswith("/") else 2, "ETag": '"e"'} for key in keys
        ]

    def make_client(self) -> Listing:
        return self

    @property
    def meta(self) -> Listing:
        return self

    @property
    def events(self) -> Listing:
        return self

    def register_first(self, event: str, handler: object) -> None:
        """Do nothing: this client has no attempts to report."""

    def unregister(self, event: str, handler: object) -> None:
        """Do nothing, as above."""

    def get_paginator(self, operation: str) -> Listing:
        assert operation == "list_objects_v2"
        return self

    def paginate(self, **asked: Any) -> list[dict[str, Any]]:
        return [self.list_objects_v2(**asked)]

    def list_objects_v2(self, Bucket: str, Prefix: str, MaxKeys: int = 1000) -> dict[str, Any]:  # noqa: N803
        found = [item for item in self.contents if item.get("Key", Prefix).startswith(Prefix)]
        return {"IsTruncated": False, "Contents": found[:MaxKeys]}


def plan_of(prefix: str, *keys: str) -> dict[str, str]:
    plan = list_plan(Listing(*keys), Location("b", prefix))  # type: ignore[arg-type]
    return {remote.key: remote.relative_path for remote in plan.objects}


def test_an_address_is_a_bucket_and_a_prefix() -> None:
    assert parse_location("s3://b/x/y") == Location("b", "x/y")
    assert parse_location("s3://b") == parse_location("s3://b/") == Location("b", "")
    assert str(Location("b", "x\x1b")) == "s3://b/x\\x1b"


@pytest.mark.parametrize("text", ["", "b/x", "s3:/b", "s3://", "s3:///x", "S3://b", "s3://a b/x"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid S3 address"):
        parse_location(text)


def test_a_prefix_is_a_directory_before_it_is_a_key() -> None:
    assert plan_of("x", "x", "x/1", "xx/2") == {"x/1": "1"}
    assert plan_of("x/", "x", "x/1", "x/y/2") == {"x/1": "1", "x/y/2": "y/2"}
    assert plan_of("d/x", "d/x", "d/xx") == {"d/x": "x"}
    assert plan_of("", "x", "d/y") == {"x": "x", "d/y": "d/y"}


def test_folder_markers_are_left_out() -> None:
    assert plan_of("d", "d/", "d/e/", "d/e/f") == {"d/e/f": "e/f"}
    with pytest.raises(PullError, match="s3://b/d has no objects"):
        plan_of("d", "d/", "d/e/")


def test_a_folder_marker_with_bytes_is_refused() -> None:
    listing = Listing("d/", "d/e/", "d/f")
    listing.contents[1]["Size"] = 1
    with pytest.raises(UnsafeKeysError) as error:
        list_plan(listing, Location("b", "d"))  # type: ignore[arg-type]
    assert error.value.problems == ("d/e/: has the component ''",)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("p/../x", "has the component '..'"),
        ("p/a/../../x", "has the component '..'"),
        ("p/a/..", "has the component '..'"),
        ("p/./x", "has the component '.'"),
        ("p//x", "is absolute"),
        ("p/a//x", "has the component ''"),
        ("p/a\0b", "contains a NUL character"),
        ("p/" + "é" * 128, "has a component longer than 255 bytes"),
    ],
)
def test_a_key_that_would_leave_the_destination_is_refused(key: str, reason: str) -> None:
    with pytest.raises(UnsafeKeysError) as error:
        plan_of("p", key, "p/good")
    assert len(error.value.problems) == 1
    assert error.value.problems[0].endswith(f": {reason}")


@pytest.mark.parametrize(
    "key", ["p/..x", "p/...", "p/x..", "p/~", "p/-x", "p/a b", "p/" + "n" * 255]
)
def test_a_key_that_only_looks_odd_is_taken(key: str) -> None:
    assert plan_of("p", key) == {key: key[2:]}


def test_control_characters_of_a_refused_key_are_escaped() -> None:
    with pytest.raises(UnsafeKeysError) as error:
        plan_of("p", "p/\x1b[2J/../x")
    assert error.value.problems == ("p/\\x1b[2J/../x: has the component '..'",)


def test_a_file_that_is_also_a_directory_is_refused() -> None:
    with pytest.raises(UnsafeKeysError) as error:
        plan_of("p", "p/a", "p/a-b", "p/a/b/c")
    assert error.value.problems == ("p/a: is both a file and a directory",)


def test_a_key_listed_twice_is_refused() -> None:
    with pytest.raises(UnsafeKeysError) as error:
        plan_of("p", "p/a", "p/a")
    assert error.value.problems == ("p/a: is listed twice",)


def test_of_many_refused_keys_ten_are_shown() -> None:
    with pytest.raises(UnsafeKeysError, match="and 5 more") as error:
        plan_of("p", *(f"p/../{number}" for number in range(15)))
    assert len(error.value.problems) == 15
    assert error.value.message.count("\n") == 11


@pytest.mark.parametrize(
    "change", [{"Size": None}, {"Size": -1}, {"Size": "x"}, {"ETag": None}, {"Key": None}]
)
@pytest.mark.parametrize("prefix", ["p", "p/x"])
def test_a_listing_that_lacks_what_s3s_have_is_refused(
    change: dict[str, object], prefix: str
) -> None:
    listing = Listing("p/x")
    for field, value in change.items():
        listing.contents[0][field] = value
        if value is None:
            del listing.contents[0][field]
    with pytest.raises(PullError, match="the endpoint does not answer like S3") as error:
        list_plan(listing, Location("b", prefix))  # type: ignore[arg-type]
    assert "--endpoint-url" in error.value.hint


@pytest.mark.parametrize(
    "url",
    ["localhost:1", "ftp://x", "http://", "http://a b", "http://x:99999", "http://[", "s3://x"],
)
def test_an_endpoint_that_is_not_a_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--endpoint-url"):
        S3Access(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host",
        "user:hunter2@127.0.0.1:9",
        "u:hunter2@h",
        "ftp://hunter2",
        "hunter2",
    ],
)
def test_an_endpoint_with_a_password_is_refused_without_printing_it(url: str) -> None:
    with pytest.raises(UsageError) as error:
        S3Access(url)
    assert "hunter2" not in error.value.message + error.value.hint
