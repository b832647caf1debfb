"""Which pull clients can be used on this host, and by what each of them would transfer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from profiler.pull.clients.catalogue import ALL
from profiler.pull.clients.interface import CHOSEN_BY_AWS, Client

_AWS_VERSION = re.compile(r"aws-cli/([0-9]+)\.")
#: The AWS CLI's own name for the rule by which it chooses: by the instance type, from 2.37 on.
_AUTO = "auto"


@dataclass(frozen=True)
class Surveyed:
    """A client as it is on this host; `version` is None where it cannot be used.

    `transfer_client` is `classic` or `crt` for those of AWS's, `auto` where the program chooses
    by the instance type, and `own` for all others.
    """

    name: str
    what: str
    version: str | None
    transfer_client: str
    install: str


def survey() -> tuple[Surveyed, ...]:
    """Look for each client in turn; programs are asked for their version."""
    return tuple(_look_for(client) for client in ALL)


def _look_for(client: Client) -> Surveyed:
    version = client.version()
    transfer_client = client.transfer_client
    if transfer_client == CHOSEN_BY_AWS:
        transfer_client = transfer_client_of_aws(version or "", _preferred())
    return Surveyed(client.name, client.what, version, transfer_client, client.install)


def transfer_client_of_aws(version: str, preferred: str | None) -> str:
    """What the AWS CLI of this version line transfers by; version 1 knows nothing but classic.

    `preferred` is `s3.preferred_transfer_client` of ~/.aws/config, None if it is not set.
    Source: the AWS CLI's `configuration of S3 commands` (s3-config) of both versions.
    """
    major = _AWS_VERSION.match(version)
    if major is None:
        return "-"
    if major.group(1) == "1":
        return "classic"
    return preferred if preferred and preferred in ("classic", "crt") else _AUTO


def _preferred() -> str | None:
    """The user's setting for the AWS CLI; None without one, or without a readable file."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import get_session

    try:
        section = get_session().get_scoped_config().get("s3", {})
    except BotoCoreError:
        return None
    found = section.get("preferred_transfer_client") if isinstance(section, dict) else None
    return str(found) if found else None
