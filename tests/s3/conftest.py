# SPDX-License-Identifier: Apache-2.0
"""Two S3 servers with one interface: ours and moto's, an independent implementation."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from profiler.lab.s3_server import S3Server
from profiler.pull import worker_processes
from profiler.pull.access import S3Access
from profiler.pull.settings import TransferSettings
from profiler.pull.workers import WorkerPool

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "3",
}
BUCKET = "test-bucket"
MIB = 2**20


@pytest.fixture(scope="session", autouse=True)
def aws_environment() -> Iterator[None]:
    """Set credentials, which the workers inherit; the developer's own configuration is not read."""
    patch = pytest.MonkeyPatch()
    for name in list(os.environ):
        if name.startswith("AWS_"):
            patch.delenv(name)
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    yield
    patch.undo()


class LabBackend:
    """Our server; keys that are not safe file names are entries of its index."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self._objects = objects

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "store").mkdir()
            index: dict[str, str] = {}
            for number, (key, content) in enumerate(self._objects.items()):
                (root / "store" / str(number)).write_bytes(content)
                index[key] = f"store/{number}"
            with S3Server(
                root, index={BUCKET: index}, first_byte_latency_s=None, rate_bytes_per_s=None
            ) as server:
                yield server.endpoint_url


class MotoBackend:
    """moto's server, in a thread; filled directly, which is faster than PUT requests."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self._objects = objects

    @contextlib.contextmanager
    def serve(self) -> Iterator[str]:
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends
        from moto.server import ThreadedMotoServer

        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        backend.reset()
        backend.create_bucket(BUCKET, "us-east-1")
        for key, content in self._objects.items():
            backend.put_object(BUCKET, key, content)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield f"http://{host}:{port}"
        finally:
            server.stop()
            backend.reset()


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Fork workers from this process, which has already imported what they need.

    To import it takes a worker longer than most pulls of the tests. Where how workers start, stop
    and die matters they are spawned, as always outside the tests, and so they are for clients of
    other languages, whose threads a fork would miss.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_processes, "START_METHOD", "fork")
        yield


@contextlib.contextmanager
def pool_for(
    endpoint_url: str, workers: int = 2, *, spawned: bool = False, **settings: Any
) -> Iterator[WorkerPool]:
    with contextlib.ExitStack() as stack:
        if not spawned:
            stack.enter_context(forked())
        made = WorkerPool(S3Access(endpoint_url), TransferSettings(**settings), workers)
        yield stack.enter_context(made)


class ServedTests:
    """Tests for any server: `backend` serves `content`, and a pool pulls it."""

    backend: ClassVar[type[LabBackend] | type[MotoBackend]]
    content: ClassVar[dict[str, bytes]]

    @pytest.fixture(scope="class")
    def endpoint(self) -> Iterator[str]:
        with self.backend(self.content).serve() as url:
            yield url

    @pytest.fixture(scope="class")
    def pool(self, endpoint: str) -> Iterator[WorkerPool]:
        with pool_for(endpoint) as pool:
            yield pool


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory on a disk, if the host has one: memory cannot be read back from a device."""
    with tempfile.TemporaryDirectory(prefix="writewise-test-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def destination() -> Iterator[Path]:
    """A directory in memory, so that tests do not wait for a disk."""
    folder = tempfile.mkdtemp(prefix="writewise-test-", dir="/dev/shm")
    yield Path(folder)
    shutil.rmtree(folder)
