# SPDX-License-Identifier: Apache-2.0
"""Pulls by a program: with any owner of the destination and any behaviour of the program.

The program is a script in the place of s5cmd. Its last argument is where its files belong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from profiler.lab.s3_server import S3Server
from profiler.pull import distribution
from profiler.pull.access import S3Access
from profiler.pull.clients.interface import Answer
from profiler.pull.clients.mountpoint import MountpointClient
from profiler.pull.clients.program import ProgramClient
from profiler.pull.clients.programs import S5cmdClient
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.measured import PullMeasurement, Verify, measure_pull
from profiler.pull.resume import find_missing
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, list_plan
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, forked

CONTENT = {"a": b"the first", "b": b"the second"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    root = tmp_path_factory.mktemp("buckets")
    (root / BUCKET).mkdir()
    for key, content in CONTENT.items():
        (root / BUCKET / key).write_bytes(content)
    with S3Server(root, first_byte_latency_s=None, rate_bytes_per_s=None) as server:
        yield server


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "programs" / "s5cmd"
    path.parent.mkdir(mode=0o755)
    path.touch(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


@pytest.fixture
def silence_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """Set the time without a byte after which a program is ended."""
    monkeypatch.setattr(distribution, "MAX_SILENCE_S", 1.0)
    return 1.0


def write(program: Path, *lines: str) -> None:
    program.write_text("\n".join(["#!/bin/sh", "for place; do :; done", *lines]))


def pull(
    server: S3Server,
    destination: Path,
    client: type[ProgramClient] = S5cmdClient,
    *,
    again: bool = False,
    **options: object,
) -> PullMeasurement:
    access, place = S3Access(server.endpoint_url), Destination(destination)
    plan = list_plan(access, Location(BUCKET, ""))
    with forked(), WorkerPool(access, TransferSettings(), 1, client) as pool:
        return measure_pull(
            pool,
            find_missing(pool, plan, place).missing if again else plan,
            place,
            None,
            durable=False,
            **options,  # type: ignore[arg-type]
        )


def test_the_owner_of_the_destination_cannot_redirect_a_program(
    server: S3Server, program: Path, destination: Path, tmp_path: Path
) -> None:
    """The owner renames the program's directory and puts a symlink in its place."""
    outside = tmp_path / "outside"
    (outside / "files").mkdir(parents=True)
    write(
        program,
        f"cd {destination} && name=$(echo .writewise-*-all.part) && mv $name away",
        f"ln -s {outside} $name",
        'printf "the first" > "$place/a"',
    )
    measured = pull(server, destination)
    assert [each.key for each in measured.failures] == ["a", "b"]
    assert [path.name for path in outside.rglob("*")] == ["files"]
    assert (destination / "away" / "files" / "a").read_bytes() == CONTENT["a"]


def is_gone(pid_file: Path) -> bool:
    """Return whether the process ended, even if its new parent has not read its exit code."""
    try:
        return psutil.Process(int(pid_file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


#: Like a wrapper that starts the program itself.
CHILD = "sleep 60 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"


def test_a_program_that_hangs_is_ended_and_what_arrived_is_kept(
    server: S3Server, program: Path, destination: Path, tmp_path: Path, silence_s: float
) -> None:
    pid_file = tmp_path / "pid"
    write(
        program,
        'printf "the first" > "$place/a"',
        f'truncate -s {len(CONTENT["b"])} "$place/b"',  # the size is right, nothing is written
        CHILD.format(pid_file=pid_file),
    )
    measured = pull(server, destination, verify=Verify.SIZE)
    assert [(each.key, each.reason) for each in measured.failures] == [
        ("b", f"the client was killed: nothing arrived for {silence_s:.0f} s")
    ]
    assert (destination / "a").read_bytes() == CONTENT["a"]
    assert [path.name for path in destination.iterdir()] == ["a"]
    assert is_gone(pid_file)


def test_a_second_pull_starts_no_program_if_nothing_is_missing(
    server: S3Server, program: Path, destination: Path, tmp_path: Path
) -> None:
    for key, content in CONTENT.items():
        (destination / key).write_bytes(content)
    write(program, f"touch {tmp_path}/started")
    measured = pull(server, destination, again=True)
    assert measured.failures == () and measured.result.objects == 0
    assert not (tmp_path / "started").exists()


def test_a_program_that_fetches_existing_files_again_does_not_count_as_hanging(
    server: S3Server, program: Path, destination: Path, tmp_path: Path, silence_s: float
) -> None:
    (destination / "a").write_bytes(CONTENT["a"])
    pause_s = silence_s / 4  # nine of them are more
    one_by_one = (
        f'for c in t h e " " f i r s t; do printf "$c" >> "$place/a"; sleep {pause_s}; done'
    )
    write(program, 'printf "the second" > "$place/b"', one_by_one, f"touch {tmp_path}/ended")
    measured = pull(server, destination, again=True)
    assert measured.failures == () and measured.result.objects == 1
    assert (tmp_path / "ended").exists()


def test_allocated_but_unwritten_blocks_count_as_holes(
    server: S3Server, program: Path, destination: Path
) -> None:
    write(program, 'printf "the first" > "$place/a"', 'fallocate -l 10 "$place/b"', "exit 1")
    measured = pull(server, destination, verify=Verify.SIZE)
    assert [each.key for each in measured.failures] == ["b"]
    assert [path.name for path in destination.iterdir()] == ["a"]


class Unproved(S5cmdClient):
    """A bucket without checksums, as with a KMS key."""

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        return {"ContentLength": len(CONTENT[key])}


@pytest.mark.parametrize("exit_code", [0, 1])
def test_files_verified_only_by_size_are_not_accepted_from_a_failed_program(
    server: S3Server, program: Path, destination: Path, exit_code: int
) -> None:
    both = ['printf "the first" > "$place/a"', 'printf "THE SECOND" > "$place/b"']
    write(program, *both, f"exit {exit_code}")
    measured = pull(server, destination, Unproved)
    reason = "it could not be verified: s5cmd failed (exit 1)"
    failures = [(each.key, each.reason) for each in measured.failures]
    assert failures == ([("a", reason), ("b", reason)] if exit_code else [])
    assert len(list(destination.iterdir())) == (0 if exit_code else 2)


def test_ctrl_c_ends_the_children_of_a_program_too(
    server: S3Server, program: Path, destination: Path, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    write(program, CHILD.format(pid_file=pid_file))

    def interrupt(*_: object) -> None:
        if pid_file.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(server, destination, on_phase=interrupt)
    assert is_gone(pid_file)
    assert list(destination.iterdir()) == []


def test_a_mount_that_fails_leaves_no_directory(
    server: S3Server, program: Path, destination: Path
) -> None:
    before = set(Path("/run").iterdir())
    program = program.rename(program.with_name("mount-s3"))
    write(program, 'echo "no bucket" >&2', "exit 1")
    is_root = os.geteuid() == 0
    wanted = "mount-s3 failed .exit 1.: no bucket" if is_root else "cannot be given its own"
    with pytest.raises(PullError, match=wanted):
        pull(server, destination, client=MountpointClient)
    assert not [path for path in set(Path("/run").iterdir()) - before if "mount" in path.name]
    assert list(destination.iterdir()) == []
