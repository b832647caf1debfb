# SPDX-License-Identifier: Apache-2.0
"""The two interfaces of pull clients, which worker processes use.

A client is made in the worker process that uses it, because neither boto3's sessions nor its
threads survive a fork. It writes only to the path it is given; the workers stage, verify, rename
and choose the next object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Union, runtime_checkable

from profiler.pull.access import S3Access
from profiler.pull.request_times import OnRead, OnRequest
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

#: Called with each number of bytes that arrives, negative for counted bytes that must be fetched
#: again. Raises to stop the pull. Called from any thread of the process.
OnBytes = Callable[[int], None]

#: S3's answer about an object, in HeadObject's names.
Answer = Mapping[str, Any]


class PullClient(Protocol):
    """Fetches one object into one file; `objects_at_once` threads may do so at a time."""

    @property
    def objects_at_once(self) -> int:
        """Number of threads that may be in `download` at a time, at least 1."""

    def download(
        self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes
    ) -> Answer | None:
        """Fetch one object to `path` and return S3's answer about the whole object, or None.

        None if it came in parts: then only HeadObject returns the checksum of the whole. Raises the
        exceptions of the client's library, for `profiler.pull.errors.explain`.
        """

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """Return HeadObject's answer with the checksum, of one uploaded `part` if given."""


@runtime_checkable
class ObservedClient(Protocol):
    """A PullClient that reports how its requests spend their time."""

    def observe(self, on_request: OnRequest, on_read: OnRead) -> None:
        """Report the times of every later request."""


@runtime_checkable
class PrefixClient(Protocol):
    """Fetches all objects below a prefix with one call, as programs do."""

    @property
    def objects_at_once(self) -> int:
        """Number of fetched objects that are verified at a time, at least 1."""

    def download_all(self, source: PrefixSource, directory: str, on_bytes: OnBytes) -> str:
        """Fetch `source` into the new `directory` and return why it is incomplete ("": complete).

        A file's name is the key after the prefix, or the last component of an exact key. Raises
        PullError when nothing can be fetched, and what `on_bytes` raises; then no process writes
        any more.
        """

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""


@dataclass(frozen=True)
class PrefixSource:
    """What a PrefixClient fetches: `prefix` ends in `/`, is empty, or is the key of one object.

    `bytes` is the total size of the objects.
    """

    bucket: str
    prefix: str
    is_one_object: bool
    bytes: int

    @property
    def url(self) -> str:
        """The address."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def file_name(self) -> str:
        """The last component of the prefix, which is the file name of a single object."""
        return self.prefix.rpartition("/")[2]


AnyClient = Union[PullClient, PrefixClient]
MakeClient = Callable[[S3Access, TransferSettings], AnyClient]

#: The program chooses its transfer client by its version and the user's configuration.
CHOSEN_BY_AWS = "chosen by the AWS CLI"


@dataclass(frozen=True)
class Client:
    """A client as data: its name and description, and how to make, find and install it.

    `version` returns the installed version, None if the client cannot be used on this host. `make`
    is picklable, because worker processes call it. `transfer_client` is `classic`, `crt` or
    CHOSEN_BY_AWS for AWS's clients, `own` for others. `takes_prefixes` is whether it makes a
    PrefixClient.
    """

    name: str
    what: str
    make: MakeClient
    version: Callable[[], str | None]
    install: str
    transfer_client: str = "own"
    takes_prefixes: bool = False
