# SPDX-License-Identifier: Apache-2.0
"""The objects of the lab's S3 server: buckets are folders, keys are paths of files below them.

Nothing outside the root can be served, because no symlink is followed. Digests are computed once
per file (device, inode, size and modification time), so forty hard links to four files cost four
reads.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from awscrt import checksums

from contracts.shared.beneath import open_file_beneath

_BLOCK_BYTES = 1 << 20
_Identity = tuple[int, int, int, int]


@dataclass(frozen=True)
class Digest:
    """S3's checksums of an object: its ETag (MD5 in hex) and its CRC-64/NVME in base64."""

    etag: str
    crc64nvme: str


@dataclass(frozen=True)
class ListedObject:
    """One object of a listing; `modified_s` is in seconds since the epoch."""

    key: str
    size_bytes: int
    modified_s: float
    digest: Digest


class ObjectStore:
    """The buckets and objects below `root`, read-only.

    `index` adds objects whose keys are not safe file names (`../evil`, `/abs`), to test clients:
    bucket → key → the file's path relative to `root`.
    """

    def __init__(self, root: Path, index: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._root = root
        self._root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._index = index or {}
        self._index_keys = {
            bucket: sorted(keys, key=os.fsencode) for bucket, keys in self._index.items()
        }
        self._digests: dict[_Identity, Digest] = {}

    def close(self) -> None:
        """Close the root's descriptor."""
        os.close(self._root_fd)

    def buckets(self) -> list[str]:
        """Return the names of all buckets, sorted."""
        folders = {entry.name for entry in self._root.iterdir()}
        return sorted(filter(self.has_bucket, folders | set(self._index)))

    def has_bucket(self, bucket: str) -> bool:
        """Return whether there is a bucket with this name.

        It calls `stat`, because reading the open root would share its position with others.
        """
        if bucket in self._index:
            return True
        if "/" in bucket or "\0" in bucket or bucket in ("", ".", ".."):
            return False
        try:
            found = os.stat(bucket, dir_fd=self._root_fd, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode)

    def open(self, bucket: str, key: str) -> int:
        """Return a descriptor of the object's file. Raises OSError for an unknown object."""
        indexed = self._index.get(bucket, {}).get(key)
        names = indexed.split("/") if indexed is not None else [bucket, *key.split("/")]
        return open_file_beneath(self._root_fd, names)

    def digest(self, descriptor: int) -> Digest:
        """Return the digest of an open file, computed at the first call."""
        found = os.fstat(descriptor)
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if identity not in self._digests:
            self._digests[identity] = compute_digest(descriptor)
        return self._digests[identity]

    def keys(self, bucket: str) -> list[str]:
        """Return all keys of a bucket in the order of their UTF-8 bytes, as S3 does."""
        in_index, found = self._index_keys.get(bucket, []), set[str]()
        with contextlib.suppress(FileNotFoundError):  # the bucket may exist only in the index
            for folder, _, files, folder_fd in os.fwalk(bucket, dir_fd=self._root_fd):
                above = f"{folder}/"[len(bucket) + 1 :]
                found.update(above + name for name in files if _is_file(folder_fd, name))
        return sorted(found.union(in_index), key=os.fsencode) if found else in_index

    def entries(self, bucket: str, keys: Iterable[str]) -> Iterator[ListedObject]:
        """Yield the listing's entries for `keys`, except those that are not regular files."""
        for key in keys:
            with contextlib.suppress(OSError):
                yield self._entry(bucket, key)

    def _entry(self, bucket: str, key: str) -> ListedObject:
        descriptor = self.open(bucket, key)
        try:
            found = os.fstat(descriptor)
            return ListedObject(key, found.st_size, found.st_mtime, self.digest(descriptor))
        finally:
            os.close(descriptor)

    def warm(self) -> None:
        """Compute all digests, so that worker processes forked later share them."""
        for bucket in self.buckets():
            for _ in self.entries(bucket, self.keys(bucket)):
                pass


def _is_file(folder_fd: int, name: str) -> bool:
    """Return whether it is a regular file, not a symlink to one."""
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def compute_digest(descriptor: int) -> Digest:
    """Read an open file and return its digest."""
    md5, crc64, position = hashlib.md5(usedforsecurity=False), 0, 0
    while block := os.pread(descriptor, _BLOCK_BYTES, position):
        md5.update(block)
        crc64 = checksums.crc64nvme(block, crc64)
        position += len(block)
    return Digest(md5.hexdigest(), base64.b64encode(crc64.to_bytes(8, "big")).decode())


def load_index(path: Path) -> dict[str, dict[str, str]]:
    """Read an index file: JSON, bucket → key → path below the root. Raises ValueError."""
    index = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(index, dict) or not all(isinstance(keys, dict) for keys in index.values()):
        raise ValueError(f"{path}: not a JSON object of buckets with keys")
    return index


def make_objects(
    folder: Path,
    *,
    count: int = 40,
    size_bytes: int = 48 * 2**20,
    prefix: str = "images/",
    distinct: int = 4,
) -> tuple[str, ...]:
    """Fill `folder` (a bucket) with `count` objects of random bytes and return their keys.

    Only the first `distinct` have their own content; the others are hard links to them, so that a
    data set larger than the page cache needs little space. Raises FileExistsError.
    """
    keys = tuple(f"{prefix}image-{number:04}.bin" for number in range(count))
    for number, key in enumerate(keys):
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        if number < distinct:
            _write_random(path, size_bytes)
        else:
            os.link(folder / keys[number % distinct], path)
    return keys


def _write_random(path: Path, size_bytes: int) -> None:
    with path.open("xb") as file:
        for position in range(0, size_bytes, _BLOCK_BYTES):
            file.write(os.urandom(min(_BLOCK_BYTES, size_bytes - position)))


def http_date(seconds: float) -> str:
    """Return a time for `Last-Modified`, in HTTP's format, independent of the locale."""
    return email.utils.formatdate(seconds, usegmt=True)


def iso_date(seconds: float) -> str:
    """Return a time for `LastModified` in a listing."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))
