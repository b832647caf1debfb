"""What a pull will fetch: `s3://BUCKET/PREFIX` → the plan, with every key checked.

Prefix semantics are those of `aws s3 sync`: PREFIX is a directory ("/" is added) and its objects
keep their names below it. When no object lies below it, PREFIX may be the exact key of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted
from profiler.pull.access import S3Access
from profiler.pull.errors import NOT_S3, PullError, explain
from profiler.pull.result import Failure

_SCHEME = "s3://"
_NAME_MAX_BYTES = 255  # include/uapi/linux/limits.h
_SHOWN_KEYS = 10


@dataclass(frozen=True)
class Location:
    """A bucket and what keys begin with (may be empty)."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        """As the user writes it, made printable."""
        return printable(f"{_SCHEME}{self.bucket}/{self.prefix}")


@dataclass(frozen=True)
class RemoteObject:
    """One object: its key, where it goes below the destination, its size and its ETag."""

    key: str
    relative_path: str
    size_bytes: int
    etag: str

    @property
    def directory(self) -> tuple[str, ...]:
        """The directories above it, from the destination downwards."""
        return tuple(self.relative_path.split("/")[:-1])

    @property
    def file_name(self) -> str:
        """The last component of its path."""
        return self.relative_path.rpartition("/")[2]


@dataclass(frozen=True)
class PullPlan:
    """All objects of one pull; every relative path is known to stay below the destination.

    `refused` are those that cannot be files there, each with the reason. `kept_bytes` is the size
    of those that need not be pulled, since the destination has them.
    """

    location: Location
    objects: tuple[RemoteObject, ...]
    refused: tuple[Failure, ...] = ()
    kept_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The size of all objects together."""
        return sum(remote.size_bytes for remote in self.objects)


class UnsafeKeysError(PullError):
    """Keys that would leave the destination, or collide in it, for who must have all or none."""

    def __init__(self, location: Location, refused: Sequence[Failure]) -> None:
        self.problems = tuple(f"{each.key}: {each.reason}" for each in refused)
        shown = "".join(f"\n  {problem}" for problem in self.problems[:_SHOWN_KEYS])
        more = len(refused) - _SHOWN_KEYS
        super().__init__(
            f"{location} has keys that cannot be files below the destination:{shown}"
            + (f"\n  and {more} more" if more > 0 else ""),
            "nothing was pulled; rename these objects, or pull a prefix without them",
        )


def parse_location(text: str) -> Location:
    """`s3://BUCKET/PREFIX` → Location. Raises UsageError."""
    bucket, _, prefix = text[len(_SCHEME) :].partition("/")
    if not text.startswith(_SCHEME) or not bucket or any(char.isspace() for char in bucket):
        raise UsageError(f"{quoted(text)} is no address in S3", "use s3://BUCKET/PREFIX")
    return Location(bucket, prefix)


def list_plan(access: S3Access, location: Location, *, needs_all: bool = True) -> PullPlan:
    """List the objects at `location`.

    Raises PullError when there are none or S3 refuses, UnsafeKeysError when a key cannot be a
    file below the destination. Unless the pull `needs_all`, such keys are the plan's `refused`,
    as long as any other is left.
    """
    client = access.make_client()
    try:
        objects = _list_directory(client, location) or _list_exact_key(client, location)
    except (LookupError, TypeError, ValueError) as error:  # fields that S3 gives always
        raise NOT_S3.as_error() from error
    except Exception as error:  # of botocore and what it uses
        raise explain(error, location.bucket).as_error() from error
    if not objects:
        raise PullError(f"{location} has no objects", "check the prefix: it names a directory")
    good, refused = _judge(objects)
    if refused and (needs_all or not good):
        raise UnsafeKeysError(location, refused)
    return PullPlan(location, good, refused)


def _list_directory(client: Any, location: Location) -> list[RemoteObject]:
    prefix = location.prefix
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=prefix)
    return [
        _remote_object(item, len(prefix))
        for page in pages
        for item in page.get("Contents", ())
        if not _is_folder_marker(item)
    ]


def _is_folder_marker(item: dict[str, Any]) -> bool:
    """What consoles make for a folder; one that has bytes is an object that no file can be."""
    return str(item["Key"]).endswith("/") and int(item["Size"]) == 0


def _list_exact_key(client: Any, location: Location) -> list[RemoteObject]:
    """The object whose key is the prefix itself: it sorts before all longer keys."""
    if not location.prefix or location.prefix.endswith("/"):
        return []
    page = client.list_objects_v2(Bucket=location.bucket, Prefix=location.prefix, MaxKeys=1)
    start = location.prefix.rfind("/") + 1
    found = page.get("Contents", ())
    return [_remote_object(item, start) for item in found if item["Key"] == location.prefix]


def _remote_object(item: dict[str, Any], start: int) -> RemoteObject:
    key, size_bytes = item["Key"], int(item["Size"])
    if size_bytes < 0:
        raise ValueError("a negative size")
    return RemoteObject(key, key[start:], size_bytes, str(item["ETag"]).strip('"'))


def _judge(
    objects: Sequence[RemoteObject],
) -> tuple[tuple[RemoteObject, ...], tuple[Failure, ...]]:
    """The objects that can be files below the destination, and the reason for each other one."""
    possible = [remote for remote in objects if not _path_problem(remote.relative_path)]
    directories = {path for remote in possible for path in _directories_above(remote)}
    seen: set[str] = set()
    good: list[RemoteObject] = []
    refused: list[Failure] = []
    for remote in objects:
        problem = _path_problem(remote.relative_path)
        if not problem and remote.relative_path in directories:
            problem = "is a file and a directory at once"
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
            return "has a NUL character"
        if len(name.encode("utf-8", "surrogatepass")) > _NAME_MAX_BYTES:
            return f"has a component longer than {_NAME_MAX_BYTES} bytes"
    return None
