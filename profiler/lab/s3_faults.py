"""What the lab's S3 server does wrong on demand, so that a pull can be seen to survive it.

Faults are data: which requests they meet, how often, and what happens to the answer. They are
counted in memory that the server's processes share, so `times` holds for the server as a whole.
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

#: refuse: an error document. reset, truncate: the connection ends by RST or FIN inside the body.
#: corrupt: a byte of the body is another. wrong-checksum: the checksum's header is. trickle: the
#: rest of the body comes a byte at a time. silence: nothing more comes.
KINDS = ("refuse", "reset", "truncate", "corrupt", "wrong-checksum", "trickle", "silence")
_ALWAYS = 2**62
_SILENCE_S = 60.0
_WRONG_CHECKSUM = base64.b64encode(bytes(8)).decode()


@dataclass(frozen=True)
class Fault:
    """One fault: it meets requests of `method` for objects whose key fits the pattern `key`.

    `times` is how many requests it meets, None is all. `status` and `code` are those of a refusal;
    `after_bytes` of the body are right before it begins, and `pause_s` lies between the bytes of a
    trickle. A refusal names `region` as the bucket's, None is the server's own. LIST is the method
    of listings, whose key is their prefix; they can be refused only, and `*` is GET, HEAD and LIST.
    Raises ValueError for a kind that there is not.
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
        """Refuse what would never do anything."""
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no fault; there are {', '.join(KINDS)}")

    @property
    def refusal(self) -> S3Error:
        """The answer of a `refuse`."""
        headers = {"x-amz-bucket-region": self.region} if self.region else {}
        return S3Error(self.status, self.code, headers)

    def meets(self, method: str, key: str) -> bool:
        """Whether a request is one of those that it is for."""
        return self.method in ("*", method) and fnmatch.fnmatchcase(key, self.key)


class FaultPlan:
    """Faults with what is left of each; make it before the server forks."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = tuple(faults)
        self._lock = multiprocessing.get_context("fork").Lock()
        left = [_ALWAYS if fault.times is None else fault.times for fault in self._faults]
        self._left: ctypes.Array[ctypes.c_int64] = RawArray(ctypes.c_int64, left)

    def take(self, method: str, key: str) -> Fault | None:
        """The first fault that meets the request and is left, used up by one; None without one."""
        with self._lock:
            for number, fault in enumerate(self._faults):
                if self._left[number] > 0 and fault.meets(method, key):
                    self._left[number] -= 1
                    return fault
        return None


class FaultyHandler(S3Handler):
    """The server's handler, with faults. A subclass sets `plan` beside `service`."""

    plan: ClassVar[FaultPlan]
    _fault: Fault | None = None

    def send_object(self, bucket: str, key: str) -> None:
        """Answer as S3Handler does, with the fault that meets the request."""
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
        """Send a header; the checksum's, of something else when that is the fault."""
        is_wrong = self._fault is not None and self._fault.kind == "wrong-checksum"
        if is_wrong and keyword == "x-amz-checksum-crc64nvme":
            value = _WRONG_CHECKSUM
        super().send_header(keyword, value)

    def send_body(self, descriptor: int, start: int, length: int) -> None:
        """Send part of a file, with what is to go wrong in it."""
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
        """Until it has gone, or long enough."""
        self.connection.settimeout(_SILENCE_S)
        with contextlib.suppress(OSError):
            self.connection.recv(1)


def _reset(connection: socket.socket) -> None:
    """Close with RST; `close` alone would wait for the files made of the socket, and send FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())


def dump_faults(faults: Sequence[Fault]) -> str:
    """What `load_faults` reads."""
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
        raise ValueError(f"faults[{number}]: needs kind, and knows {', '.join(sorted(known))} only")
    try:
        return Fault(**item)
    except ValueError as error:
        raise ValueError(f"faults[{number}].kind: {error}") from None
