# SPDX-License-Identifier: Apache-2.0
"""Where results are kept: first in a file of this node, then in S3 or a directory.

A result has one name (`Claim.key`) and is written once: S3 refuses a second PUT (If-None-Match),
and a directory a second link. So a result can be sent again after any failure.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.writing import create, directory_of, make_directories, write_atomically
from profiler.pull.access import S3Access
from profiler.pull.errors import PullError
from profiler.pull.source import parse_location
from sysctl.host.journal import private_directory
from sysctl.host.system import HostError, host_errors

if TYPE_CHECKING:
    from profiler.pull.source import Location

MAX_BYTES = 4 * 2**20
_FILE = FileKind("result", MAX_BYTES, "remove it; its claim will be measured again")
_PENDING, _TOLD = "pending", "told"
_EXISTS = ("PreconditionFailed", "412")
#: S3 also denies access to a missing object, to those who may not list the bucket.
_MISSING = ("NoSuchKey", "404", "AccessDenied", "403")


class ResultsStore(Protocol):
    """Results by name. A name is made of a study and a claim, never taken from the ledger as text.

    Raises WritewiseError.
    """

    def put(self, study: str, key: str, text: str) -> None:
        """Keep the text under its name, unless there is one: then that one stays."""

    def get(self, study: str, key: str) -> str | None:
        """Return the text under a name; None if there is none, or more than `MAX_BYTES`."""


@dataclass(frozen=True)
class DirectoryStore:
    """Results below a directory, such as one of a file server."""

    folder: Path

    def put(self, study: str, key: str, text: str) -> None:
        """See `ResultsStore`: a complete temporary file gets the name by a link."""
        path = self._path(study, key)
        make_directories(path.parent)
        temporary = f".writewise-{secrets.token_hex(8)}"
        with host_errors(f"write {path}"), directory_of(path) as (directory, name):
            try:
                with os.fdopen(create(directory, temporary), "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(
                        temporary,
                        name,
                        src_dir_fd=directory,
                        dst_dir_fd=directory,
                        follow_symlinks=False,
                    )
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)

    def get(self, study: str, key: str) -> str | None:
        """See `ResultsStore`."""
        path = self._path(study, key)
        if not os.path.lexists(path):
            return None
        with contextlib.suppress(UsageError):
            return _FILE.read_text(str(path))
        return None

    def _path(self, study: str, key: str) -> Path:
        return self.folder / "studies" / study / "results" / f"{key}.json"


@dataclass
class S3Store:
    """Results below a prefix of a bucket."""

    access: S3Access
    location: Location
    _made: Any = field(default=None, init=False, repr=False)

    def put(self, study: str, key: str, text: str) -> None:
        """See `ResultsStore`."""
        name = self._key(study, key)
        with self._errors(name, _EXISTS):
            self._client.put_object(
                Bucket=self.location.bucket,
                Key=name,
                Body=text.encode(),
                IfNoneMatch="*",
                ContentType="application/json",
            )

    def get(self, study: str, key: str) -> str | None:
        """See `ResultsStore`."""
        name = self._key(study, key)
        with self._errors(name, _MISSING):
            found = self._client.get_object(Bucket=self.location.bucket, Key=name)
            content = found["Body"].read(MAX_BYTES + 1)
            if len(content) <= MAX_BYTES:
                return str(content.decode("utf-8", errors="replace"))
        return None

    @property
    def _client(self) -> Any:
        if self._made is None:
            self._made = self.access.make_client()
        return self._made

    def _key(self, study: str, key: str) -> str:
        prefix = self.location.prefix.rstrip("/")
        return f"{prefix}/studies/{study}/results/{key}.json".lstrip("/")

    @contextlib.contextmanager
    def _errors(self, name: str, expected: Sequence[str]) -> Iterator[None]:
        """Ignore the expected codes of S3, and turn other errors into PullError."""
        from botocore.exceptions import BotoCoreError, ClientError

        where = f"s3://{self.location.bucket}/{name}"
        hint = "check the bucket and the actions s3:PutObject and s3:GetObject (--results)"
        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code not in expected:
                raise PullError(f"S3 refused {where}: {code or 'unknown error'}", hint) from None
        except BotoCoreError as error:
            raise PullError(f"{where} cannot be reached: {type(error).__name__}", hint) from None


def store_of(text: str, access: S3Access) -> ResultsStore:
    """Return the store of `s3://BUCKET/PREFIX` or of a directory. Raises UsageError."""
    if text.startswith("s3://"):
        return S3Store(replace(access, sign_requests=True), parse_location(text))
    if not text or "\0" in text:
        raise UsageError("the path of the results is empty", "use s3://BUCKET/PREFIX or a folder")
    return DirectoryStore(Path(text).absolute())


@dataclass(frozen=True)
class LocalResults:
    """The results of this node: those that the ledger may not have yet, and the others.

    The directory is private to root, so what is read back is what was written.
    """

    folder: Path

    def keep(self, key: str, document: dict[str, Any]) -> str:
        """Write a result that is not told yet; return its text."""
        text = json.dumps(document, separators=(",", ":")) + "\n"
        write_atomically(self._folder(_PENDING) / f"{key}.json", text)
        return text

    def pending(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of every result that may not be told."""
        for path in sorted(self._folder(_PENDING).glob("*.json")):
            yield path.stem, _FILE.read_text(str(path), trusted=True)

    def told(self, key: str) -> None:
        """Note that the ledger has it."""
        name = f"{key}.json"
        target = self._folder(_TOLD) / name
        with host_errors(f"move {target}"), contextlib.suppress(FileNotFoundError):
            (self._folder(_PENDING) / name).replace(target)

    def _folder(self, name: str) -> Path:
        for folder in (self.folder.parent, self.folder):
            private_directory(folder)
        return private_directory(self.folder / name)


def check_directory_store(store: ResultsStore) -> None:
    """Raise HostError if a directory of results does not exist: a mount may be missing."""
    if isinstance(store, DirectoryStore) and not store.folder.is_dir():
        raise HostError(
            f"the directory of the results {store.folder} does not exist",
            os.strerror(errno.ENOENT) + ": mount or make it, or use s3://BUCKET/PREFIX",
        )
