# SPDX-License-Identifier: Apache-2.0
"""A limit on the wait for an endpoint's first answer, so that a wrong address is reported soon.

Later requests keep boto3's own timeouts and retries, which suit large transfers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from profiler.pull.errors import explain, silent_endpoint

_T = TypeVar("_T")

#: With the start of Python and boto3 before it, a hang is reported within 10 s.
FIRST_ANSWER_S = 8.0
_EVENT = "needs-retry.s3"  # botocore emits it after each attempt, whether it was answered or not


def answered_in_time(client: Any, bucket: str, call: Callable[[], _T]) -> _T:
    """Run `call`, which makes requests of `bucket` with `client`, and return its result.

    Raises PullError when nothing has answered within FIRST_ANSWER_S; else what `call` raises. A
    thread of its own makes the requests: a name look-up has no timeout, and botocore tries each
    address of a name in turn.
    """
    has_answered = threading.Event()
    errors: list[Exception] = []
    future: Future[_T] = Future()

    def note_attempt(response: Any, caught_exception: Exception | None, **_: Any) -> None:
        if response is not None:
            has_answered.set()
        elif caught_exception is not None:
            errors.append(caught_exception)

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        has_answered.set()

    client.meta.events.register_first(_EVENT, note_attempt)
    threading.Thread(target=run, name="listing", daemon=True).start()
    try:
        if has_answered.wait(FIRST_ANSWER_S):
            return future.result()
    finally:
        client.meta.events.unregister(_EVENT, note_attempt)
    if errors:
        raise explain(errors[-1], bucket).as_error()
    raise silent_endpoint(client.meta.endpoint_url, FIRST_ANSWER_S).as_error()
