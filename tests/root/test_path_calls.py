# SPDX-License-Identifier: Apache-2.0
"""Calls that name a path, compared with a program that makes every one of them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.shared.errors import UsageError
from profiler.bpf.probes.path_calls import SYSTEM_CALLS
from profiler.bpf.session import ProfileSession
from tests.root import load
from tests.root.hosts import SLOWNESS
from tests.root.profiling import mounted

pytestmark = pytest.mark.side_by_side

AT_FDCWD = -100
TYPES = tuple(SYSTEM_CALLS)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if load.compiler() is None:
        pytest.skip("install a C compiler: apt-get install gcc, dnf install gcc")
    return load.build(tmp_path_factory.mktemp("named"), Path(__file__).with_name("named.c"))


def rule(path: object, *call_types: CallType) -> Rule:
    label = f"{path}-{'+'.join(call_type.value for call_type in call_types)}"
    return Rule(label, str(path), call_types, SizeRange(), Measurement.COUNT, 1)


def contract(*rules: Rule) -> Contract:
    return Contract(10**9, tuple(dict.fromkeys(rules)))


def of_each_type(path: object) -> Contract:
    return contract(*(rule(path, call_type) for call_type in TYPES))


@contextlib.contextmanager
def tracked(*rules: Rule) -> Iterator[ProfileSession]:
    """Start a session that follows this process."""
    with ProfileSession(contract(*rules)) as session:
        session.track(os.getpid())
        yield session


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def call_all(
    session: ProfileSession, named: Path, path: str, cwd: Path, descriptor: int = AT_FDCWD
) -> dict[str, tuple[int, int]]:
    """Run the program in the session's scope; return its successful and failed calls by type."""
    with session.tracking_new():
        process = subprocess.Popen(
            [str(named), str(descriptor), path],
            cwd=cwd,
            pass_fds=() if descriptor == AT_FDCWD else (descriptor,),
            stdout=subprocess.PIPE,
            text=True,
        )
    output = process.communicate(timeout=30 * SLOWNESS)[0]
    assert process.returncode == 0
    lines = (line.split() for line in output.splitlines())
    return {call_type: (int(good), int(bad)) for call_type, good, bad in lines}


def totals(session: ProfileSession) -> list[tuple[int, int]]:
    """Return each rule's successful and failed calls; check that nothing was lost."""
    snapshot = session.snapshot()
    assert snapshot.losses.total == 0, snapshot.losses
    assert snapshot.in_flight == 0
    for stats in snapshot.stats:
        assert stats.bytes == 0
        assert sum(stats.buckets) == stats.count
    return [(stats.count, stats.failed) for stats in snapshot.stats]


def folders(tmp_path: Path, *names: str) -> list[Path]:
    made = [tmp_path / name for name in names]
    for folder in made:
        folder.mkdir()
    return made


def test_every_call_below_and_beside_however_its_path_begins(tmp_path: Path, named: Path) -> None:
    below, deep, beside = folders(tmp_path, "below", "below/deep", "beside")
    with contextlib.ExitStack() as stack:
        inside, above = (stack.enter_context(opened(path)) for path in (below, tmp_path))
        session = stack.enter_context(ProfileSession(of_each_type(below)))
        for path, cwd, descriptor in (
            (str(below), Path("/"), AT_FDCWD),
            (f"/{tmp_path}/.//below/./deep", Path("/"), AT_FDCWD),
            (".", below, AT_FDCWD),
            (".", deep, AT_FDCWD),
            ("below", tmp_path, AT_FDCWD),
            (".//./below/deep", tmp_path, AT_FDCWD),
            (str(tmp_path.relative_to("/") / "below"), Path("/"), AT_FDCWD),
            ("deep", Path("/"), inside),
            ("below", Path("/"), above),
        ):
            told = call_all(session, named, path, cwd, descriptor)
            assert min(sum(calls) for calls in told.values()) > 0
            assert totals(session) == [told[call_type.value] for call_type in TYPES], path
            session.reset()
        for path, cwd, descriptor in (
            (str(beside), below, AT_FDCWD),
            (".", beside, AT_FDCWD),
            ("beside", tmp_path, AT_FDCWD),
            ("beside", below, above),
        ):
            call_all(session, named, path, cwd, descriptor)
            assert totals(session) == [(0, 0)] * len(TYPES), path


def test_agrees_with_strace(tmp_path: Path, named: Path) -> None:
    (below,) = folders(tmp_path, "below")
    trace, kinds = tmp_path / "trace", ",".join(SYSTEM_CALLS[CallType.DELETE])
    strace = ["strace", "-f", "-qq", "-e", f"trace={kinds}", "-o", str(trace)]
    with ProfileSession(contract(rule(below, CallType.DELETE))) as session:
        with session.tracking_new():
            process = subprocess.Popen([*strace, str(named), str(AT_FDCWD), str(below)])
        assert process.wait(timeout=30) == 0
        # strace always shows calls that it does not know (syscall_0x1c4).
        lines = [line for line in trace.read_text().splitlines() if str(below) in line]
        outcomes = [line.rpartition(" = ")[2] for line in lines]
        failed = sum(outcome.startswith("-1 ") for outcome in outcomes)
        assert totals(session) == [(len(outcomes) - failed, failed)]
        assert 0 < failed < len(outcomes)


