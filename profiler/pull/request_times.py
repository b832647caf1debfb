# SPDX-License-Identifier: Apache-2.0
"""Where a client's connections spend their time: first bytes, bodies, writing and retries.

Measured from botocore's events, whichever part of boto3 makes the requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Called for each request with the time in ns from its last attempt to the first byte, the time in
#: ns of the attempts before with their pauses, and how many of them S3 answered with SlowDown.
OnRequest = Callable[[int, int, int], None]
#: Called for each read of a body with its time in ns and the time in ns since the previous read,
#: in which the block is written or waits to be.
OnRead = Callable[[int, int], None]

_KEY = "writewise_attempts"
#: SlowDown, and the status with which other servers ask for less.
_SLOW_DOWN_STATUS = (429, 503)


@dataclass
class _Attempts:
    """One request: when its last attempt began, and how long those before took."""

    sent_ns: int
    has_begun: bool = False
    repeated_ns: int = 0
    slow_downs: int = 0

    def begin(self) -> None:
        """Note the start of an attempt."""
        now_ns = time.monotonic_ns()
        if self.has_begun:
            self.repeated_ns += now_ns - self.sent_ns
        self.has_begun, self.sent_ns = True, now_ns


def observe_requests(client: Any, on_request: OnRequest, on_read: OnRead) -> None:
    """Report the times of every later S3 request of a boto3 client, from any thread.

    A request that gets no answer, even after retries, is not reported.
    """

    def begin(context: dict[str, Any], **_: Any) -> None:
        context[_KEY] = _Attempts(time.monotonic_ns())

    def begin_attempt(request: Any, **_: Any) -> None:
        if _KEY in request.context:  # a presigned request has none
            request.context[_KEY].begin()

    def judge(response: Any, request_dict: dict[str, Any], **_: Any) -> None:
        if response is not None and response[0].status_code in _SLOW_DOWN_STATUS:
            request_dict["context"][_KEY].slow_downs += 1

    def end(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        done: _Attempts = context.pop(_KEY)
        on_request(time.monotonic_ns() - done.sent_ns, done.repeated_ns, done.slow_downs)
        if hasattr(parsed.get("Body"), "read"):
            parsed["Body"] = _TimedBody(parsed["Body"], on_read)

    events = client.meta.events
    events.register("before-call.s3", begin)
    events.register("request-created.s3", begin_attempt)
    events.register("needs-retry.s3", judge)
    events.register_last("after-call.s3", end)


class _TimedBody:
    """A body that reports the time of each read, and otherwise acts as the body it wraps."""

    def __init__(self, body: Any, on_read: OnRead) -> None:
        self._body, self._on_read = body, on_read
        self._ended_ns: int | None = None

    def read(self, *arguments: Any, **options: Any) -> Any:
        began_ns = time.monotonic_ns()
        between_ns = 0 if self._ended_ns is None else began_ns - self._ended_ns
        try:
            return self._body.read(*arguments, **options)
        finally:
            self._ended_ns = time.monotonic_ns()
            self._on_read(self._ended_ns - began_ns, between_ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)
