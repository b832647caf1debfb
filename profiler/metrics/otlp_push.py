# SPDX-License-Identifier: Apache-2.0
"""Pushes metrics to an OTLP endpoint, in a thread of its own.

Whatever the endpoint does costs a sentence when it begins to fail, and one when it works again. A
push that failed is not repeated: counters are cumulative, so the next push has everything.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from profiler.metrics.otlp_settings import OtlpSettings

_ANSWER_BYTES = 1 << 16


class PushError(Exception):
    """A push failed; the message says why, as a part of a sentence."""


class OtlpPusher:
    """Pushes what `read` returns every interval, from `start` to `close`.

    `say` gets the sentences, `at_start` is called first in the thread.
    """

    def __init__(
        self,
        settings: OtlpSettings,
        read: Callable[[], dict[str, Any]],
        say: Callable[[str], None],
        at_start: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings, self._read, self._say, self._at_start = settings, read, say, at_start
        self._stop = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> None:
        """Begin; the first push comes after one interval."""
        self._thread.start()

    def close(self) -> None:
        """End without waiting for a push in progress."""
        self._stop.set()

    def _run(self) -> None:
        self._at_start()
        while not self._stop.wait(self._settings.interval_s):
            self.push()

    def push(self) -> bool:
        """Push once, and say what has changed; return whether it succeeded."""
        where = self._settings.shown
        try:
            rejected = send(self._settings, self._read())
        except PushError as error:
            if not self._is_failing:
                every = f"every {self._settings.interval_s:g} s"
                self._say(f"no metrics reach {where}: {error}; measuring continues, retry {every}")
            self._is_failing = True
            return False
        if rejected and not self._is_failing:
            self._say(f"{where} rejects a part of the metrics: {rejected}")
        elif self._is_failing and not rejected:
            self._say(f"metrics reach {where} again")
        self._is_failing = bool(rejected)
        return True


def send(settings: OtlpSettings, request: dict[str, Any]) -> str:
    """Send one request; return why a part was rejected, "" if none was. Raises PushError."""
    body = json.dumps(request, allow_nan=False).encode()
    headers = {
        "User-Agent": "writewise",
        **settings.headers,
        "Content-Type": "application/json",
    }
    if settings.is_compressed:
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    try:
        connection = _connection(settings)
    except (OSError, ssl.SSLError) as error:  # a certificate that cannot be read
        raise PushError(f"its certificates cannot be used ({_reason(error)})") from None
    over = threading.Event()
    timer = threading.Timer(settings.timeout_s, _end, (connection, over))
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        if over.is_set():  # there was nothing to cut, and nothing would cut the rest
            raise TimeoutError
        connection.request("POST", settings.path, body, headers)
        response = connection.getresponse()
        answer = response.read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = "it does not answer in time" if over.is_set() else _reason(error)
        raise PushError(reason) from None
    finally:
        timer.cancel()
        connection.close()
    if over.is_set():
        raise PushError("it does not answer in time")
    if response.status // 100 != 2:  # a redirection is not followed: it could lead anywhere
        raise PushError(f"it answers with HTTP status {response.status}")
    return _rejected(answer)


def _connection(settings: OtlpSettings) -> http.client.HTTPConnection:
    if not settings.is_https:
        return http.client.HTTPConnection(settings.host, settings.port, timeout=settings.timeout_s)
    context = ssl.create_default_context(cafile=settings.certificate)
    if settings.client_certificate:
        context.load_cert_chain(settings.client_certificate, settings.client_key, _no_passphrase)
    return http.client.HTTPSConnection(
        settings.host, settings.port, timeout=settings.timeout_s, context=context
    )


def _no_passphrase() -> bytes:
    """Raise OSError: OpenSSL would ask for it on the terminal, and wait for ever."""
    raise OSError(errno.EACCES, "the client's key has a passphrase")


def _end(connection: http.client.HTTPConnection, over: threading.Event) -> None:
    """Cut a connection whose time is over: an answer byte by byte would never time out."""
    over.set()
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError):
        return error.strerror or "the connection failed"
    return "its answer is not HTTP"


def _rejected(answer: bytes) -> str:
    """Return why a part was rejected (ExportMetricsPartialSuccess)."""
    try:
        partial = json.loads(answer)["partialSuccess"]
        count = int(partial.get("rejectedDataPoints", 0))
        reason = str(partial.get("errorMessage", ""))[:200]
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return ""  # an empty answer, or one in another form: all was taken
    if not count:
        return ""
    from contracts.shared.text import printable

    return f"{count} data points" + (f" ({printable(reason)})" if reason else "")
