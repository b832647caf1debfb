"""How a pull reaches S3: everything else than this comes from boto3's own chain."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted

_CONNECT_TIMEOUT_S = 10  # botocore's own 60 s, five times over, is long to learn of a typing error
#: Of silence; botocore waits 60 s, and each of its retries again.
READ_TIMEOUT_S = 20
_DEFAULT_POOL_CONNECTIONS = 10


@dataclass(frozen=True)
class S3Access:
    """An endpoint instead of AWS's own, or None; and whether requests are signed.

    Small and picklable: each worker process makes its own client from it, after its start.
    """

    endpoint_url: str | None = None
    sign_requests: bool = True

    def __post_init__(self) -> None:
        """Refuse an endpoint that is no http(s) URL, or that carries a password."""
        if self.endpoint_url is not None:
            _check_endpoint(self.endpoint_url)

    def make_client(self, max_connections: int = _DEFAULT_POOL_CONNECTIONS) -> Any:
        """A boto3 S3 client with room for `max_connections`.

        With fewer connections than threads, urllib3 would open and throw away a connection for
        each part. Raises PullError for whatever botocore cannot make of the configuration.
        """
        from profiler.pull.errors import PullError, explain_configuration

        try:
            return self._make_client(max_connections)
        except PullError:
            raise
        except Exception as error:  # botocore raises AttributeError for `s3 = foo`, too
            raise explain_configuration(error).as_error() from error

    def resolved(self, client: Any) -> S3Access:
        """The same with the endpoint that the environment or ~/.aws/config names, if one does.

        For what fetches without boto3 and does not read all of these; `client` is of `make_client`.
        """
        if self.endpoint_url is not None or client.meta.endpoint_url == _own_endpoint_of_aws():
            return self
        return replace(self, endpoint_url=client.meta.endpoint_url)

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
        session = _new_session()
        parsing = session.get_component("response_parser_factory")
        parsing.set_parser_defaults(timestamp_parser=str)  # nobody reads the dates
        _check_ca_bundle(session.get_config_variable("ca_bundle"))
        boto3_session = boto3.session.Session(botocore_session=session)
        client = boto3_session.client("s3", endpoint_url=self.endpoint_url, config=config)
        _check_configured_endpoint(client.meta.endpoint_url)
        return client


def _own_endpoint_of_aws() -> str:
    """What boto3 would use if nothing named an endpoint."""
    from botocore.config import Config

    config = Config(ignore_configured_endpoint_urls=True)
    return str(_new_session().create_client("s3", config=config).meta.endpoint_url)


def _new_session() -> Any:
    """A session that reads botocore's own description of S3 once in a process.

    To read and parse it takes three quarters of the time that a client takes.
    """
    from botocore.session import get_session

    session = get_session()
    loader = _loader(session.get_config_variable("data_path"))
    session.register_component("data_loader", loader)
    return session


@functools.cache
def _loader(data_path: str | None) -> Any:
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _check_ca_bundle(path: str | None) -> None:
    """Said here, because at the first request botocore takes it for a failure of TLS."""
    import ssl

    from profiler.pull.errors import PullError

    if path is None:
        return
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:  # SSLError, for a file without certificates, is one
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise PullError(
            f"the CA bundle {quoted(path)} cannot be used: {reason}",
            "check AWS_CA_BUNDLE, or ca_bundle in ~/.aws/config",
        ) from error


def _check_configured_endpoint(url: str) -> None:
    """Of an endpoint that comes from the environment or a file; what is no URL botocore refuses."""
    from profiler.pull.errors import PullError

    if "@" in urlsplit(url).netloc:
        raise PullError(
            "the endpoint of the AWS configuration must not carry a user name or password",
            "check AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, and endpoint_url in ~/.aws/config",
        )


def _check_endpoint(url: str) -> None:
    """Whatever is wrong with it, it is not quoted: it may hold a password where none is seen."""
    hint = "use http://HOST:PORT or https://HOST"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError("--endpoint-url is no URL", hint) from None
    if "@" in url:
        raise UsageError("--endpoint-url must not carry a user name or password", hint)
    if not is_good or any(character <= " " for character in url):
        raise UsageError("--endpoint-url is no http or https URL", hint)
