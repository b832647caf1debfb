# SPDX-License-Identifier: Apache-2.0
"""The read-only S3 protocol of the lab's server, as an HTTP request handler.

It has GET and HEAD of objects with single ranges and If-Match, HeadBucket, ListBuckets, and
ListObjectsV2 with paging, all with path-style addresses and without authentication. Source: the
pages of these operations in the Amazon S3 API reference.
"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from profiler.lab.s3_listing import bucket_document, listing_document
from profiler.lab.s3_objects import Digest, ObjectStore, http_date

REGION = "us-east-1"
_LIST_PARAMETERS = {
    *("list-type", "prefix", "delimiter", "max-keys", "continuation-token", "start-after"),
    *("encoding-type", "fetch-owner"),
}
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")
#: The duration of each piece of a paced body: short compared with a part's transfer, long compared
#: with the cost of waking up.
PACE_S = 0.010
#: How much time a connection may catch up after its client kept it waiting.
_CATCH_UP_S = 0.050


@dataclass(frozen=True)
class Shape:
    """The emulated latency and rate of each connection; None means as fast as possible."""

    first_byte_latency_s: float | None = 0.020
    rate_bytes_per_s: float | None = 90e6


@dataclass(frozen=True)
class Service:
    """The objects that a handler serves, and their shape."""

    store: ObjectStore
    shape: Shape


class S3Error(Exception):
    """An error as the answer: HTTP status, S3's code and additional headers."""

    def __init__(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(code)
        self.status, self.code, self.headers = status, code, headers or {}


def parse_range(header: str | None, size_bytes: int) -> tuple[int, int] | None:
    """Return the first byte and the length of a Range header; None for the whole object.

    As in S3, a header that is malformed or has several ranges is ignored. Raises S3Error 416 for a
    range that begins after the end.
    """
    match = _RANGE.fullmatch(header or "")
    if not match or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    start = int(first) if first else max(0, size_bytes - int(last))
    end = min(int(last), size_bytes - 1) if first and last else size_bytes - 1
    if first and last and int(last) < start:
        return None
    if start >= size_bytes:
        raise S3Error(416, "InvalidRange", {"Content-Range": f"bytes */{size_bytes}"})
    return start, end - start + 1


class S3Handler(BaseHTTPRequestHandler):
    """One connection's requests. A subclass sets `service`."""

    service: Service
    protocol_version = "HTTP/1.1"
    server_version = "WritewiseLab"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer a HEAD with the same headers and no body."""
        self._answer()

    def _refuse(self) -> None:
        self.close_connection = True  # the request's body stays unread
        self.send_error_document(S3Error(405, "MethodNotAllowed", {"Allow": "GET, HEAD"}))

    do_PUT = do_POST = do_DELETE = _refuse  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing: a log line per request would cost more than the request."""

    def _answer(self) -> None:
        if self.service.shape.first_byte_latency_s:
            time.sleep(self.service.shape.first_byte_latency_s)
        try:
            self.route()
        except S3Error as error:
            self.send_error_document(error)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def route(self) -> None:
        """Answer the request according to its path. Raises S3Error, which becomes the answer."""
        path, _, query = self.path.partition("?")
        bucket, _, key = path.lstrip("/").partition("/")
        parameters = {
            name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()
        }
        bucket, key = unquote(bucket), unquote(key)
        if not bucket:
            return self.send_document(200, bucket_document(self.service.store))
        if not self.service.store.has_bucket(bucket):
            raise S3Error(404, "NoSuchBucket")
        if key:
            return self.send_object(bucket, key)
        if self.command == "HEAD":
            return self.send_document(200, "")
        return self.send_listing(bucket, parameters)

    # -- objects ---------------------------------------------------------------------------------

    def send_object(self, bucket: str, key: str) -> None:
        """Answer a request for an object. Raises S3Error."""
        try:
            descriptor = self.service.store.open(bucket, key)
        except (OSError, ValueError):  # ValueError: a NUL in the key
            raise S3Error(404, "NoSuchKey") from None
        try:
            self._send_file(descriptor)
        finally:
            os.close(descriptor)

    def _send_file(self, descriptor: int) -> None:
        digest, found = self.service.store.digest(descriptor), os.fstat(descriptor)
        self._check_precondition(digest)
        part = parse_range(self.headers.get("Range"), found.st_size)
        start, length = part or (0, found.st_size)
        self.send_response(206 if part else 200)
        if part:
            content_range = f"bytes {start}-{start + length - 1}/{found.st_size}"
            self.send_header("Content-Range", content_range)
        elif self.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED":
            # Only for the whole object: clients would compare it with a range and fail.
            self.send_header("x-amz-checksum-crc64nvme", digest.crc64nvme)
            self.send_header("x-amz-checksum-type", "FULL_OBJECT")
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Type", "binary/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{digest.etag}"')
        self.send_header("Last-Modified", http_date(found.st_mtime))
        self.end_headers()
        if self.command == "GET":
            self.send_body(descriptor, start, length)

    def _check_precondition(self, digest: Digest) -> None:
        wanted = self.headers.get("If-Match")
        if wanted not in (None, "*") and digest.etag not in re.split(r'[",\s]+', str(wanted)):
            raise S3Error(412, "PreconditionFailed")

    def send_body(self, descriptor: int, start: int, length: int) -> None:
        """Send part of a file, at the shape's rate if it has one."""
        position, end = start, start + length
        rate = self.service.shape.rate_bytes_per_s
        piece = max(65536, int(rate * PACE_S)) if rate else length
        due_s = time.monotonic()
        while position < end:
            sent = _send_all(self.connection, descriptor, position, min(piece, end - position))
            position += sent
            if rate:
                due_s = _pause_until(due_s + sent / rate)

    # -- buckets ---------------------------------------------------------------------------------

    def send_listing(self, bucket: str, parameters: dict[str, str]) -> None:
        """Answer ListObjectsV2 with these query parameters. Raises S3Error."""
        if parameters.get("list-type") != "2" or not _LIST_PARAMETERS.issuperset(parameters):
            raise S3Error(501, "NotImplemented")
        try:
            document = listing_document(self.service.store, bucket, parameters)
        except ValueError:
            raise S3Error(400, "InvalidArgument") from None
        self.send_document(200, document)

    # -- documents -------------------------------------------------------------------------------

    def send_error_document(self, error: S3Error) -> None:
        """Send S3's error document; a HEAD gets only its status."""
        body = f"<Code>{error.code}</Code><Message>{error.code}</Message>"
        resource = f"<Resource>{escape(self.path)}</Resource>"
        self.send_document(error.status, f"<Error>{body}{resource}</Error>", error.headers)

    def send_document(
        self, status: int, document: str, headers: dict[str, str] | None = None
    ) -> None:
        """Send an XML document."""
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n{document}' if document else ""
        content = body.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {"x-amz-bucket-region": REGION, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _send_all(connection: socket.socket, descriptor: int, position: int, length: int) -> int:
    """Call sendfile until `length` bytes are sent, and return the number."""
    sent = 0
    while sent < length:
        now = os.sendfile(connection.fileno(), descriptor, position + sent, length - sent)
        if now == 0:
            raise ConnectionResetError("the file was truncated while it was sent")
        sent += now
    return sent


def _pause_until(due_s: float) -> float:
    """Sleep until `due_s` on the monotonic clock, and return when the next piece's time begins.

    That is when the piece was due, not when the sleep ended, so that errors do not add up.
    """
    now = time.monotonic()
    if now < due_s:
        time.sleep(due_s - now)
    return max(due_s, now - _CATCH_UP_S)
