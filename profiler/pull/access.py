# SPDX-License-Identifier: Apache-2.0
"""How a pull reaches S3. Everything not set here comes from boto3's own configuration chain."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted

_CONNECT_TIMEOUT_S = 10  # botocore's default is 60 s for each of five attempts
#: Silence on a connection. botocore's default is 60 s, for each attempt.
READ_TIMEOUT_S = 20
_DEFAULT_POOL_CONNECTIONS = 10
#: Variables from which an AWS SDK takes credentials before it looks at the profile.
_CREDENTIAL_VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE"),
)


@dataclass(frozen=True)
class S3Access:
    """The endpoint, region and profile to use, and whether to sign requests.

    None means what boto3 finds in the environment and ~/.aws. Small and picklable: each worker
    process makes its own client from it.
    """

    endpoint_url: str | None = None
    sign_requests: bool = True
    region: str | None = None
    profile: str | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for an endpoint that is not an http(s) URL or contains a password."""
        if self.endpoint_url is not None:
            _check_endpoint(self.endpoint_url)

    def make_client(self, max_connections: int = _DEFAULT_POOL_CONNECTIONS) -> Any:
        """Return a boto3 S3 client with room for `max_connections`.

        With fewer connections than threads, urllib3 opens and discards a connection for each part.
        Raises PullError when botocore cannot use the configuration.
        """
        from profiler.pull.errors import PullError, explain_configuration

        try:
            return self._make_client(max_connections)
        except PullError:
            raise
        except Exception as error:  # botocore raises AttributeError for `s3 = foo`, too
            raise explain_configuration(error).as_error() from error

    def resolved(self, client: Any) -> S3Access:
        """Return this access with the endpoint that the environment or ~/.aws/config names, if any.

        For clients without boto3, which do not all read these. `client` comes from `make_client`.
        """
        if self.endpoint_url is not None or client.meta.endpoint_url == self._default_endpoint():
            return self
        return replace(self, endpoint_url=client.meta.endpoint_url)

    def make_session(self) -> Any:
        """Return a botocore session with this region and profile.

        It reads botocore's description of S3 once per process: parsing it takes three quarters of
        the time to make a client.
        """
        from botocore.session import Session

        session = Session(profile=self.profile)
        if self.region is not None:
            session.set_config_variable("region", self.region)
        loader = _loader(session.get_config_variable("data_path"))
        session.register_component("data_loader", loader)
        return session

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment `given` with this region and profile, for other AWS programs.

        As with `aws --profile`, an explicit profile takes precedence over credentials in the
        environment.
        """
        changed = dict(given)
        if self.profile is not None:
            for name in (*_CREDENTIAL_VARIABLES, "AWS_DEFAULT_PROFILE"):
                changed.pop(name, None)
            changed["AWS_PROFILE"] = self.profile
        if self.region is not None:  # some SDKs read the first name, some the second
            changed["AWS_REGION"] = changed["AWS_DEFAULT_REGION"] = self.region
        return changed

    def _default_endpoint(self) -> str:
        """Return the endpoint that boto3 uses when the configuration names none."""
        from botocore.config import Config

        config = Config(ignore_configured_endpoint_urls=True)
        return str(self.make_session().create_client("s3", config=config).meta.endpoint_url)

    def _make_client(self, max_connections: int) -> Any:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config

        config = Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=max(max_connections, _DEFAULT_POOL_CONNECTIONS),
            signature_version=None if self.sign_requests else UNSIGNED,
        )
        session = self.make_session()
        parsing = session.get_component("response_parser_factory")
        parsing.set_parser_defaults(timestamp_parser=str)  # nobody reads the dates
        _check_ca_bundle(session.get_config_variable("ca_bundle"))
        boto3_session = boto3.session.Session(botocore_session=session)
        client = boto3_session.client("s3", endpoint_url=self.endpoint_url, config=config)
        _check_configured_endpoint(client.meta.endpoint_url)
        return client


@functools.cache
def _loader(data_path: str | None) -> Any:
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _check_ca_bundle(path: str | None) -> None:
    """Raise PullError for an unusable CA bundle, which botocore would report as a TLS failure."""
    import ssl

    from profiler.pull.errors import PullError

    if path is None:
        return
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:  # SSLError, for a file without certificates, is one
        is_empty = isinstance(error, ssl.SSLError)
        reason = "it contains no certificate" if is_empty else error.strerror
        raise PullError(
            f"the CA bundle {quoted(path)} cannot be used: {reason}",
            "check AWS_CA_BUNDLE, or ca_bundle in ~/.aws/config",
        ) from error


def _check_configured_endpoint(url: str) -> None:
    """Raise PullError for an endpoint from the environment or a file that contains a password.

    botocore itself refuses what is not a URL.
    """
    from profiler.pull.errors import PullError

    if "@" in urlsplit(url).netloc:
        raise PullError(
            "the endpoint in the AWS configuration contains a user name or password",
            "remove it from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url in ~/.aws/config",
        )


def _check_endpoint(url: str) -> None:
    """Raise UsageError for an unusable endpoint, without quoting it: it may contain a password."""
    hint = "use http://HOST:PORT or https://HOST"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError("--endpoint-url is not a valid URL", hint) from None
    if "@" in url:
        raise UsageError("--endpoint-url contains a user name or password", hint)
    if not is_good or any(character <= " " for character in url):
        raise UsageError("--endpoint-url is not an http or https URL", hint)
