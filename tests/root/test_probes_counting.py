# SPDX-License-Identifier: Apache-2.0
"""Counts compared with programs that make a known number of calls, and with other sources."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.model import SizeRange
from contracts.shared.errors import UsageError
from contracts.stats import CallStats, merge
from profiler.bpf.probes.waits import StallStats
from profiler.bpf.session import ProfileSession
from tests.root import writer as calls
from tests.root.hosts import cannot_run_here
from tests.root.profiling import contract, mounted, run, write, writer

pytestmark = pytest.mark.side_by_side

KINDS = len(calls.NUMBERS)


def bytes_waiting(fd: int) -> int:
    waiting = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, waiting)
    return int.from_bytes(waiting, sys.byteorder)


@contextlib.contextmanager
def strictly_limited(bdi: Path) -> Iterator[None]:
    """Limit a device strictly; restore it, since a loop device keeps limits without its image."""
    limits = {bdi / "strict_limit": "1", bdi / "max_ratio": "1"}
    if not (bdi / "strict_limit").exists():
        cannot_run_here("Linux before 6.2 has no strict_limit of a device; see test_causes")
    before = {path: path.read_text() for path in limits}
    try:
        for path, value in limits.items():
            path.write_text(value)
        yield
    finally:
        for path, value in before.items():
            path.write_text(value)


def folders(tmp_path: Path, *names: str) -> list[Path]:
    made = [tmp_path / name for name in names]
    for folder in made:
        folder.mkdir()
    return made


def totals(session: ProfileSession) -> list[tuple[int, int]]:
    """Return each rule's calls and bytes; check that nothing was lost."""
    snapshot = session.snapshot()
    assert snapshot.losses.total == 0, snapshot.losses
    assert snapshot.in_flight == 0
    for stats in snapshot.stats:
        assert sum(stats.buckets) == stats.count
    return [(stats.count, stats.bytes) for stats in snapshot.stats]


def test_processes_and_threads_below_and_beside_the_path(tmp_path: Path) -> None:
    below, beside = folders(tmp_path, "below", "beside")
    with ProfileSession(contract(below)) as session:
        run(session, *writer("tree", below, 50, 100))
        run(session, *writer("tree", beside, 20, 300))
        expected = calls.THREADS_OF_PLAN["tree"] * 50 * KINDS
        assert totals(session) == [(expected, expected * 100)]


def test_agrees_with_proc_io(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path)) as session:
        told = json.loads(run(session, *writer("threads", tmp_path, 200, 64)))
        assert totals(session) == [(told["syscw"], told["wchar"])]
        assert told["syscw"] == calls.THREADS_OF_PLAN["threads"] * 200 * KINDS


def test_agrees_with_strace(tmp_path: Path) -> None:
    (below,) = folders(tmp_path, "below")
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-qq", "-y", "-e", f"trace={','.join(calls.NUMBERS)}", "-o", trace]
    with ProfileSession(contract(below)) as session:
        run(session, *strace, *writer("tree", below, 5, 100))
        seen = sum(f"<{below}/" in line for line in trace.read_text().splitlines())
        assert totals(session) == [(seen, seen * 100)]
        assert seen == calls.THREADS_OF_PLAN["tree"] * 5 * KINDS


def test_32_threads_at_once_lose_nothing(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path, "/")) as session:
        run(session, *writer("hammer", tmp_path, 1000, 64))
        expected = 32 * 1000 * KINDS
        assert totals(session)[0] == (expected, expected * 64)
        latencies = session.snapshot().stats[0]
        assert 0 < latencies.latency_min_ns <= latencies.latency_mean_ns <= latencies.latency_max_ns
        assert latencies.percentile_ns(50) <= latencies.percentile_ns(99)


def test_a_single_file(tmp_path: Path) -> None:
    wanted, other = tmp_path / "wanted", tmp_path / "other"
    wanted.touch()
    with ProfileSession(contract(wanted)) as session:
        write(session, wanted, 7)
        write(session, other, 5)
        assert totals(session) == [(7, 700)]


def test_paths_within_paths_and_symlinks(tmp_path: Path) -> None:
    outer, inner = folders(tmp_path, "outer", "outer/inner")
    (tmp_path / "link").symlink_to(inner)
    rules = contract(outer, inner, tmp_path / "link", "/")
    with ProfileSession(rules) as session:
        write(session, outer / "file", 3)
        write(session, inner / "file", 4)
        assert totals(session) == [(7, 700), (4, 400), (4, 400), (7, 700)]


def test_mount_points(tmp_path: Path) -> None:
    """Another file system below the rule's directory, and the directory bind-mounted elsewhere."""
    (outer,) = folders(tmp_path, "outer")
    with contextlib.ExitStack() as stack:
        inner = stack.enter_context(mounted(outer / "inner", "-t", "tmpfs", "none"))
        again = stack.enter_context(mounted(tmp_path / "again", "--bind", outer))
        session = stack.enter_context(ProfileSession(contract(outer, inner)))
        write(session, outer / "file", 2)
        write(session, inner / "file", 3)
        write(session, again / "file", 5)  # the same directory under another name
        write(session, tmp_path / "file", 7)
        assert totals(session) == [(10, 1000), (3, 300)]


