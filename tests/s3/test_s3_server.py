# SPDX-License-Identifier: Apache-2.0
"""The lab's server, as boto3 and plain sockets see it."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from contracts.shared.errors import WritewiseError
from profiler.lab.s3_objects import make_objects
from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from tests.s3.conftest import MIB
from tests.s3.test_pull_workers import is_running

BUCKET = "lab"
BODY = os.urandom(100_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    root = tmp_path_factory.mktemp("root")
    outside = root.parent / "outside.txt"
    outside.write_text("secret")
    bucket = root / BUCKET
    for key in ("a/1", "a/2", "b/1", "b/c/2", "top é+"):
        (bucket / key).parent.mkdir(parents=True, exist_ok=True)
        (bucket / key).write_bytes(BODY)
    (bucket / "empty").touch()
    (bucket / "link").symlink_to(outside)
    (bucket / "up").symlink_to(root.parent)
    os.mkfifo(bucket / "fifo")
    with S3Server(root, first_byte_latency_s=None, rate_bytes_per_s=None) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: S3Server) -> Any:
    return S3Access(server.endpoint_url).make_client()


def keys(answer: dict[str, Any]) -> list[str]:
    return [item["Key"] for item in answer.get("Contents", ())]


def prefixes(answer: dict[str, Any]) -> list[str]:
    return [item["Prefix"] for item in answer.get("CommonPrefixes", ())]


def error_code(call: Any, **arguments: object) -> tuple[str, int]:
    with pytest.raises(ClientError) as raised:
        call(**arguments)
    response = raised.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def exchange(server: S3Server, request: str) -> bytes:
    """Send bytes as they are and read until the server closes."""
    host, port = server.endpoint_url.rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request.encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


class TestObjects:
    def test_get_gives_the_body_its_md5_and_checksum(self, client: Any) -> None:
        answer = client.get_object(Bucket=BUCKET, Key="a/1", ChecksumMode="ENABLED")
        assert answer["Body"].read() == BODY  # botocore has compared the CRC as well
        assert answer["ETag"] == f'"{hashlib.md5(BODY).hexdigest()}"'
        assert answer["ChecksumType"] == "FULL_OBJECT"
        assert len(answer["ChecksumCRC64NVME"]) == 12

    def test_head_gives_the_same_headers(self, client: Any) -> None:
        answer = client.head_object(Bucket=BUCKET, Key="a/1", ChecksumMode="ENABLED")
        assert answer["ContentLength"] == len(BODY)
        assert answer["ChecksumType"] == "FULL_OBJECT"

    @pytest.mark.parametrize(
        ("asked", "start", "end"),
        [
            ("bytes=0-0", 0, 1),
            ("bytes=10-19", 10, 20),
            ("bytes=99990-200000", 99_990, 100_000),
            ("bytes=500-", 500, 100_000),
            ("bytes=-7", 99_993, 100_000),
            ("bytes=-200000", 0, 100_000),
        ],
    )
    def test_a_range_has_no_checksum_of_the_whole_object(
        self, client: Any, asked: str, start: int, end: int
    ) -> None:
        answer = client.get_object(Bucket=BUCKET, Key="a/1", Range=asked, ChecksumMode="ENABLED")
        assert answer["Body"].read() == BODY[start:end]
        assert answer["ContentRange"] == f"bytes {start}-{end - 1}/{len(BODY)}"
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert "ChecksumCRC64NVME" not in answer

    @pytest.mark.parametrize("asked", ["bytes=5-4", "bytes=a-b", "lines=1-2", "bytes=0-1,4-5"])
    def test_an_invalid_range_gets_the_whole_object(self, client: Any, asked: str) -> None:
        answer = client.get_object(Bucket=BUCKET, Key="a/1", Range=asked)
        assert len(answer["Body"].read()) == len(BODY)

    def test_a_range_after_the_end_is_refused(self, client: Any) -> None:
        asked = {"Bucket": BUCKET, "Key": "a/1", "Range": "bytes=100000-"}
        assert error_code(client.get_object, **asked) == ("InvalidRange", 416)

    def test_an_empty_object_is_served(self, client: Any) -> None:
        assert client.get_object(Bucket=BUCKET, Key="empty")["Body"].read() == b""

    def test_if_match_is_obeyed(self, client: Any) -> None:
        etag = client.head_object(Bucket=BUCKET, Key="a/1")["ETag"]
        assert client.get_object(Bucket=BUCKET, Key="a/1", IfMatch=etag)["ETag"] == etag
        asked = {"Bucket": BUCKET, "Key": "a/1", "IfMatch": '"other"'}
        assert error_code(client.get_object, **asked) == ("PreconditionFailed", 412)

    @pytest.mark.parametrize("key", ["none", "a", "a/1/x", "link", "up/outside.txt", "fifo", "./a"])
    def test_only_files_below_the_bucket_are_keys(self, client: Any, key: str) -> None:
        assert error_code(client.get_object, Bucket=BUCKET, Key=key) == ("NoSuchKey", 404)

    @pytest.mark.parametrize(
        "path", ["/lab/../../outside.txt", "/lab/%2e%2e/%2e%2e/outside.txt", "/../outside.txt",
                 "/lab//etc/passwd", "/lab/%00", "/%2e%2e/outside.txt", "/./lab/a/1"]
    )  # fmt: skip
    def test_no_path_leads_out_of_the_root(self, server: S3Server, path: str) -> None:
        answer = exchange(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404")
        assert b"secret" not in answer
        assert b"root:" not in answer

    @pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
    def test_the_server_is_read_only(self, server: S3Server, method: str) -> None:
        request = f"{method} /lab/a/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
        answer = exchange(server, request)
        assert answer.startswith(b"HTTP/1.1 405")
        assert b"<Code>MethodNotAllowed</Code>" in answer

    def test_a_connection_is_kept_open(self, server: S3Server) -> None:
        request = "HEAD /lab/a/1 HTTP/1.1\r\nHost: x\r\n\r\n"
        assert exchange(server, request * 3).count(b"HTTP/1.1 200") == 3


class TestBuckets:
    def test_list_and_head(self, client: Any) -> None:
        assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == [BUCKET]
        assert client.head_bucket(Bucket=BUCKET)["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert error_code(client.head_bucket, Bucket="none")[1] == 404
        assert error_code(client.list_objects_v2, Bucket="none") == ("NoSuchBucket", 404)

    def test_everything_is_listed_in_order(self, client: Any) -> None:
        answer = client.list_objects_v2(Bucket=BUCKET)
        assert keys(answer) == ["a/1", "a/2", "b/1", "b/c/2", "empty", "top é+"]
        assert answer["KeyCount"] == 6
        assert answer["Contents"][0]["Size"] == len(BODY)
        assert not answer["IsTruncated"]

    def test_prefix_and_start_after(self, client: Any) -> None:
        assert keys(client.list_objects_v2(Bucket=BUCKET, Prefix="b/")) == ["b/1", "b/c/2"]
        assert keys(client.list_objects_v2(Bucket=BUCKET, StartAfter="b/1"))[0] == "b/c/2"
        assert keys(client.list_objects_v2(Bucket=BUCKET, Prefix="zz")) == []

    def test_delimiter(self, client: Any) -> None:
        answer = client.list_objects_v2(Bucket=BUCKET, Delimiter="/")
        assert (keys(answer), prefixes(answer)) == (["empty", "top é+"], ["a/", "b/"])
        inside = client.list_objects_v2(Bucket=BUCKET, Delimiter="/", Prefix="b/")
        assert (keys(inside), prefixes(inside)) == (["b/1"], ["b/c/"])

    @pytest.mark.parametrize("delimiter", [{}, {"Delimiter": "/"}])
    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_pages_add_up_to_the_whole(
        self, client: Any, delimiter: dict[str, str], size: int
    ) -> None:
        whole = client.list_objects_v2(Bucket=BUCKET, **delimiter)
        paginator = client.get_paginator("list_objects_v2")
        pages = list(
            paginator.paginate(Bucket=BUCKET, PaginationConfig={"PageSize": size}, **delimiter)
        )
        assert [key for page in pages for key in keys(page)] == keys(whole)
        assert [found for page in pages for found in prefixes(page)] == prefixes(whole)
        assert all(page["KeyCount"] <= size for page in pages)
        assert len(pages) == -(-whole["KeyCount"] // size)

    def test_bad_parameters_are_refused(self, server: S3Server) -> None:
        for query, status in (
            ("list-type=2&max-keys=x", 400),
            ("list-type=2&continuation-token=%21", 400),
            ("versioning", 501),
            ("", 501),
        ):
            answer = exchange(server, f"GET /lab?{query} HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer.startswith(f"HTTP/1.1 {status}".encode()), query


class TestShape:
    @pytest.fixture(scope="class")
    def shaped(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
        root = tmp_path_factory.mktemp("shaped")
        (root / BUCKET).mkdir()
        (root / BUCKET / "large").write_bytes(bytes(12 * MIB))
        with S3Server(root, first_byte_latency_s=0.05, rate_bytes_per_s=20 * MIB) as server:
            yield server

    def test_the_first_byte_has_its_latency(self, shaped: S3Server) -> None:
        client = S3Access(shaped.endpoint_url).make_client()
        client.head_bucket(Bucket=BUCKET)
        started_s = time.monotonic()
        client.head_bucket(Bucket=BUCKET)
        assert 0.05 <= time.monotonic() - started_s < 0.15

    def test_a_connection_has_its_rate(self, shaped: S3Server) -> None:
        client = S3Access(shaped.endpoint_url).make_client()
        body = client.get_object(Bucket=BUCKET, Key="large")["Body"]
        started_s = time.monotonic()
        size_bytes = len(body.read())
        rate = size_bytes / (time.monotonic() - started_s)
        assert 0.85 * 20 * MIB <= rate <= 1.15 * 20 * MIB


class TestProcesses:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
    def test_workers_end_with_the_server(self, tmp_path: Path, number: signal.Signals) -> None:
        port_file = tmp_path / "port"
        command = [sys.executable, "-m", "profiler.lab.s3_server", f"--root={tmp_path}"]
        with subprocess.Popen([*command, f"--port-file={port_file}"]) as process:
            wait_until(port_file.exists)
            wait_until(lambda: len(children(process.pid)) == 2)
            workers = children(process.pid)
            process.send_signal(number)
        assert process.returncode == (0 if number == signal.SIGTERM else -number)
        wait_until(lambda: not any(map(is_running, workers)))

    def test_the_server_listens_only_on_localhost(self, server: S3Server) -> None:
        port = int(server.endpoint_url.rpartition(":")[2])
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        listening = [line.split()[1] for line in lines if line.split()[3] == "0A"]
        assert [address for address in listening if address.endswith(f":{port:04X}")] == [
            f"0100007F:{port:04X}"
        ]

    def test_a_port_that_is_taken_is_an_error(self, server: S3Server, tmp_path: Path) -> None:
        port = int(server.endpoint_url.rpartition(":")[2])
        with pytest.raises(WritewiseError, match="did not start"), S3Server(tmp_path, port=port):
            pass

    def test_objects_are_random_and_hard_linked(self, tmp_path: Path) -> None:
        made = make_objects(tmp_path, count=5, size_bytes=MIB + 1, distinct=2)
        assert made[0] == "images/image-0000.bin"
        assert len({(tmp_path / key).stat().st_ino for key in made}) == 2
        assert {(tmp_path / key).stat().st_size for key in made} == {MIB + 1}
        with pytest.raises(FileExistsError):
            make_objects(tmp_path, count=1)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in re.findall(r"\d+", text)]


def wait_until(condition: Any) -> None:
    deadline_s = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
