# SPDX-License-Identifier: Apache-2.0
"""The behaviour of every pull client in the catalogue, with our server and moto's.

A client that is not installed is skipped with the line that installs it. Where CI forbids skips
(WRITEWISE_REQUIRE_ROOT_TESTS) that is a failure for those that the tests' extra installs, with
WRITEWISE_ALL_CLIENTS for all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from profiler.lab.s3_server import S3Server
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import NAMES, by_name
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError, PullStoppedError
from profiler.pull.measured import PullMeasurement, measure_pull
from profiler.pull.result import Progress
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, RemoteObject, list_plan
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, MIB, LabBackend, MotoBackend, ServedTests, forked

CONTENT = {
    "in/large": os.urandom(20 * MIB + 17),  # ranges of 8 MiB and more
    "in/deep/er/threshold": os.urandom(8 * MIB),
    "in/deep/c d+e%20é.txt": b"a name that must be encoded",
    "in/empty": b"",
    **{f"in/many/{number:02}": os.urandom(1000 + number) for number in range(40)},
    "in-other/beside": b"not below the prefix",
    "single": b"one object alone",
}
SLOW_SIZES_BYTES = (2 * MIB, 3 * MIB, 4 * MIB, 6 * MIB)
SLOW_RATE_BYTES_PER_S = 5_000_000
#: Clients in other languages: a fork would lack their threads.
WITH_THREADS = ("crt", "obstore")
INSTALLED_FOR_TESTS = ("direct", "transfer-manager", "boto3", "crt", "obstore", "s5cmd")


def pull(
    pool: WorkerPool, plan: PullPlan, destination: Path, **options: object
) -> tuple[PullMeasurement, list[Progress]]:
    seen: list[Progress] = []

    def show(phase: object, progress: Progress | None) -> None:
        if progress is not None and str(phase) == "Phase.PULL":
            seen.append(progress)

    measured = measure_pull(
        pool,
        plan,
        Destination(destination),
        None,
        on_phase=show,
        durable=False,
        **options,  # type: ignore[arg-type]
    )
    return measured, seen


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@functools.cache
def is_here(name: str) -> bool:
    """Return whether it is installed; some programs take a second to print their version."""
    return by_name(name).version() is not None


@contextlib.contextmanager
def pool_of(name: str, url: str) -> Iterator[WorkerPool]:
    client = by_name(name)
    if not is_here(name):
        message = f"{name} is not installed; {client.install}"
        is_wanted = name in INSTALLED_FOR_TESTS and os.environ.get("WRITEWISE_REQUIRE_ROOT_TESTS")
        assert not is_wanted and not os.environ.get("WRITEWISE_ALL_CLIENTS"), message
        pytest.skip(message)
    with contextlib.ExitStack() as stack:
        if name not in WITH_THREADS:
            stack.enter_context(forked())
        made = WorkerPool(S3Access(url), TransferSettings(), 1, client.make)
        yield stack.enter_context(made)


class ClientConformance(ServedTests):
    """Tests for any server: every byte of every object arrives."""

    content: ClassVar = CONTENT

    @pytest.fixture(scope="class", params=NAMES)
    def pool(self, request: pytest.FixtureRequest, endpoint: str) -> Iterator[WorkerPool]:
        with pool_of(request.param, endpoint) as pool:
            yield pool

    def plan(self, endpoint: str, prefix: str) -> PullPlan:
        return list_plan(S3Access(endpoint), Location(BUCKET, prefix))

    def test_every_byte_arrives_and_nothing_else(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        measured, _ = pull(pool, self.plan(endpoint, "in"), destination)
        wanted = {key[3:]: body for key, body in CONTENT.items() if key.startswith("in/")}
        assert measured.failures == ()
        assert contents(destination) == wanted
        assert measured.result.bytes == sum(map(len, wanted.values()))
        assert sum(measured.verification.count_by_method.values()) == len(wanted)
        assert "size only" not in measured.verification.count_by_method


class TestClientsAgainstMoto(ClientConformance):
    backend = MotoBackend


class TestClientsAgainstTheLab(ClientConformance):
    """The tests for any server, and those that do not depend on the server."""

    backend = LabBackend

    def test_one_object_by_its_key(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        pull(pool, self.plan(endpoint, "single"), destination)
        assert contents(destination) == {"single": CONTENT["single"]}

    def test_an_object_that_is_gone_fails_by_name_and_the_others_arrive(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        known = self.plan(endpoint, "in/many").objects
        gone = RemoteObject("in/many/gone", "gone", 1, "0" * 32)
        measured, _ = pull(pool, PullPlan(Location(BUCKET, "in/many"), (gone, *known)), destination)
        assert [failure.key for failure in measured.failures] == ["in/many/gone"]
        assert len(contents(destination)) == 40

    def test_a_file_is_replaced_and_a_symlink_is_not_followed(
        self, pool: WorkerPool, endpoint: str, destination: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("untouched")
        (destination / "single").symlink_to(outside)
        pull(pool, self.plan(endpoint, "single"), destination)
        assert not (destination / "single").is_symlink()
        assert outside.read_text() == "untouched"


@pytest.fixture(scope="module")
def slow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The largest object takes 1.2 s. None has parts: the CRT reports only whole parts."""
    root = tmp_path_factory.mktemp("buckets")
    (root / BUCKET / "in").mkdir(parents=True)
    for number in range(len(SLOW_SIZES_BYTES)):
        (root / BUCKET / "in" / f"{number}").write_bytes(os.urandom(SLOW_SIZES_BYTES[number]))
    shape = {"first_byte_latency_s": 0.005, "rate_bytes_per_s": SLOW_RATE_BYTES_PER_S}
    with S3Server(root, **shape) as server:  # type: ignore[arg-type]
        yield server


