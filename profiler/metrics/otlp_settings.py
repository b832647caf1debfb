# SPDX-License-Identifier: Apache-2.0
"""Where and how metrics are pushed: the variables of OpenTelemetry's specification.

"OpenTelemetry Protocol Exporter", "Environment Variable Specification" and "Resource SDK". A
variable with METRICS in its name wins over the general one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted

DEFAULT_ENDPOINT = "http://localhost:4318"
_PATH = "/v1/metrics"
_TIMEOUT_MS, _INTERVAL_MS = 10_000, 60_000
_LONGEST_MS = 24 * 3600 * 1000
_URL = re.compile("[!-~]+")  # RFC 3986: all other characters are percent-encoded
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, token
_PREFIX, _OF_METRICS = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_METRICS_"
#: Every variable that is read.
VARIABLES = (
    *(f"{_PREFIX}{name}" for name in ("ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION", "PROTOCOL")),
    *(f"{_PREFIX}{name}" for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")),
    *("OTEL_METRIC_EXPORT_INTERVAL", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"),
)


@dataclass(frozen=True)
class OtlpSettings:
    """One endpoint. `headers` may hold credentials, so they are not shown."""

    host: str
    port: int
    path: str
    is_https: bool
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    interval_s: float
    is_compressed: bool
    resource: Mapping[str, str]
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None

    @property
    def shown(self) -> str:
        """The endpoint for messages, without user, password and query."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        path = self.path.partition("?")[0]
        return printable(f"http{'s' * self.is_https}://{host}:{self.port}{path}")


def settings_from(
    environment: Mapping[str, str], url: str | None, resource: Mapping[str, str]
) -> OtlpSettings:
    """Return the settings; `url` (a base, as in …_ENDPOINT) wins over the variables.

    `resource` has the attributes that the variables may replace. Raises UsageError.
    """

    def variable(name: str) -> str:
        return _OF_METRICS + name if environment.get(_OF_METRICS + name) else _PREFIX + name

    def value(name: str) -> str | None:
        return environment.get(variable(name)) or None

    protocol = value("PROTOCOL") or "http/json"
    if protocol != "http/json":
        raise UsageError(
            f"OTLP by {quoted(protocol)} is not supported, only by http/json",
            f"set {_OF_METRICS}PROTOCOL=http/json, and the endpoint's HTTP port (4318)",
        )
    compression = value("COMPRESSION") or "none"
    if compression not in ("none", "gzip"):
        raise UsageError(f"invalid compression {quoted(compression)} of OTLP", "use gzip or none")
    parts, host, port = _split(_endpoint(environment, url))
    if parts.username is not None:
        raise UsageError(
            "the URL of the OTLP endpoint has a user name",
            f"pass credentials in {_PREFIX}HEADERS, which no message shows",
        )
    return OtlpSettings(
        host=host,
        port=port,
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        is_https=parts.scheme == "https",
        headers=_headers(value("HEADERS") or ""),
        timeout_s=_seconds(environment, variable("TIMEOUT"), _TIMEOUT_MS),
        interval_s=_seconds(environment, "OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL_MS),
        is_compressed=compression == "gzip",
        resource=_resource(environment, resource),
        certificate=value("CERTIFICATE"),
        client_certificate=value("CLIENT_CERTIFICATE"),
        client_key=value("CLIENT_KEY"),
    )


def _endpoint(environment: Mapping[str, str], url: str | None) -> str:
    """Return the full URL: only that of metrics alone is used as it is."""
    own = environment.get(_OF_METRICS + "ENDPOINT")
    if url is None and own:
        return own
    base = url or environment.get(_PREFIX + "ENDPOINT") or DEFAULT_ENDPOINT
    place, mark, query = base.partition("?")
    return f"{place.rstrip('/')}{_PATH}{mark}{query}"


def _split(url: str) -> tuple[SplitResult, str, int]:
    """Return the parts of a URL that a request can be sent to, its host and its port.

    Raises UsageError.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # what the look-up of a name does with it
    except ValueError:
        host, port = "", 0
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    if not host or not port or parts.scheme not in ("http", "https") or not _URL.fullmatch(url):
        raise UsageError("invalid URL of the OTLP endpoint", f"use one like {DEFAULT_ENDPOINT}")
    return parts, host, port


def _headers(text: str) -> dict[str, str]:
    """Return `name=value,…`, percent-decoded; no message shows a value."""
    found = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, separator, value = (word.strip() for word in pair.partition("="))
        decoded = unquote(value)
        is_value = decoded.isascii() and decoded.isprintable()
        if not separator or not _HEADER.fullmatch(name) or not is_value:
            raise UsageError(f"invalid {_PREFIX}HEADERS", "write them as name=value,name=value")
        found[name] = decoded
    return found


def _seconds(environment: Mapping[str, str], name: str, default_ms: int) -> float:
    text = environment.get(name)
    if not text:
        return default_ms / 1000
    if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) <= _LONGEST_MS):
        raise UsageError(f"invalid time {quoted(text)} in {name}", "use milliseconds, such as 5000")
    return int(text) / 1000


def _resource(environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes. A value with any mistake is discarded as a whole (Resource SDK)."""
    found = dict(given)
    pairs = [each for each in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if each]
    split = [pair.partition("=") for pair in pairs]
    if all(separator and name.strip() for name, separator, _ in split):
        found.update({unquote(name.strip()): unquote(text.strip()) for name, _, text in split})
    name = environment.get("OTEL_SERVICE_NAME")
    return {**found, "service.name": name} if name else found
