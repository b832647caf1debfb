# SPDX-License-Identifier: Apache-2.0
"""The plan of a pull: the objects at `s3://BUCKET/PREFIX`, with every key checked.

PREFIX means what it means for `aws s3 sync`: a directory ("/" is added), whose objects keep their
names below it. If it has no objects, PREFIX may be the exact key of one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted
from profiler.pull.access import S3Access
from profiler.pull.errors import NOT_S3, PullError, explain
from profiler.pull.first_answer import answered_in_time
from profiler.pull.result import Failure

_SCHEME = "s3://"
_NAME_MAX_BYTES = 255  # include/uapi/linux/limits.h
_SHOWN_KEYS = 10
#: ListObjectsV2's answer has these, also when it lists nothing.
_LISTING_FIELDS = ("IsTruncated", "Name", "KeyCount", "Contents")


@dataclass(frozen=True)
class Location:
    """A bucket and a prefix of keys, which may be empty."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        """Return the printable address."""
        return printable(f"{_SCHEME}{self.bucket}/{self.prefix}")


@dataclass(frozen=True)
class RemoteObject:
    """One object: its key, its path below the destination, its size and its ETag."""

    key: str
    relative_path: str
    size_bytes: int
    etag: str

    @property
    def directory(self) -> tuple[str, ...]:
        """The directories of its path, from the destination downwards."""
        return tuple(self.relative_path.split("/")[:-1])

    @property
    def file_name(self) -> str:
        """The last component of its path."""
        return self.relative_path.rpartition("/")[2]


@dataclass(frozen=True)
class PullPlan:
    """All objects of one pull; every relative path stays below the destination.

    `refused` are the objects that cannot be files there, with the reasons. `kept_bytes` is the size
    of the objects that the destination already has.
    `whole_objects` and `whole_bytes` are of the prefix where these are a sample of it, else 0.
    """

    location: Location
    objects: tuple[RemoteObject, ...]
    refused: tuple[Failure, ...] = ()
    kept_bytes: int = 0
    whole_objects: int = 0
    whole_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The size of all objects together."""
        return sum(remote.size_bytes for remote in self.objects)


class UnsafeKeysError(PullError):
    """Keys that would leave the destination or collide in it, in a pull that needs all objects."""

    def __init__(self, location: Location, refused: Sequence[Failure]) -> None:
        self.problems = tuple(f"{each.key}: {each.reason}" for each in refused)
        shown = "".join(f"\n  {problem}" for problem in self.problems[:_SHOWN_KEYS])
        more = len(refused) - _SHOWN_KEYS
        super().__init__(
            f"{location} has keys that cannot be files below the destination:{shown}"
            + (f"\n  and {more} more" if more > 0 else ""),
            "rename these objects, or pull a prefix without them; nothing was pulled",
        )


def parse_location(text: str) -> Location:
    """Return the Location of `s3://BUCKET/PREFIX`. Raises UsageError."""
    bucket, _, prefix = text[len(_SCHEME) :].partition("/")
    if not text.startswith(_SCHEME) or not bucket or any(char.isspace() for char in bucket):
        raise UsageError(f"invalid S3 address {quoted(text)}", "use s3://BUCKET/PREFIX")
    return Location(bucket, prefix)


def list_plan(access: S3Access, location: Location, *, needs_all: bool = True) -> PullPlan:
    """List the objects at `location` and return the plan.

    With `needs_all` false, keys that cannot be files are the plan's `refused`, unless all are.
    Raises PullError when there are no objects, S3 refuses or the endpoint does not answer in time;
    UnsafeKeysError when a key cannot be a file below the destination.
    """
    client = access.make_client()
    objects = answered_in_time(client, location.bucket, lambda: _list(client, location))
    return _plan(location, objects, needs_all=needs_all)


def list_again(client: Any, location: Location) -> PullPlan:
    """List `location` in the calling thread, with a client whose endpoint has answered before.

    Raises as `list_plan`.
    """
    return _plan(location, _list(client, location), needs_all=True)