def test_the_root_path_has_every_call_and_joined_types_add_up(tmp_path: Path, named: Path) -> None:
    everything = rule("/", *TYPES)
    with ProfileSession(contract(everything, rule(tmp_path, *TYPES))) as session:
        told = call_all(session, named, str(tmp_path), Path("/"))
        (count, failed), below = totals(session)
        assert below == tuple(map(sum, zip(*told.values())))
        assert count > below[0]  # from the program's start
        assert failed >= below[1]


def test_rules_within_rules_and_symlinks(tmp_path: Path, named: Path) -> None:
    outer, inner = folders(tmp_path, "outer", "outer/inner")
    link = tmp_path / "link"
    link.symlink_to(inner)
    rules = [rule(path, CallType.DELETE) for path in (outer, inner, link)]
    with ProfileSession(contract(*rules)) as session:
        in_outer = call_all(session, named, str(outer), Path("/"))["delete"]
        assert totals(session) == [in_outer, (0, 0), (0, 0)]
        session.reset()
        for path in (inner, link):  # with symlinks resolved, and as the rule is written
            told = call_all(session, named, str(path), Path("/"))["delete"]
            assert totals(session)[2] == told
            session.reset()


def test_a_mount_and_a_single_file(tmp_path: Path) -> None:
    with mounted(tmp_path / "mount", "-t", "tmpfs", "none") as mount:
        file = mount / "file"
        file.touch()
        rules = rule(mount, CallType.ACCESS), rule(file, CallType.ACCESS)
        with tracked(*rules) as session, opened(tmp_path) as above:
            os.stat("mount/file", dir_fd=above)
            os.stat(file)
            with pytest.raises(FileNotFoundError):
                os.stat(f"{file}2")
            assert totals(session) == [(2, 1), (2, 0)]


def test_an_opened_file_counts_where_it_lies(tmp_path: Path) -> None:
    below, beside = folders(tmp_path, "below", "beside")
    (below / "file").touch()
    (beside / "file").touch()
    (beside / "link").symlink_to(below / "file")
    with tracked(rule(below, CallType.OPEN)) as session:
        for path in (beside / "link", f"{beside}/../below/file", f"{below}/../beside/file"):
            os.close(os.open(path, os.O_RDONLY))
        assert totals(session) == [(2, 0)]


def test_two_paths_of_which_one_is_below(tmp_path: Path) -> None:
    below, beside = folders(tmp_path, "below", "beside")
    (below / "file").touch()
    with tracked(rule(below, CallType.FSCHANGE), rule(beside, CallType.CREATE)) as session:
        os.rename(below / "file", beside / "file")
        os.rename(beside / "file", beside / "moved")
        os.rename(beside / "moved", below / "file")
        os.rename(below / "file", below / "last")
        os.link(below / "last", beside / "link")
        assert totals(session) == [(3, 0), (1, 0)]


def test_a_process_with_a_root_of_its_own(tmp_path: Path) -> None:
    below, _ = folders(tmp_path, "below", "beside")
    program = "import os, sys; os.chroot(sys.argv[1]); os.mkdir('/below/a'); os.mkdir('/beside/a')"
    with ProfileSession(contract(rule(below, CallType.CREATE))) as session:
        with session.tracking_new():
            process = subprocess.Popen([sys.executable, "-BSc", program, str(tmp_path)])
        assert process.wait(timeout=30) == 0
        assert totals(session) == [(1, 0)]


def test_a_path_in_memory_that_was_never_touched(tmp_path: Path) -> None:
    """The program first uses its page within the call, so the call starts without the page."""
    (below,) = folders(tmp_path, "below")
    page = tmp_path / "page"
    page.write_bytes(bytes(f"{below}/missing", "utf-8").ljust(1 << 20, b"\0"))
    with page.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        libc = ctypes.CDLL(None, use_errno=True)
        with tracked(rule(below, CallType.DELETE)) as session:
            assert libc.unlink(ctypes.c_void_p(address)) == -1
            assert libc.unlink(ctypes.c_void_p(1)) == -1  # no path at all
            assert totals(session) == [(0, 1)]


def test_long_paths(tmp_path: Path) -> None:
    (below,) = folders(tmp_path, "below")
    path = f"{below}/" + ("x" * 99 + "/") * 10
    with tracked(rule(below, CallType.ACCESS)) as session:
        for size_bytes in (300, 400, 510):
            with pytest.raises(FileNotFoundError):
                os.stat(path[:size_bytes])
        assert totals(session) == [(0, 3)]
        with pytest.raises(FileNotFoundError):
            os.stat(path[:511])
        assert session.snapshot().losses.by_reason["paths_not_read"] == 1
    long = below / ("x" * 250)
    long.touch()
    with pytest.raises(UsageError, match="too long"):
        ProfileSession(contract(rule(long, CallType.OPEN))).__enter__()


def test_threads_at_once(tmp_path: Path) -> None:
    below, beside = folders(tmp_path, "below", "beside")

    def work(number: int) -> None:
        for folder in (below, beside):
            for turn in range(300):
                path = folder / f"{number}-{turn}"
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                os.unlink(path)

    with tracked(rule(below, CallType.CREATE), rule(below, CallType.DELETE)) as session:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert totals(session) == [(8 * 300, 0)] * 2
