# SPDX-License-Identifier: Apache-2.0
"""The exporters of a running watch: the port for Prometheus, and pushes by OTLP.

Their threads drop all capabilities but that to read files, and ask the measuring thread for values.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profiler.metrics.definitions import MetricValue
from profiler.metrics.exposition import registry_of
from profiler.metrics.server import PATH, ExportServer
from profiler.recording import privileges
from profiler.service.desk import Desk

if TYPE_CHECKING:
    from profiler.metrics.otlp_push import OtlpPusher
    from profiler.metrics.otlp_settings import OtlpSettings

#: How often a port in use is tried again.
RETRY_NS = 10 * 10**9


@dataclass(frozen=True)
class ListenAddress:
    """An address, without names to look up, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this host reaches it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        return f"http://{self}{PATH}"


class Exporters:
    """Opens the port, or tries again while it is in use; pushes; `close` ends both."""

    def __init__(
        self,
        desk: Desk,
        values: Callable[[], list[MetricValue]],
        version: str,
        say: Callable[[str], None],
        listen: ListenAddress | None,
        otlp: OtlpSettings | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._desk, self._values, self._version = desk, values, version
        self._say, self._listen, self._otlp = say, listen, otlp
        self._clock_ns = clock_ns
        self._start_unix_ns = time.time_ns()
        self._server: ExportServer | None = None
        self._pusher: OtlpPusher | None = None
        self._due_ns = 0
        self._has_failed = False

    def start(self) -> None:
        """Open the port and begin to push."""
        self.step()
        if self._otlp is not None:
            from profiler.metrics.otlp_push import OtlpPusher  # TLS takes memory

            self._pusher = OtlpPusher(self._otlp, self._request, self._say, drop_privileges)
            self._pusher.start()

    def step(self) -> None:
        """Try to open the port, if that is due."""
        if self._server or self._listen is None or self._clock_ns() < self._due_ns:
            return
        address = (self._listen.host, self._listen.port)
        registry = registry_of(lambda: self._desk.ask(self._values))
        try:
            self._server = ExportServer(address, registry, drop_privileges)
        except OSError as error:
            self._due_ns = self._clock_ns() + RETRY_NS
            if not self._has_failed:
                self._say(
                    f"cannot listen on {self._listen}: {error.strerror}; measuring continues, "
                    f"retry every {RETRY_NS // 10**9} s (--listen names another address)"
                )
            self._has_failed = True
            return
        self._server.start()
        if self._has_failed:
            self._say(f"listening on {self._listen} now")

    @property
    def port(self) -> int | None:
        """The open port; None if there is none."""
        return self._server.port if self._server else None

    def close(self) -> None:
        """Close the port and end the pushes."""
        if self._server:
            self._server.close()
        if self._pusher:
            self._pusher.close()

    def _request(self) -> dict[str, Any]:
        from profiler.metrics.otlp import request_of
        from profiler.metrics.otlp_push import PushError

        try:
            values = self._desk.ask(self._values)
        except Exception as error:  # the push fails with a sentence, and measuring goes on
            raise PushError(f"they cannot be read ({error})") from None
        return request_of(
            values,
            self._otlp.resource if self._otlp else {},
            self._version,
            start_unix_ns=self._start_unix_ns,
            now_unix_ns=time.time_ns(),
        )


def resource_of(version: str, node: str) -> Mapping[str, str]:
    """Return the attributes by which OTLP names this service, unless variables replace them.

    Prometheus makes its label `instance` of `service.instance.id` and of nothing else: without it
    the series of all hosts would be one.
    """
    return {
        "service.name": "writewise",
        "service.version": version,
        "service.instance.id": node,
        "host.name": node,
    }


def drop_privileges() -> None:
    """Keep only what imports need: code may be in a home directory."""
    privileges.keep_only({privileges.DAC_READ_SEARCH})
