# SPDX-License-Identifier: Apache-2.0
"""Our server's handler with faults, in threads of the test process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import ClassVar

from profiler.lab.s3_objects import ObjectStore
from profiler.lab.s3_protocol import S3Error, S3Handler, Service, Shape


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def serve(handler: type[S3Handler], root: Path, shape: Shape | None = None) -> Iterator[str]:
    store = ObjectStore(root)
    service = Service(store, shape or Shape(None, None))
    with _Server(("127.0.0.1", 0), type("Handler", (handler,), {"service": service})) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield "http://{}:{}".format(*server.server_address)
        finally:
            server.shutdown()
            thread.join()
            store.close()


class Corrupting(S3Handler):
    """Inverts the first byte of every body: headers and length are right."""

    def send_body(self, descriptor: int, start: int, length: int) -> None:
        content = bytearray(os.pread(descriptor, length, start))
        content[0] ^= 0xFF
        self.connection.sendall(content)


class Truncating(S3Handler):
    """Ends the connection after half of every body."""

    def send_body(self, descriptor: int, start: int, length: int) -> None:
        super().send_body(descriptor, start, length // 2)
        self.close_connection = True


class TruncatingOnce(S3Handler):
    """Ends the first connection after half of its body; later bodies are complete."""

    truncated = False

    def send_body(self, descriptor: int, start: int, length: int) -> None:
        self.close_connection = not TruncatingOnce.truncated
        TruncatingOnce.truncated = True
        super().send_body(descriptor, start, length // 2 if self.close_connection else length)


class Silent(S3Handler):
    """Accepts requests and does not answer until the test ends."""

    ended: ClassVar[threading.Event]

    def route(self) -> None:
        self.ended.wait(20)
        self.close_connection = True


class NoS3(S3Handler):
    """Answers every request with a page of its own, as a proxy or another server does."""

    page: ClassVar[bytes]
    status: ClassVar[int] = 200
    content_type: ClassVar[str] = "application/xml"

    def route(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Type", self.content_type)
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.page)


def page(status: int, text: str, content_type: str = "text/html") -> type[NoS3]:
    """Return a handler that answers every request with this page."""
    fields = {"page": text.encode(), "status": status, "content_type": content_type}
    return type("Page", (NoS3,), fields)


class PageForObjects(NoS3):
    """Lists as S3 does, and answers requests for objects with the page."""

    def route(self) -> None:
        if "list-type" in self.path:
            S3Handler.route(self)
        else:
            super().route()


class Refusing(S3Handler):
    """Answers requests with one error each until none are left, and then normally."""

    answers_left: ClassVar[list[S3Error]]

    def route(self) -> None:
        if self.answers_left:
            raise self.answers_left.pop()
        super().route()


def refusing(status: int, code: str, times: int = 100) -> type[Refusing]:
    errors = [S3Error(status, code) for _ in range(times)]
    return type("RefusingSome", (Refusing,), {"answers_left": errors})


class RefusingObjects(S3Handler):
    """Lists, but denies every object."""

    def send_object(self, bucket: str, key: str) -> None:
        raise S3Error(403, "AccessDenied")
