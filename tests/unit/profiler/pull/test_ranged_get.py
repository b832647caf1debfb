# SPDX-License-Identifier: Apache-2.0
"""GetObject into a place in a file, against a client whose answers are made up."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ResponseStreamingError
from botocore.parsers import ResponseParserError
from s3transfer.exceptions import RetriesExceededError

from profiler.pull.clients.answers import kept
from profiler.pull.clients.direct import parts_of
from profiler.pull.clients.ranged_get import Target, get
from profiler.pull.settings import TransferSettings
from profiler.pull.source import RemoteObject

MIB = 2**20
CONTENT = bytes(range(256)) * 8


class Body(io.BytesIO):
    """Breaks off with `error` after its bytes."""

    def __init__(self, content: bytes, error: Exception | None) -> None:
        super().__init__(content)
        self.error = error

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        if not block and self.error is not None:
            raise self.error
        return block


class FakeS3:
    """Each request gets what it asks for, up to `breaks_after` bytes, the last one all of it.

    An answer has `claimed` instead of the true fields; without `error` a body just ends.
    """

    def __init__(self, *breaks_after: int, error: str = "broken", **claimed: Any) -> None:
        self.breaks_after, self.error, self.claimed = list(breaks_after), error, claimed
        self.asked: list[dict[str, Any]] = []

    def get_object(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        content, answer = CONTENT, {"ETag": '"tag"', "ChecksumCRC32": str(len(self.asked))}
        if "Range" in asked:
            start, last = asked["Range"].removeprefix("bytes=").split("-")
            content = CONTENT[int(start) : int(last) + 1]
            answer["ContentRange"] = f"bytes {start}-{last}/{len(CONTENT)}"
        is_short = bool(self.breaks_after)
        error = ResponseStreamingError(error=self.error) if is_short and self.error else None
        sent = content[: self.breaks_after.pop(0)] if is_short else content
        body = Body(sent, error)
        return {**answer, "ContentLength": len(content), "Body": body, **self.claimed}


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield Target("bucket", RemoteObject("a/key", "key", len(CONTENT), "tag"), descriptor, 100)
    os.close(descriptor)


def written(target: Target) -> bytes:
    return os.pread(target.descriptor, 10**6, 0)


def test_a_whole_object_is_asked_for_without_a_range(target: Target) -> None:
    s3 = FakeS3()
    amounts: list[int] = []
    answer = get(s3, target, range(len(CONTENT)), amounts.append)
    assert written(target) == CONTENT
    assert s3.asked == [
        {"Bucket": "bucket", "Key": "a/key", "IfMatch": '"tag"', "ChecksumMode": "ENABLED"}
    ]
    assert sum(amounts) == len(CONTENT)
    assert max(amounts) == target.block_bytes
    assert kept(answer) == {
        "ContentLength": len(CONTENT),
        "ETag": '"tag"',
        "ChecksumCRC32": "1",
    }


def test_a_part_is_written_to_its_place_alone(target: Target) -> None:
    get(FakeS3(), target, range(500, 700), lambda amount: None)
    assert written(target) == bytes(500) + CONTENT[500:700]


@pytest.mark.parametrize("error", ["broken", ""])
def test_a_body_that_breaks_off_is_resumed_where_it_did(target: Target, error: str) -> None:
    s3 = FakeS3(150, 0, 20, error=error)
    amounts: list[int] = []
    answer = get(s3, target, range(len(CONTENT)), amounts.append)
    assert written(target) == CONTENT
    assert [request.get("Range") for request in s3.asked] == [
        None,
        *["bytes=150-2047"] * 2,
        "bytes=170-2047",
    ]
    assert all(request["IfMatch"] == '"tag"' for request in s3.asked)
    assert sum(amounts) == len(CONTENT)  # nothing came twice
    assert answer["ChecksumCRC32"] == "1"  # a range's answer has no checksum of the whole


def test_an_answer_that_ends_in_an_error_after_its_last_byte_has_arrived(target: Target) -> None:
    s3 = FakeS3(len(CONTENT))
    get(s3, target, range(len(CONTENT)), lambda amount: None)
    assert len(s3.asked) == 1
    assert written(target) == CONTENT


def test_a_body_that_always_breaks_off_is_given_up(target: Target) -> None:
    s3 = FakeS3(*[10] * 100)
    with pytest.raises(RetriesExceededError) as error:
        get(s3, target, range(len(CONTENT)), lambda amount: None)
    assert "broken" in str(error.value.last_exception)
    assert len(s3.asked) == 5


@pytest.mark.parametrize(
    "claimed",
    [
        {"ContentRange": None, "ContentLength": len(CONTENT)},
        {"ContentRange": None},
        {"ContentRange": "bytes 501-700/2048"},
        {"ContentRange": "bytes 500-699/2047"},
        {"ContentLength": 199},
    ],
)
def test_nothing_is_written_of_another_range(target: Target, claimed: dict[str, Any]) -> None:
    with pytest.raises(ResponseParserError, match="another range"):
        get(FakeS3(**claimed), target, range(500, 700), lambda amount: None)
    assert written(target) == b""


@pytest.mark.parametrize(
    "claimed", [{"ContentLength": 2049}, {"ContentLength": None}, {"ETag": '"other"'}]
)
@pytest.mark.parametrize("part", [range(len(CONTENT)), range(500, 700)])
def test_nothing_is_written_of_an_object_that_is_not_the_one_listed(
    target: Target, claimed: dict[str, Any], part: range
) -> None:
    with pytest.raises((ClientError, ResponseParserError)):
        get(FakeS3(**claimed), target, part, lambda amount: None)
    assert written(target) == b""


def test_the_progress_callback_may_end_the_request(target: Target) -> None:
    def stop(amount: int) -> None:
        raise KeyboardInterrupt

    def fail_at_100(amount: int) -> None:
        if amount == 100:
            raise ZeroDivisionError

    s3 = FakeS3()
    with pytest.raises(KeyboardInterrupt):
        get(s3, target, range(len(CONTENT)), stop)
    assert s3.asked == []
    with pytest.raises(ZeroDivisionError):
        get(s3, target, range(len(CONTENT)), fail_at_100)
    assert written(target) == CONTENT[:100]


def test_one_thread_at_a_time_writes_into_a_file(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, most, whole = [], [], len(CONTENT)

    def write(descriptor: int, block: bytes, position: int) -> None:
        at_work.append(position)
        time.sleep(0.001)
        most.append(len(at_work))
        at_work.remove(position)

    monkeypatch.setattr("profiler.pull.clients.ranged_get.write_at", write)
    parts = [range(start, start + whole // 4) for start in range(0, whole, whole // 4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: get(FakeS3(), target, part, lambda amount: None), parts))
    assert len(most) == 4 * 6
    assert set(most) == {1}


@pytest.mark.parametrize(
    ("size_bytes", "lengths"),
    [
        (0, [0]),
        (1, [1]),
        (8 * MIB, [8 * MIB]),
        (16 * MIB - 1, [16 * MIB - 1]),
        (16 * MIB, [8 * MIB] * 2),
        (25 * MIB, [8 * MIB + MIB // 3, 8 * MIB + MIB // 3, 8 * MIB + MIB // 3 + 1]),
    ],
)
def test_parts_are_of_the_chunk_size_or_less_than_twice_that(
    size_bytes: int, lengths: list[int]
) -> None:
    parts = parts_of(size_bytes, TransferSettings())
    assert [len(part) for part in parts] == lengths
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop) == (0, size_bytes)


def test_below_the_threshold_an_object_is_one_part() -> None:
    settings = TransferSettings(multipart_threshold=100 * MIB)
    assert len(parts_of(100 * MIB - 1, settings)) == 1
    assert len(parts_of(100 * MIB, settings)) == 12
