# SPDX-License-Identifier: Apache-2.0
"""The HTTP server for Prometheus: prometheus_client's application, within bounds.

prometheus_client's own server listens on all addresses, starts a thread for each connection and
waits for slow clients without end. This one has at most `MOST_CONNECTIONS`, each for at most
`CONNECTION_S` in all, and resolves no host names.
"""

from __future__ import annotations

import contextlib
import io
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

MOST_CONNECTIONS = 8
CONNECTION_S = 5.0
PATH = "/metrics"
_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\n\r\n"
_Application = Callable[..., Iterable[bytes]]


class ExportServer:
    """Serves a registry at `address` from `start` to `close`.

    Making it opens the port, and raises OSError. `at_start` is called in each thread that serves.
    """

    def __init__(
        self,
        address: tuple[str, int],
        registry: CollectorRegistry,
        at_start: Callable[[], None] = lambda: None,
        *,
        connection_s: float = CONNECTION_S,
    ) -> None:
        kind = _Server6 if ":" in address[0] else _Server
        self._server = kind(address, connection_s, at_start)
        self._server.set_app(_only_metrics(make_wsgi_app(registry)))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="exporter", daemon=True
        )

    @property
    def port(self) -> int:
        """The port in use, also if 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Accept connections, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop and close the port; connections in progress are cut."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _only_metrics(application: _Application) -> _Application:
    """Return the application for one path; a failure is an answer, not a traceback."""

    def answer(request: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, text = "404 Not Found", f"the metrics are at {PATH}"
        if request.get("PATH_INFO") == PATH:
            try:
                # name[]= would select by names that a collector tells in advance: none
                return application({**request, "QUERY_STRING": ""}, start_response)
            except Exception as error:
                status, text = "500 Internal Server Error", f"no metrics: {error or 'timed out'}"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return answer


class _Handler(WSGIRequestHandler):
    """Logs nothing, and does not look up the client's name."""

    def get_stderr(self) -> TextIO:
        """Return where wsgiref prints tracebacks of clients that are gone: nowhere."""
        return io.StringIO()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def address_string(self) -> str:
        return str(self.client_address[0])


class _Server(WSGIServer):
    request_queue_size = MOST_CONNECTIONS
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], connection_s: float, at_start: Callable[[], None]
    ) -> None:
        self._connection_s, self._at_start = connection_s, at_start
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without `socket.getfqdn`, which asks the name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = map(str, self.server_address[:2])  # type: ignore
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.send(_BUSY, socket.MSG_DONTWAIT)
            self.shutdown_request(request)
            return
        try:
            threading.Thread(
                target=self._serve, args=(request, client_address), name="scrape", daemon=True
            ).start()
        except RuntimeError:  # no more threads (TasksMax=)
            self._slots.release()
            raise  # socketserver closes the connection

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        """Serve one connection; after its time it is cut, wherever it is."""
        cut = threading.Timer(self._connection_s, _cut, (request,))
        cut.daemon = True
        try:
            request.settimeout(self._connection_s)
            cut.start()
            self._at_start()
            self.finish_request(request, client_address)
        except Exception:  # the client is gone, was cut, or speaks no HTTP
            self.handle_error(request, client_address)
        finally:
            cut.cancel()
            self.shutdown_request(request)
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: an error of one connection concerns nobody else."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _cut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
