"""What a pull client is: the two small interfaces that worker processes drive.

A client is made in the worker process that uses it, after that process has started: neither
boto3's sessions nor its threads survive a fork. It writes where it is told and nothing else;
staging, verification, final names and the choice of the next object are the workers'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Union, runtime_checkable

from profiler.pull.access import S3Access
from profiler.pull.request_times import OnRead, OnRequest
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

#: Gets each number of bytes that arrives: negative when bytes that were counted must be fetched
#: again. It raises when the pull is to stop. Called from any thread of the process.
OnBytes = Callable[[int], None]

#: What S3 said of an object, in HeadObject's names.
Answer = Mapping[str, Any]


class PullClient(Protocol):
    """Fetches one object into one file, `objects_at_once` of them from as many threads."""

    @property
    def objects_at_once(self) -> int:
        """How many threads may be in `download` at a time; at least 1."""

    def download(
        self, bucket: str, remote: RemoteObject, path: str, on_bytes: OnBytes
    ) -> Answer | None:
        """Fetch one object to `path`; what S3 said of the whole object with its bytes, or None.

        None where it came in parts: only a HeadObject tells the checksum of the whole then.
        Raises what the client's library raises; `profiler.pull.errors.explain` reads it.
        """

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """What S3 says about an object, its checksum included (HeadObject's answer).

        With a number, of that `part` of its upload alone.
        """


@runtime_checkable
class ObservedClient(Protocol):
    """A PullClient that tells where the time of its requests goes."""

    def observe(self, on_request: OnRequest, on_read: OnRead) -> None:
        """Tell the times of every request from here on."""


@runtime_checkable
class PrefixClient(Protocol):
    """Fetches all objects below a prefix at once, as programs do."""

    @property
    def objects_at_once(self) -> int:
        """How many of what arrived are verified at a time; at least 1."""

    def download_all(self, source: PrefixSource, directory: str, on_bytes: OnBytes) -> str:
        """Fetch what `source` names into `directory`, which is new; each object under its key.

        The name is what follows the prefix, or the last component of an exact key. The answer is
        empty, or says why not all was fetched. Raises PullError when nothing can be, and what
        `on_bytes` raises, with no process left that writes.
        """

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PullClient."""


@dataclass(frozen=True)
class PrefixSource:
    """What a PrefixClient fetches: `prefix` ends in `/` or is empty, or is the key of one object.

    `bytes` is the size of all objects together.
    """

    bucket: str
    prefix: str
    is_one_object: bool
    bytes: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def file_name(self) -> str:
        """The last component of the prefix: the name of the file of one object."""
        return self.prefix.rpartition("/")[2]


AnyClient = Union[PullClient, PrefixClient]
MakeClient = Callable[[S3Access, TransferSettings], AnyClient]

#: The transfer client of a program that chooses it by its version and by the user's configuration.
CHOSEN_BY_AWS = "chosen by the AWS CLI"


@dataclass(frozen=True)
class Client:
    """A client as data: its name, what it is, how it is made, found and installed.

    `version` tells what is installed, None when the client cannot be used on this host. `make`
    can be pickled: it is called in the worker processes. `transfer_client` is `classic`, `crt` or
    CHOSEN_BY_AWS for those of AWS's, `own` for others. `takes_prefixes` is whether it makes a
    PrefixClient.
    """

    name: str
    what: str
    make: MakeClient
    version: Callable[[], str | None]
    install: str
    transfer_client: str = "own"
    takes_prefixes: bool = False