@pytest.fixture(scope="module", params=NAMES)
def slow_pool(request: pytest.FixtureRequest, slow_server: S3Server) -> Iterator[WorkerPool]:
    with pool_of(request.param, slow_server.endpoint_url) as pool:
        yield pool


@pytest.fixture(scope="module")
def slow_plan(slow_server: S3Server) -> PullPlan:
    return list_plan(S3Access(slow_server.endpoint_url), Location(BUCKET, "in"))


def test_progress_is_reported_and_no_partial_file_has_a_final_name(
    slow_pool: WorkerPool, slow_plan: PullPlan, destination: Path
) -> None:
    names: set[str] = set()
    seen: list[Progress] = []

    def show(phase: object, progress: Progress | None) -> None:
        if str(phase) == "Phase.PULL" and progress is not None:
            seen.append(progress)
            names.update(path.name for path in destination.iterdir())

    measure_pull(slow_pool, slow_plan, Destination(destination), None, on_phase=show)
    assert names and all(name.startswith(".writewise-") for name in names)
    assert seen[-1].bytes == seen[-1].total_bytes == sum(SLOW_SIZES_BYTES)
    assert [each.bytes for each in seen] == sorted(each.bytes for each in seen)
    assert any(0 < each.bytes < each.total_bytes for each in seen)
    assert sorted(path.name for path in destination.iterdir()) == list("0123")


def test_a_pull_is_stopped_within_a_second_and_leaves_nothing(
    slow_pool: WorkerPool, slow_plan: PullPlan, destination: Path
) -> None:
    began_s = time.monotonic()
    with pytest.raises(PullStoppedError):
        pull(slow_pool, slow_plan, destination, stop_after_s=0.5)
    assert time.monotonic() - began_s < 2.0
    assert list(destination.iterdir()) == []
    slow_pool.start()
    assert len(slow_pool.pids) == 1


@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_that_is_down_is_an_error_or_names_the_keys(
    name: str, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    plan = PullPlan(Location(BUCKET, "in/"), (RemoteObject("in/a", "a", 3, "0" * 32),))
    began = time.monotonic()
    with pool_of(name, "http://127.0.0.1:9") as pool:
        try:
            measured, _ = pull(pool, plan, destination)
        except PullError as error:
            assert "127.0.0.1:9 does not answer" in error.message
        else:
            assert [failure.key for failure in measured.failures] == ["in/a"]
    assert time.monotonic() - began < 60, "the client told it: its worker was not given up"
    assert list(destination.iterdir()) == []
