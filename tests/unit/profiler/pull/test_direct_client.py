# SPDX-License-Identifier: Apache-2.0
"""The default client, against a client of botocore's whose answers are made up."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.pull.clients.answers import error_of
from profiler.pull.clients.direct import DirectClient
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

SETTINGS = TransferSettings(multipart_threshold=1000, multipart_chunksize=1000, io_chunksize=10)
SLOW_S = 5.0


class Answers:
    """An access whose client answers each range by `body_of` its first byte."""

    def __init__(self, body_of: Callable[[int], Any]) -> None:
        self.body_of = body_of
        self.connections = 0

    def make_client(self, max_connections: int) -> Any:
        self.connections = max_connections
        return self

    def get_object(self, **asked: Any) -> dict[str, Any]:
        answer = {"ETag": '"tag"', "ContentLength": 1000, "ChecksumCRC32": "whole"}
        start, last = asked.get("Range", "bytes=0-999").removeprefix("bytes=").split("-")
        if "Range" in asked:
            answer["ContentRange"] = f"bytes {start}-{last}/2000"
        return {**answer, "Body": self.body_of(int(start))}


def body(content: bytes) -> io.BytesIO:
    return io.BytesIO(content * 1000)


def download(answers: Answers, path: Path, size_bytes: int, **changes: int) -> Any:
    settings = TransferSettings(**{**vars(SETTINGS), **changes})
    client = DirectClient(answers, settings)  # type: ignore[arg-type]
    remote = RemoteObject("key", "key", size_bytes, "tag")
    return client.download("bucket", remote, str(path), lambda amount: None)


def test_the_checksum_of_an_answer_is_kept_where_it_is_of_the_whole(tmp_path: Path) -> None:
    kept = download(Answers(lambda start: body(b"a")), tmp_path / "one", 1000)
    assert kept == {"ETag": '"tag"', "ContentLength": 1000, "ChecksumCRC32": "whole"}
    for use_threads in (True, False):
        path = tmp_path / f"two-{use_threads}"
        answers = Answers(lambda start: body(b"b" if start else b"a"))
        assert download(answers, path, 2000, use_threads=use_threads) is None
        assert path.read_bytes() == b"a" * 1000 + b"b" * 1000


def test_a_part_that_fails_ends_the_other_in_the_midst_of_its_body(tmp_path: Path) -> None:
    begun = threading.Event()

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            begun.set()
            time.sleep(SLOW_S / 100)
            return super().read(size)

    def body_of(start: int) -> Any:
        if start:
            begun.wait(SLOW_S)
            raise error_of("NoSuchKey")
        return Slow(bytes(1000))  # 100 blocks

    started_s = time.monotonic()
    with pytest.raises(Exception, match="NoSuchKey"):
        download(Answers(body_of), tmp_path / "file", 2000)
    assert time.monotonic() - started_s < SLOW_S / 2


def test_there_is_a_connection_for_each_thread(tmp_path: Path) -> None:
    answers = Answers(lambda start: body(b"a"))
    for concurrency, connections in ((10, 30), (100, 164)):
        DirectClient(answers, TransferSettings(concurrency))  # type: ignore[arg-type]
        assert answers.connections == connections
    DirectClient(answers, TransferSettings(use_threads=False))  # type: ignore[arg-type]
    assert answers.connections == 1