@pytest.mark.parametrize("fstype", ["xfs", "ext4"])
def test_a_volume(tmp_path: Path, fstype: str) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(320 << 20)
    subprocess.run([f"mkfs.{fstype}", "-q", str(image)], check=True)
    with mounted(tmp_path / "volume", "-o", "loop", image) as volume:
        (volume / "deep").mkdir()
        with ProfileSession(contract(volume, volume / "deep")) as session:
            write(session, volume / "file", 3)
            write(session, volume / "deep" / "file", 4)
            write(session, tmp_path / "file", 5)
            assert totals(session) == [(7, 700), (4, 400)]


def test_overlay_whose_stat_tells_another_device(tmp_path: Path) -> None:
    lower, _ = folders(tmp_path, "lower", "lower/deep")
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(mounted(tmp_path / "base", "-t", "tmpfs", "none"))
        folders(base, "upper", "work")
        options = f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work"
        merged = tmp_path / "merged"
        stack.enter_context(mounted(merged, "-t", "overlay", "none", "-o", options))
        session = stack.enter_context(ProfileSession(contract(merged / "deep")))
        write(session, merged / "deep" / "file", 4)
        write(session, merged / "file", 5)
        assert totals(session) == [(4, 400)]


def test_a_fresh_mount_of_the_same_device_is_the_same_place(tmp_path: Path) -> None:
    """A sweep of mount options keeps one session, which must not keep the volume busy."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    device = subprocess.check_output(["losetup", "-f", "--show", str(image)], text=True).strip()
    try:
        with mounted(tmp_path / "volume", device) as volume:
            (volume / "deep").mkdir()
            session = ProfileSession(contract(volume / "deep"))
            with session:
                write(session, volume / "deep" / "file", 2)
                subprocess.run(["umount", str(volume)], check=True)
                subprocess.run(["mount", "-o", "noatime", device, str(volume)], check=True)
                write(session, volume / "deep" / "file", 3)
                assert totals(session) == [(5, 500)]
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def test_a_rename_moves_a_file_out_of_the_path(tmp_path: Path) -> None:
    inside, outside = folders(tmp_path, "inside", "outside")
    with ProfileSession(contract(inside)) as session:
        session.track(os.getpid())
        with (inside / "file").open("wb", buffering=0) as file:
            file.write(b"x" * 10)
            (inside / "file").rename(outside / "file")
            file.write(b"x" * 20)
            (outside / "file").rename(inside / "file")
            file.write(b"x" * 40)
            (inside / "file").unlink()
            file.write(b"x" * 80)  # it was there when it was deleted
        assert totals(session) == [(3, 130)]


def test_size_ranges_by_the_bytes_moved(tmp_path: Path) -> None:
    ranges = [SizeRange(), SizeRange(0, 99), SizeRange(100, 200), SizeRange(201), SizeRange(0, 0)]
    with ProfileSession(contract(*((tmp_path, sizes) for sizes in ranges))) as session:
        session.track(os.getpid())
        with (tmp_path / "file").open("wb", buffering=0) as file:
            for size_bytes in (0, 1, 99, 100, 200, 201, 5000):
                file.write(b"x" * size_bytes)
        assert totals(session) == [(7, 5601), (3, 100), (2, 300), (2, 5201), (1, 0)]


def test_failed_calls_are_counted_apart(tmp_path: Path) -> None:
    tiny = tmp_path / "tiny"
    rules = contract(tiny, (tiny, SizeRange(1, 10)))
    with mounted(tiny, "-t", "tmpfs", "-o", "size=64k", "none"), ProfileSession(rules) as session:
        session.track(os.getpid())
        fd = os.open(tiny / "file", os.O_WRONLY | os.O_CREAT)
        try:
            for kind in calls.NUMBERS:
                assert calls.call(kind, fd, 0, 16) == -errno.EFAULT
            assert os.write(fd, bytes(1 << 20)) == 64 << 10  # a short write, and no failure
            for _ in range(3):
                with pytest.raises(OSError, match="No space"):
                    os.write(fd, b"x")
        finally:
            os.close(fd)
        assert calls.call("write", fd, 0, 16) == -errno.EBADF  # without a file there is no path
        assert totals(session) == [(1, 64 << 10), (0, 0)]
        assert [stats.failed for stats in session.snapshot().stats] == [8, 8]


def test_the_root_path_is_every_mounted_file_system_and_no_pipe(tmp_path: Path) -> None:
    tmpfs = tmp_path / "tmpfs"
    with mounted(tmpfs, "-t", "tmpfs", "none"), ProfileSession(contract("/")) as session:
        write(session, tmp_path / "file", 2)
        write(session, tmpfs / "file", 3)
        run(session, "sh", "-c", "printf 12345 | cat > /dev/null")
        assert totals(session) == [(6, 505)]  # a write to the pipe does not count


def test_only_what_is_tracked_counts(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path)) as session:
        (tmp_path / "file").write_bytes(b"x")
        assert totals(session) == [(0, 0)]
        write(session, tmp_path / "file", 2)
        (tmp_path / "file").write_bytes(b"x")
        assert totals(session) == [(2, 200)]


def test_processes_that_run_already(tmp_path: Path) -> None:
    command = writer("gated", tmp_path, 20, 50)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with ProfileSession(contract(tmp_path)) as session:
            session.track(process.pid)
            process.communicate("go\n", timeout=20)
            expected = calls.THREADS_OF_PLAN["gated"] * 20 * KINDS
            assert totals(session) == [(expected, expected * 50)]


def test_host_wide(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path), host_wide=True) as session:
        subprocess.run(writer("tree", tmp_path, 10, 50), check=True, stdout=subprocess.DEVNULL)
        expected = calls.THREADS_OF_PLAN["tree"] * 10 * KINDS
        assert totals(session) == [(expected, expected * 50)]


def test_reset_between_runs(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path)) as session:
        for count in (3, 5, 2):
            write(session, tmp_path / "file", count)
            assert session.reset().stats[0].count == count
            assert session.snapshot().stats == (CallStats(),)


def test_resets_while_calls_run_split_none_and_lose_none(tmp_path: Path) -> None:
    parts: list[CallStats] = []
    with ProfileSession(contract(tmp_path)) as session:
        command = threading.Thread(target=run, args=(session, *writer("hammer", tmp_path, 500, 8)))
        command.start()
        while command.is_alive():
            parts += session.reset().stats
            command.join(0.01)
        parts += session.reset().stats
    expected = 32 * 500 * KINDS
    assert (merge(parts).count, merge(parts).bytes) == (expected, expected * 8)
    assert sum(part.count > 0 for part in parts) > 1


def test_losses_are_counted_when_the_table_is_full(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path), max_threads=2) as session:
        run(session, *writer("threads", tmp_path, 5, 10))
        losses = session.snapshot().losses
        assert losses.threads_not_followed > 0
        assert losses.total == losses.threads_not_followed


def test_losses_are_counted_when_the_table_is_full_host_wide(tmp_path: Path) -> None:
    """A thread that has written, and still runs, has the only place in the table."""
    holder = ["sh", "-c", 'echo 1 >"$0"; echo ready; read line', str(tmp_path / "first")]
    pipe = subprocess.PIPE
    with (
        ProfileSession(contract(tmp_path), host_wide=True, max_threads=1) as session,
        subprocess.Popen(holder, stdin=pipe, stdout=pipe, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        subprocess.run(writer("hammer", tmp_path, 50, 10), check=True, stdout=pipe)
        snapshot = session.snapshot()
        process.communicate("go\n")
    assert snapshot.stats[0].count == 1
    assert snapshot.losses.calls_not_recorded == snapshot.losses.total == 32 * 50 * KINDS


def test_a_path_too_deep_is_a_loss(tmp_path: Path) -> None:
    deep = tmp_path / "/".join(["d"] * 70)
    deep.mkdir(parents=True)
    with ProfileSession(contract(tmp_path)) as session:
        write(session, deep / "file", 3)
        assert session.snapshot().losses.paths_too_deep == 3


def test_a_call_in_flight_is_named(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with ProfileSession(contract(tmp_path)) as session:
        with session.tracking_new():
            command = ["dd", "if=/dev/zero", f"of={fifo}", "bs=1M", "count=1", "status=none"]
            process = subprocess.Popen(command)
        try:
            while bytes_waiting(reader) < 64 << 10:
                assert process.poll() is None
                time.sleep(0.01)
            assert session.snapshot().in_flight == 1
            assert session.snapshot().stats[0].count == 0
        finally:
            process.kill()
            process.wait()
            os.close(reader)
        assert session.snapshot().in_flight == 0


def test_a_writer_that_is_throttled(tmp_path: Path) -> None:
    """On a separate volume with a bdi limit on dirty memory, so no sysctl is changed."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(512 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    with mounted(tmp_path / "volume", "-o", "loop", image) as volume:
        device = volume.stat().st_dev
        with ProfileSession(contract(volume)) as session:
            write(session, volume / "free", 1)
            assert session.reset().stall == StallStats()
            with strictly_limited(Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")):
                write(session, volume / "throttled", 300, size_bytes=1 << 20)
            stall = session.snapshot().stall
            latency_ns = session.snapshot().stats[0].latency_total_ns
    assert stall.events >= stall.pauses > 0
    assert stall.total_ns > 0
    assert latency_ns > stall.total_ns * 0.5  # planned sleeps are part of the calls' time
    assert stall.dirty_max_bytes > 0
    assert stall.limit_max_bytes > 0


def test_paths_that_cannot_be_profiled(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        ProfileSession(contract(tmp_path / "missing")).__enter__()
    with pytest.raises(UsageError, match="no process"), ProfileSession(contract("/")) as session:
        session.track(2**22 + 1)
