# SPDX-License-Identifier: Apache-2.0
"""Faults of the lab's S3 server, to test that a pull survives them.

A fault is data: which requests it affects, how often, and what happens to the answer. Counts are in
memory that the server's processes share, so `times` applies to the whole server.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fnmatch
import json
import multiprocessing
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any, ClassVar

from profiler.lab.s3_protocol import S3Error, S3Handler

#: refuse: an error document. reset, truncate: RST or FIN within the body. corrupt: a byte of the
#: body is changed. wrong-checksum: the checksum's header is changed. trickle: the rest of the body
#: is sent one byte at a time. silence: nothing more is sent.
KINDS = ("refuse", "reset", "truncate", "corrupt", "wrong-checksum", "trickle", "silence")
_ALWAYS = 2**62
_SILENCE_S = 60.0
_WRONG_CHECKSUM = base64.b64encode(bytes(8)).decode()


@dataclass(frozen=True)
class Fault:
    """A fault that affects requests of `method` for objects whose key matches the pattern `key`.

    `times` is the number of requests that it affects, None for all. `status` and `code` are those
    of a refusal, which names `region` as the bucket's (None: the server's). `after_bytes` of the
    body are sent correctly first; `pause_s` is the time between the bytes of a trickle. LIST is the
    method of listings, whose key is their prefix and which can only be refused; `*` is GET, HEAD
    and LIST. Raises ValueError for an unknown kind.
    """

    kind: str
    key: str = "*"
    method: str = "GET"
    times: int | None = None
    status: int = 503
    code: str = "SlowDown"
    after_bytes: int = 0
    pause_s: float = 0.1
    region: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown kind."""
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; use {', '.join(KINDS)}")

    @property
    def refusal(self) -> S3Error:
        """The answer of the kind `refuse`."""
        headers = {"x-amz-bucket-region": self.region} if self.region else {}
        return S3Error(self.status, self.code, headers)

    def meets(self, method: str, key: str) -> bool:
        """Return whether it affects this request."""
        return self.method in ("*", method) and fnmatch.fnmatchcase(key, self.key)


class FaultPlan:
    """Faults, and how often each may still occur; make it before the server forks."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = tuple(faults)
        self._lock = multiprocessing.get_context("fork").Lock()
        left = [_ALWAYS if fault.times is None else fault.times for fault in self._faults]
        self._left: ctypes.Array[ctypes.c_int64] = RawArray(ctypes.c_int64, left)

    def take(self, method: str, key: str) -> Fault | None:
        """Count down and return the first fault for the request that is left, or None."""
        with self._lock:
            for number, fault in enumerate(self._faults):
                if self._left[number] > 0 and fault.meets(method, key):
                    self._left[number] -= 1
                    return fault
        return None


class FaultyHandler(S3Handler):
    """The server's handler with faults. A subclass sets `plan` and `service`."""

    plan: ClassVar[FaultPlan]
    _fault: Fault | None = None

    def send_object(self, bucket: str, key: str) -> None:
        """Answer as S3Handler does, with the fault for this request."""
        self._fault = self.plan.take(self.command, key)
        try:
            if self._fault and self._fault.kind == "refuse":
                raise self._fault.refusal
            super().send_object(bucket, key)
        finally:
            self._fault = None

    def send_listing(self, bucket: str, parameters: dict[str, str]) -> None:
        """Answer as S3Handler does, or refuse."""
        fault = self.plan.take("LIST", parameters.get("prefix", ""))
        if fault and fault.kind == "refuse":
            raise fault.refusal
        super().send_listing(bucket, parameters)

    def send_header(self, keyword: str, value: str) -> None:
        """Send a header, with a wrong checksum if that is the fault."""
        is_wrong = self._fault is not None and self._fault.kind == "wrong-checksum"
        if is_wrong and keyword == "x-amz-checksum-crc64nvme":
            value = _WRONG_CHECKSUM
        super().send_header(keyword, value)

    def send_body(self, descriptor: int, start: int, length: int) -> None:
        """Send part of a file, with the fault."""
        fault = self._fault
        if fault is None or fault.kind in ("refuse", "wrong-checksum"):
            super().send_body(descriptor, start, length)
            return
        good = min(fault.after_bytes, max(0, length - 1))
        super().send_body(descriptor, start, good)
        self._go_wrong(fault, os.pread(descriptor, length - good, start + good))

    def _go_wrong(self, fault: Fault, rest: bytes) -> None:
        if fault.kind == "corrupt":
            self.connection.sendall(bytes([rest[0] ^ 0xFF]) + rest[1:] if rest else b"")
            return
        self.close_connection = True
        if fault.kind == "trickle":
            for position in range(len(rest)):
                time.sleep(fault.pause_s)
                self.connection.sendall(rest[position : position + 1])
        elif fault.kind == "silence":
            self._wait_for_the_client()
        elif fault.kind == "reset":
            _reset(self.connection)

    def _wait_for_the_client(self) -> None:
        """Wait until the client closes the connection, or for _SILENCE_S."""
        self.connection.settimeout(_SILENCE_S)
        with contextlib.suppress(OSError):
            self.connection.recv(1)


def _reset(connection: socket.socket) -> None:
    """Close with RST; socket.close would wait for the socket's file objects, and send FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())


def dump_faults(faults: Sequence[Fault]) -> str:
    """Return the JSON text that `load_faults` reads."""
    return json.dumps([asdict(fault) for fault in faults])


def load_faults(path: Path) -> tuple[Fault, ...]:
    """Read a JSON file: a list of objects with a Fault's fields. Raises ValueError."""
    listed = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(listed, list):
        raise ValueError(f"{path}: not a JSON list of faults")
    return tuple(_parse(number, item) for number, item in enumerate(listed))


def _parse(number: int, item: Mapping[str, Any]) -> Fault:
    known = {field.name for field in fields(Fault)}
    if not isinstance(item, dict) or "kind" not in item or not known.issuperset(item):
        fields_text = ", ".join(sorted(known))
        raise ValueError(f"faults[{number}]: must have kind, and only fields of {fields_text}")
    try:
        return Fault(**item)
    except ValueError as error:
        raise ValueError(f"faults[{number}].kind: {error}") from None