def _plan(location: Location, objects: Sequence[RemoteObject], *, needs_all: bool) -> PullPlan:
    if not objects:
        raise PullError(
            f"{location} has no objects",
            "check the prefix: it is a directory, or the exact key of one object",
        )
    good, refused = _judge(objects)
    if refused and (needs_all or not good):
        raise UnsafeKeysError(location, refused)
    return PullPlan(location, good, refused)


def _list(client: Any, location: Location) -> list[RemoteObject]:
    try:
        return _list_directory(client, location) or _list_exact_key(client, location)
    except (LookupError, TypeError, ValueError) as error:  # a field that S3 always sends is missing
        raise NOT_S3.as_error() from error
    except Exception as error:  # botocore's, and those of what it uses
        raise explain(error, location.bucket).as_error() from error


def _list_directory(client: Any, location: Location) -> list[RemoteObject]:
    prefix = location.prefix
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=prefix)
    return [
        _remote_object(item, len(prefix))
        for page in pages
        for item in _contents(page)
        if not _is_folder_marker(item)
    ]


def _contents(page: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return a listing's entries. Raises ValueError for an answer that is not a listing.

    botocore reads any XML, such as a proxy's XHTML page, as an empty listing.
    """
    if not any(name in page for name in _LISTING_FIELDS):
        raise ValueError("the answer is not a listing")
    entries: Sequence[dict[str, Any]] = page.get("Contents", ())
    return entries


def _is_folder_marker(item: dict[str, Any]) -> bool:
    """Return whether this is the empty object that consoles make for a folder."""
    return str(item["Key"]).endswith("/") and int(item["Size"]) == 0


def _list_exact_key(client: Any, location: Location) -> list[RemoteObject]:
    """Return the object whose key equals the prefix, which sorts before all longer keys."""
    if not location.prefix or location.prefix.endswith("/"):
        return []
    page = client.list_objects_v2(Bucket=location.bucket, Prefix=location.prefix, MaxKeys=1)
    start = location.prefix.rfind("/") + 1
    found = [item for item in _contents(page) if item["Key"] == location.prefix]
    return [_remote_object(item, start) for item in found]


def _remote_object(item: dict[str, Any], start: int) -> RemoteObject:
    key, size_bytes = item["Key"], int(item["Size"])
    if size_bytes < 0:
        raise ValueError("a negative size")
    return RemoteObject(key, key[start:], size_bytes, str(item["ETag"]).strip('"'))


def _judge(
    objects: Sequence[RemoteObject],
) -> tuple[tuple[RemoteObject, ...], tuple[Failure, ...]]:
    """Return the objects that can be files below the destination, and why the others cannot."""
    possible = [remote for remote in objects if not _path_problem(remote.relative_path)]
    directories = {path for remote in possible for path in _directories_above(remote)}
    seen: set[str] = set()
    good: list[RemoteObject] = []
    refused: list[Failure] = []
    for remote in objects:
        problem = _path_problem(remote.relative_path)
        if not problem and remote.relative_path in directories:
            problem = "is both a file and a directory"
        if not problem and remote.relative_path in seen:
            problem = "is listed twice"
        seen.add(remote.relative_path)
        if problem:
            refused.append(Failure(printable(remote.key), problem))
        else:
            good.append(remote)
    return tuple(good), tuple(refused)


def _directories_above(remote: RemoteObject) -> Iterator[str]:
    path = remote.relative_path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _path_problem(path: str) -> str | None:
    """Return why `path` is not a relative path that stays below its start; None if it is."""
    if path.startswith("/"):
        return "is absolute"
    for name in path.split("/"):
        if name in ("", ".", ".."):
            return f"has the component {name!r}"
        if "\0" in name:
            return "contains a NUL character"
        if len(name.encode("utf-8", "surrogatepass")) > _NAME_MAX_BYTES:
            return f"has a component longer than {_NAME_MAX_BYTES} bytes"
    return None
