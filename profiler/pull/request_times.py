"""Where a client's connections spend their time: waiting for a first byte, or reading bodies.

Taken from botocore's own events, so that it holds for whatever of boto3 makes the requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

#: Gets the nanoseconds from a request to its first byte, and those of each reading of a body.
OnRequest = Callable[[int], None]
OnRead = Callable[[int], None]

_SENT_NS = "writewise_sent_ns"


def observe_requests(client: Any, on_request: OnRequest, on_read: OnRead) -> None:
    """Tell the times of every S3 request of a boto3 client from here on.

    Retries, with the pauses before them, count to the request. Called from any thread.
    """

    def begin(context: dict[str, Any], **_: Any) -> None:
        context[_SENT_NS] = time.monotonic_ns()

    def end(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        on_request(time.monotonic_ns() - context.pop(_SENT_NS))
        if hasattr(parsed.get("Body"), "read"):
            parsed["Body"] = _TimedBody(parsed["Body"], on_read)

    client.meta.events.register("before-call.s3", begin)
    client.meta.events.register_last("after-call.s3", end)


class _TimedBody:
    """A body that tells how long each reading took, and is the body it wraps otherwise."""

    def __init__(self, body: Any, on_read: OnRead) -> None:
        self._body, self._on_read = body, on_read

    def read(self, *arguments: Any, **options: Any) -> Any:
        started_ns = time.monotonic_ns()
        try:
            return self._body.read(*arguments, **options)
        finally:
            self._on_read(time.monotonic_ns() - started_ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)
