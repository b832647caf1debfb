# SPDX-License-Identifier: Apache-2.0
"""The instance metadata service, version 2: a token first, then paths below /latest/meta-data/.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
Requests never go through a proxy and follow no redirection, and each takes at most a second.
"""

from __future__ import annotations

import http.client
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Callable

ENDPOINT = "http://169.254.169.254"
TIMEOUT_S = 1.0
_TOKEN_TTL_S = 60
_MOST_BYTES = 4096

#: Sends a request and returns the response's body. Raises OSError, HTTPException for what is not
#: HTTP, or ValueError for bad text.
Opener = Callable[[urllib.request.Request], bytes]


class MetadataError(Exception):
    """The service did not answer correctly; the message is a sentence without its full stop."""


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Makes a redirection an HTTPError: the token is for the service alone."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def open_directly(request: urllib.request.Request) -> bytes:
    """Send a request without a proxy, whatever the environment says. Raises as `Opener`.

    The socket's timeout is that of each piece of the response, so a thread is waited for instead:
    a service that answers byte by byte takes no longer either.
    """
    answers: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
    threading.Thread(target=_send, args=(request, answers), daemon=True).start()
    try:
        answer = answers.get(timeout=TIMEOUT_S)
    except queue.Empty:
        raise TimeoutError(f"it took more than {TIMEOUT_S:g} s") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _send(request: urllib.request.Request, answers: queue.SimpleQueue[bytes | Exception]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirection)
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            answers.put(response.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        answers.put(error)


class Metadata:
    """A session with the service: one token for all requests."""

    def __init__(self, send: Opener = open_directly, endpoint: str = ENDPOINT) -> None:
        self._send = send
        self._endpoint = endpoint
        self._token: str | None = None

    def get(self, path: str) -> str | None:
        """Return the text at `path`, None if it does not exist (404). Raises MetadataError.

        A token that has expired (401) is replaced once.
        """
        is_new = self._token is None
        if self._token is None:
            self._token = self._new_token()
        request = self._request(f"meta-data/{path}")
        request.add_header("X-aws-ec2-metadata-token", self._token)
        try:
            return self._text(request)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            self._token = None
            if error.code == 401 and not is_new:
                return self.get(path)
            raise MetadataError(f"the metadata service answered {error.code}") from None

    def _new_token(self) -> str:
        request = self._request("api/token", "PUT")
        request.add_header("X-aws-ec2-metadata-token-ttl-seconds", str(_TOKEN_TTL_S))
        try:
            return self._text(request)
        except urllib.error.HTTPError as error:
            raise MetadataError(
                f"the metadata service gave no token (it answered {error.code})"
            ) from None

    def _request(self, path: str, method: str = "GET") -> urllib.request.Request:
        url = f"{self._endpoint}/latest/{path}"
        return urllib.request.Request(url, method=method)  # noqa: S310 - always the endpoint's HTTP

    def _text(self, request: urllib.request.Request) -> str:
        try:
            text = self._send(request).decode("ascii").strip()
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise MetadataError(f"the metadata service did not answer ({reason})") from None
        if not text.isprintable():
            raise MetadataError("the metadata service answered with text that is not printable")
        return text
