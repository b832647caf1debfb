# SPDX-License-Identifier: Apache-2.0
"""The explicit tuple of pull clients, the default first."""

from __future__ import annotations

import functools
from importlib import metadata

from contracts.shared.errors import RequirementError, UsageError
from contracts.shared.installation import how_to_add, how_to_set_up
from contracts.shared.text import quoted, suggestion
from profiler.pull.clients.boto3_files import Boto3Client
from profiler.pull.clients.crt import CrtClient
from profiler.pull.clients.direct import DirectClient
from profiler.pull.clients.interface import CHOSEN_BY_AWS, Client
from profiler.pull.clients.mountpoint import CachedMountpointClient, MountpointClient
from profiler.pull.clients.obstore_parts import ObstoreClient
from profiler.pull.clients.program import program_version
from profiler.pull.clients.programs import AwsCopyClient, AwsSyncClient, RcloneClient, S5cmdClient
from profiler.pull.clients.transfer_manager import TransferManagerClient


def _packages(*names: str) -> str | None:
    """Return `boto3 1.44.5, s3transfer 0.19.3`; None unless all are installed."""
    try:
        return ", ".join(f"{name} {metadata.version(name)}" for name in names)
    except metadata.PackageNotFoundError:
        return None


_BOTO3 = functools.partial(_packages, "boto3", "s3transfer")
_AWS = functools.partial(program_version, "aws", "--version")
_MOUNT_S3 = functools.partial(program_version, "mount-s3", "--version")
#: Run in Writewise's folder, because no package index has it.
_SETUP = how_to_set_up()
_MOUNT_S3_INSTALL = (
    "the .deb or .rpm from https://github.com/awslabs/mountpoint-s3/blob/main/doc/INSTALL.md"
)
_AWS_INSTALL = "apt-get install awscli, or AWS's installer for version 2"

ALL: tuple[Client, ...] = (
    Client(
        "direct",
        "GetObject in threads that write what they read",
        DirectClient,
        functools.partial(_packages, "boto3"),
        _SETUP,
    ),
    Client(
        "transfer-manager",
        "one s3transfer manager per process, classic",
        TransferManagerClient,
        _BOTO3,
        _SETUP,
        "classic",
    ),
    Client(
        "boto3",
        "download_file for each object in turn, classic",
        Boto3Client,
        _BOTO3,
        _SETUP,
        "classic",
    ),
    Client(
        "crt",
        "s3transfer on the Common Runtime, in C",
        CrtClient,
        functools.partial(_packages, "s3transfer", "awscrt"),
        _SETUP,
        "crt",
    ),
    Client(
        "obstore",
        "Rust's object_store, ranges in threads",
        ObstoreClient,
        functools.partial(_packages, "obstore"),
        how_to_add("obstore"),
    ),
    Client(
        "s5cmd",
        "the program, in Go",
        S5cmdClient,
        functools.partial(program_version, "s5cmd", "version"),
        how_to_add("s5cmd"),
        takes_prefixes=True,
    ),
    Client(
        "aws-sync",
        "`aws s3 sync`",
        AwsSyncClient,
        _AWS,
        _AWS_INSTALL,
        CHOSEN_BY_AWS,
        takes_prefixes=True,
    ),
    Client(
        "aws-cp",
        "`aws s3 cp --recursive`",
        AwsCopyClient,
        _AWS,
        _AWS_INSTALL,
        CHOSEN_BY_AWS,
        takes_prefixes=True,
    ),
    Client(
        "rclone",
        "`rclone copy`",
        RcloneClient,
        functools.partial(program_version, "rclone", "version"),
        "apt-get install rclone",
        takes_prefixes=True,
    ),
    Client(
        "mount-s3",
        "Mountpoint: mount, copy, unmount",
        MountpointClient,
        _MOUNT_S3,
        _MOUNT_S3_INSTALL,
        takes_prefixes=True,
    ),
    Client(
        "mount-s3-cache",
        "the same with a cache on the destination's volume",
        CachedMountpointClient,
        _MOUNT_S3,
        _MOUNT_S3_INSTALL,
        takes_prefixes=True,
    ),
)
NAMES = tuple(client.name for client in ALL)
DEFAULT = ALL[0]


def by_name(name: str) -> Client:
    """Return the client of this name. Raises UsageError."""
    for client in ALL:
        if client.name == name:
            return client
    hint = suggestion(name, NAMES) or f"clients are {', '.join(NAMES)}"
    raise UsageError(f"unknown pull client {quoted(name)}", hint)


def usable(name: str | None) -> Client:
    """Return the client of this name, or the default client for None.

    Raises UsageError for an unknown name, RequirementError for a client that is not installed.
    """
    client = DEFAULT if name is None else by_name(name)
    if client.version() is None:
        message = f"the pull client {client.name} is not installed"
        raise RequirementError(message, f"install it: {client.install}")
    return client
