# SPDX-License-Identifier: Apache-2.0
"""A second pull fetches what is missing or differs, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.measured import Verify, measure_pull
from profiler.pull.resume import find_missing
from profiler.pull.source import PullPlan, list_plan, parse_location
from profiler.pull.verification import forget_cached
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, MIB, LabBackend, MotoBackend, ServedTests

CONTENT = {
    "a": os.urandom(MIB),
    "b/c": os.urandom(9 * MIB),
    "b/d": b"small",
    "empty": b"",
}


class ResumeTests(ServedTests):
    """Tests for any server."""

    content: ClassVar = CONTENT

    @pytest.fixture
    def plan(self, endpoint: str) -> PullPlan:
        return list_plan(S3Access(endpoint), parse_location(f"s3://{BUCKET}/"))

    @pytest.fixture
    def filled(self, plan: PullPlan, destination: Path) -> Path:
        """Return the destination with every object complete."""
        for remote in plan.objects:
            path = destination / remote.relative_path
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(CONTENT[remote.key])
        return destination

    def missing(self, pool: WorkerPool, plan: PullPlan, destination: Path) -> list[str]:
        resumed = find_missing(pool, plan, Destination(destination))
        left = [remote.key for remote in resumed.missing.objects]
        assert sorted(left + [remote.key for remote in resumed.kept]) == sorted(CONTENT)
        return left

    def test_an_empty_destination_lacks_every_object(
        self, pool: WorkerPool, plan: PullPlan, destination: Path
    ) -> None:
        assert self.missing(pool, plan, destination) == list(CONTENT)
        assert list(destination.iterdir()) == []

    def test_complete_objects_are_not_pulled_again(
        self, pool: WorkerPool, plan: PullPlan, destination: Path
    ) -> None:
        measure_pull(pool, plan, Destination(destination), None)
        assert self.missing(pool, plan, destination) == []

    def test_a_file_that_is_gone_differs_or_is_shorter_is_pulled_again(
        self, pool: WorkerPool, plan: PullPlan, filled: Path
    ) -> None:
        (filled / "a").unlink()
        with (filled / "b/c").open("r+b") as file:  # one byte, size and name as before
            file.seek(8 * MIB)
            file.write(bytes([CONTENT["b/c"][8 * MIB] ^ 1]))
        (filled / "b/d").write_bytes(b"smal")
        assert self.missing(pool, plan, filled) == ["a", "b/c", "b/d"]
        resumed = find_missing(pool, plan, Destination(filled))
        measured = measure_pull(pool, resumed.missing, Destination(filled), None)
        assert measured.result.objects == 3
        for key, content in CONTENT.items():
            assert (filled / key).read_bytes() == content

    def test_a_symlink_to_a_matching_file_is_not_followed(
        self, pool: WorkerPool, plan: PullPlan, filled: Path
    ) -> None:
        (filled / "a").rename(filled / "elsewhere")
        (filled / "a").symlink_to("elsewhere")
        (filled / "b").rename(filled / "real")
        (filled / "b").symlink_to("real")
        assert self.missing(pool, plan, filled) == ["a", "b/c", "b/d"]

    def test_reading_back_verifies_and_reports_its_cost(
        self, pool: WorkerPool, plan: PullPlan, on_disk: Path
    ) -> None:
        verification = measure_pull(
            pool, plan, Destination(on_disk), None, verify=Verify.FULL
        ).verification
        assert verification.failures == ()
        assert verification.bytes == sum(map(len, CONTENT.values()))
        assert verification.cpu_s > 0
        assert verification.elapsed_s > 0


class TestOurServer(ResumeTests):
    backend = LabBackend


class TestMoto(ResumeTests):
    backend = MotoBackend


def test_uncached_files_are_read_from_the_device(on_disk: Path) -> None:
    """Judged by the bytes that this process had read from devices.

    A read that must not wait (RWF_NOWAIT) cannot judge it: it starts a read from the device, and
    has the data if that is fast.
    """
    if os.statvfs(on_disk).f_fsid == 0:
        pytest.skip("a file system in memory has nothing to forget")
    (on_disk / "file").write_bytes(bytes(MIB))

    def device_bytes() -> int:
        """Read the file; return how much of it came from the device."""
        before = process_read_bytes()
        assert len((on_disk / "file").read_bytes()) == MIB
        return process_read_bytes() - before

    assert device_bytes() == 0
    with (on_disk / "file").open("rb") as file:
        forget_cached(file.fileno())
    assert device_bytes() > MIB // 2  # the kernel keeps a page that somebody holds just then


def process_read_bytes() -> int:
    """Return what this process had read from devices so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])
