# SPDX-License-Identifier: Apache-2.0
"""`writewise profile` at its limits: threads that stay, calls begun before, signals."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.shared.errors import WritewiseError
from profiler.bpf import loader
from profiler.bpf.session import ProfileSession
from tests.places import REPOSITORY
from tests.root.profiling import contract, mounted
from tests.root.test_profile import WRITEWISE, profile, start, wait_until_attached

pytestmark = pytest.mark.side_by_side

FIFO_BYTES = 64 << 10


@contextlib.contextmanager
def blocked_writer(fifo: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process whose write waits for a full FIFO, and the FIFO's reading end."""
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = ["dd", "if=/dev/zero", f"of={fifo}", f"bs={2 * FIFO_BYTES}", "count=1", "status=none"]
    process = subprocess.Popen(command)
    try:
        _wait(lambda: "pipe_write" in Path(f"/proc/{process.pid}/wchan").read_text())
        yield process, reader
    finally:
        process.kill()
        process.wait()
        os.close(reader)


def _wait(condition) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("did not come true within 10 s")


def test_threads_that_outlive_the_command_are_named(tmp_path: Path) -> None:
    shell = ["sh", "-c", "sleep 3 >/dev/null 2>&1 & exit 5"]
    done = profile("--", *shell)
    assert done.returncode == 5
    assert "1 thread of those profiled still runs; later calls are not counted." in done.stderr
    document = json.loads(profile("--json", "--", "true").stdout)
    assert document["threads_left"] == 0


def test_a_call_begun_before_the_profile_is_a_loss(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    with blocked_writer(fifo) as (process, reader), ProfileSession(contract(tmp_path)) as session:
        session.track(process.pid)
        assert session.threads_followed() == 1
        assert session.snapshot().losses.total == 0
        while os.read(reader, FIFO_BYTES):
            _wait(lambda: process.poll() is not None or _readable(reader))
        process.wait()
        snapshot = session.snapshot()
        assert session.threads_followed() == 0
    assert snapshot.losses.calls_without_entry == snapshot.losses.total == 1
    assert snapshot.stats[0].count == 0


def _readable(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0)[0])


def test_a_failed_set_up_detaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader.load((), {}).close()  # bcc has now opened what it keeps open
    before = len(os.listdir("/proc/self/fd"))

    def fail(*_: object) -> None:
        raise WritewiseError("no")

    monkeypatch.setattr(loader.Module, "insert", fail)
    with pytest.raises(WritewiseError, match="no"):
        ProfileSession(contract(tmp_path)).__enter__()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("descriptors", [8, 16, 24, 32])
def test_too_few_file_descriptors_are_a_sentence(descriptors: int) -> None:
    done = subprocess.run(
        [*WRITEWISE, "--", "true"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors,) * 2),
    )
    assert done.returncode != 0
    assert "Too many open files" in done.stderr or "too many open files" in done.stderr
    assert "ulimit -n" in done.stderr
    assert "Traceback" not in done.stderr and "b'" not in done.stderr


def test_a_report_that_does_not_fit_is_a_sentence(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=4k", "tmpfs") as small:
        (small / "full").write_bytes(bytes(4096))
        done = profile("--output", small / "report", "--", "true")
        assert os.listdir(small) == ["full"]
    assert done.returncode == 125
    assert "report cannot be written" in done.stderr and "No space left" in done.stderr


def test_a_lost_connection_ends_the_wait_with_a_report() -> None:
    process = start("--duration", "60s")
    wait_until_attached(process)
    process.send_signal(signal.SIGHUP)
    report = process.communicate(timeout=20)[0]
    assert process.returncode == 0
    assert "Verdict: " in report


@pytest.mark.parametrize("pause_s", [0.0, 0.002, 0.01, 0.03])
def test_a_second_interrupt_tears_no_detachment(pause_s: float) -> None:
    process = start("--duration", "60s")
    wait_until_attached(process)
    process.send_signal(signal.SIGINT)
    time.sleep(pause_s)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=20)[1]
    assert errors in ("", "writewise: interrupted\n")
    assert process.returncode in (0, 130, -signal.SIGINT)  # the last: Python was already ending


def test_an_interrupt_while_the_probes_load_is_told() -> None:
    process = start("--duration", "60s")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    _wait(lambda: children.read_text())  # the compiler is at work
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=20)
    # The signal ends Python itself if it interrupts an exec(), and imports have many of these.
    assert process.returncode in (130, -signal.SIGINT)
    assert output == ("", "writewise: interrupted\n")


SEND = {
    "kill": lambda pid, terminal: os.kill(pid, signal.SIGINT),
    "Ctrl-C": lambda pid, terminal: os.write(terminal, b"\x03"),
}


@pytest.mark.parametrize("way", SEND)
def test_a_foreground_command_gets_an_interrupt_once(way: str) -> None:
    """With Ctrl-C from the terminal; with `kill -INT` (from another terminal) from us."""
    script = "trap 'echo told' INT; echo started; sleep 1; sleep 1; exit 9"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(REPOSITORY)
        os.execv(WRITEWISE[0], [*WRITEWISE, "--", "sh", "-c", script])
    seen = b""
    try:
        while b"started" not in seen:
            seen += os.read(terminal, 1000)
        SEND[way](pid, terminal)
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while chunk := os.read(terminal, 1000):
                seen += chunk
    finally:
        exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(terminal)
    assert exit_code == 9
    assert seen.count(b"told") == 1
    assert b"num_write" in seen
