# SPDX-License-Identifier: Apache-2.0
"""Finds which pull clients can be used on this host, and the transfer client of each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from profiler.pull.clients.catalogue import ALL
from profiler.pull.clients.interface import CHOSEN_BY_AWS, Client

_AWS_VERSION = re.compile(r"aws-cli/([0-9]+)\.")
#: The AWS CLI's name for its choice by instance type, since 2.37.
_AUTO = "auto"


@dataclass(frozen=True)
class Surveyed:
    """A client on this host; `version` is None if it cannot be used.

    `transfer_client` is `classic` or `crt` for AWS's clients, `auto` if the program chooses by the
    instance type, and `own` for all others.
    """

    name: str
    what: str
    version: str | None
    transfer_client: str
    install: str


def survey() -> tuple[Surveyed, ...]:
    """Return all clients; programs are run to get their versions."""
    return tuple(_look_for(client) for client in ALL)


def _look_for(client: Client) -> Surveyed:
    version = client.version()
    transfer_client = client.transfer_client
    if transfer_client == CHOSEN_BY_AWS:
        transfer_client = transfer_client_of_aws(version or "", _preferred())
    return Surveyed(client.name, client.what, version, transfer_client, client.install)


def transfer_client_of_aws(version: str, preferred: str | None) -> str:
    """Return the transfer client of the AWS CLI with this version line; version 1 has only classic.

    `preferred` is `s3.preferred_transfer_client` in ~/.aws/config, None if unset. Source: the AWS
    CLI's topic s3-config, of both versions.
    """
    major = _AWS_VERSION.match(version)
    if major is None:
        return "-"
    if major.group(1) == "1":
        return "classic"
    return preferred if preferred and preferred in ("classic", "crt") else _AUTO


def _preferred() -> str | None:
    """Return the user's setting for the AWS CLI; None if unset or unreadable."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import get_session

    try:
        section = get_session().get_scoped_config().get("s3", {})
    except BotoCoreError:
        return None
    found = section.get("preferred_transfer_client") if isinstance(section, dict) else None
    return str(found) if found else None
