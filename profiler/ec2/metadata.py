# SPDX-License-Identifier: Apache-2.0
"""The instance metadata service, version 2: a token first, then paths below /latest/meta-data/.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
Requests never go through a proxy, and each takes at most a second.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable

ENDPOINT = "http://169.254.169.254"
TIMEOUT_S = 1.0
_TOKEN_TTL_S = 60
_MOST_BYTES = 4096

#: Sends a request and returns the response's body. Raises OSError, or ValueError for bad text.
Opener = Callable[[urllib.request.Request], bytes]


class MetadataError(Exception):
    """The service did not answer correctly; the message is a sentence without its full stop."""


def open_directly(request: urllib.request.Request) -> bytes:
    """Send a request without a proxy, whatever the environment says. Raises OSError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_S) as response:
        body: bytes = response.read(_MOST_BYTES)
        return body


class Metadata:
    """A session with the service: one token for all requests."""

    def __init__(self, send: Opener = open_directly, endpoint: str = ENDPOINT) -> None:
        self._send = send
        self._endpoint = endpoint
        self._token: str | None = None

    def get(self, path: str) -> str | None:
        """Return the text at `path`, None if it does not exist (404). Raises MetadataError."""
        if self._token is None:
            self._token = self._new_token()
        request = self._request(f"meta-data/{path}")
        request.add_header("X-aws-ec2-metadata-token", self._token)
        try:
            return self._text(request)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
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
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise MetadataError(f"the metadata service did not answer ({reason})") from None
        if not text.isprintable():
            raise MetadataError("the metadata service answered with text that is not printable")
        return text
