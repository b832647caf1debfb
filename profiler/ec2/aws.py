# SPDX-License-Identifier: Apache-2.0
"""Requests to EC2 and CloudWatch that never hang.

botocore's own limits are 60 s, five times. Here a connection gets 2 s, an answer 5 s, each request
one retry, and whatever happens (a name server that is silent, an answer byte by byte) a request
ends after 15 s.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from contracts.shared.errors import WritewiseError
from profiler.ec2.permissions import ReadPermission

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 2.0, 5.0
DEADLINE_S = 15.0
_ATTEMPTS = 2
#: botocore's name of the provider that asks the instance metadata service.
_INSTANCE_PROFILE = "iam-role"

Answer = TypeVar("Answer")


class Scope(enum.Enum):
    """Which further requests would fail for the same reason."""

    REQUEST = "request"
    SERVICE = "service"
    ALL = "all"


class LiveError(WritewiseError):
    """AWS gave no usable answer; the message says why and names a denied IAM action."""

    def __init__(self, message: str, hint: str = "", scope: Scope = Scope.REQUEST) -> None:
        super().__init__(message, hint)
        self.scope = scope


@dataclass(frozen=True)
class AwsAccess:
    """How AWS is reached. None: what boto3 finds in the environment and ~/.aws.

    Only `is_on_ec2` credentials of an instance profile are looked for, since elsewhere the address
    of the metadata service may answer nobody.
    """

    region: str | None = None
    profile: str | None = None
    is_on_ec2: bool = False


class AwsSession:
    """Makes a client for each service at its first request, with the same credentials."""

    def __init__(self, access: AwsAccess) -> None:
        self._access = access
        self._session: Any = None
        self._clients: dict[str, Any] = {}

    def request(self, permission: ReadPermission, **parameters: Any) -> Any:
        """Return the answer to the operation. Raises exceptions of botocore, TimeoutError."""
        client = self._client(permission.service)
        operation = client.meta.method_to_api_mapping
        method = next(name for name, api in operation.items() if api == permission.operation)
        return _within(DEADLINE_S, lambda: getattr(client, method)(**parameters))

    @property
    def region(self) -> str | None:
        """The region that requests go to; None if none is known."""
        if self._access.region is not None or self._session is None:
            return self._access.region
        found = self._session.get_config_variable("region")
        return None if found is None else str(found)

    def _client(self, service: str) -> Any:
        if self._session is None:
            self._session = _session(self._access)
        if service not in self._clients:
            self._clients[service] = self._session.create_client(service, self._access.region)
        return self._clients[service]


def _session(access: AwsAccess) -> Any:
    """Return a botocore session that has its credentials, with short time limits.

    They are fetched here, outside of any deadline, because a profile may ask for an MFA code.
    """
    from botocore.config import Config
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session

    session = Session(profile=access.profile)
    session.set_default_client_config(  # also for requests to STS for a role
        Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        )
    )
    if not access.is_on_ec2:
        session.get_component("credential_provider").remove(_INSTANCE_PROFILE)
    credentials = session.get_credentials()
    if credentials is None:
        raise NoCredentialsError
    credentials.get_frozen_credentials()
    return session


def _within(limit_s: float, call: Callable[[], Answer]) -> Answer:
    """Return the result of a call. Raises what it raises, and TimeoutError after `limit_s`."""
    done: list[Answer] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError
    return done[0]
