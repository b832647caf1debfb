# SPDX-License-Identifier: Apache-2.0
"""Probes on functions count what probes on tracepoints count, of the same calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf import loader
from profiler.bpf.btf import VMLINUX, Btf, parsed_btf
from profiler.bpf.functions import FEXIT, Functions, functions_of, reason_for_tracepoints
from profiler.bpf.probe import Probe
from profiler.bpf.probes import calls, socket_calls
from profiler.bpf.session import ProfileSession
from tests.root.hosts import SLOWNESS, cannot_run_here
from tests.root.profiling import contract, run, writer

pytestmark = pytest.mark.side_by_side

COUNTED = {**calls.SYSTEM_CALLS, **socket_calls.SYSTEM_CALLS}
#: The BTF id of an unnamed type, which is `void`.
NO_FUNCTION = 0
#: Calls of every counted type, some of which fail: a bad descriptor, address, offset or flag.
EVERY_CALL = """
import contextlib, ctypes, mmap, os, socket, sys
path = sys.argv[1] + "/file"
fd = os.open(path, os.O_RDWR | os.O_CREAT)
for size in range(1, 400):
    os.write(fd, bytes(size)); os.pwrite(fd, bytes(size), 7); os.writev(fd, [b"ab", bytes(size)])
    os.pwritev(fd, [bytes(size)], 0); os.pwritev(fd, [bytes(size)], 0, os.RWF_DSYNC)
    os.lseek(fd, size, os.SEEK_SET); os.read(fd, size); os.pread(fd, size, 0)
    os.readv(fd, [bytearray(size)]); os.preadv(fd, [bytearray(size)], 0)
other = os.open(path + "2", os.O_RDWR | os.O_CREAT)
os.sendfile(other, fd, 0, 300); os.copy_file_range(fd, other, 200, 0, 0)
ends = os.pipe()
os.write(ends[1], bytes(100)); os.splice(ends[0], other, 100, offset_dst=0)
os.fsync(fd); os.fdatasync(fd)
mmap.mmap(fd, 0).close()
os.listdir(sys.argv[1])
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname()).close(); listening.accept()[0].close()
libc = ctypes.CDLL(None)
for wrong in (lambda: os.write(99, b"x"), lambda: os.pwrite(fd, b"x", -1),
              lambda: os.lseek(fd, -1, os.SEEK_SET), lambda: os.fsync(99),
              lambda: os.write(os.open(path, os.O_RDONLY), b"x"),
              lambda: libc.pwrite(fd, ctypes.c_void_p(1), ctypes.c_size_t(5), ctypes.c_long(0)),
              lambda: os.preadv(fd, [bytearray(1)], 0, 1 << 30)):
    with contextlib.suppress(OSError):
        wrong()
"""


def every_type(*paths: object) -> Contract:
    """Return a contract with rules of each type for each path."""
    rules = [
        Rule(f"{kind.value}{at}", str(path), (kind,), SizeRange(), Measurement.COUNT, 1)
        for kind in COUNTED
        for at, path in enumerate(paths)
        if str(path) == "/" or kind not in socket_calls.SYSTEM_CALLS
    ]
    return Contract(10**9, tuple(rules))


@contextmanager
def both_ways(rules: Contract) -> Iterator[tuple[ProfileSession, ProfileSession]]:
    """Attach two sessions at once, the first by functions."""
    reason = reason_for_tracepoints(parsed_btf(VMLINUX))
    if reason is not None:
        cannot_run_here(f"its probes attach to tracepoints: {reason}")
    with ProfileSession(rules) as first, ProfileSession(rules, functions=False) as second:
        assert (first.by_functions, second.by_functions) == (True, False)
        yield first, second


def run_in_both(first: ProfileSession, second: ProfileSession, *command: object) -> None:
    """Run a command in both scopes; what this process itself reads later is in neither."""
    with second.tracking_new():
        run(first, *command)


def figures(session: ProfileSession) -> list[tuple[int, int, int]]:
    """Return calls, bytes and failures of each rule; check that nothing was lost."""
    snapshot = session.snapshot()
    assert snapshot.losses.total == 0, snapshot.losses
    assert snapshot.in_flight == 0
    return [(stats.count, stats.bytes, stats.failed) for stats in snapshot.stats]


def test_every_type_of_call_counts_the_same(tmp_path: Path) -> None:
    rules = every_type("/", tmp_path)
    with both_ways(rules) as (first, second):
        run_in_both(first, second, sys.executable, "-c", EVERY_CALL, tmp_path)
        counted = figures(first)
        assert counted == figures(second)
    by_label = {rule.label: figure for rule, figure in zip(rules.rules, counted)}
    assert all(count for count, _, _ in by_label.values()), by_label
    assert by_label["write1"][2] >= 3  # a negative offset, a bad address, a file open for reading


def test_threads_and_processes_that_write_without_a_pause(tmp_path: Path) -> None:
    with both_ways(contract(tmp_path, "/")) as (first, second):
        run_in_both(first, second, *writer("hammer", tmp_path, 200, 64))
        run_in_both(first, second, *writer("tree", tmp_path, 50, 100))
        assert figures(first) == figures(second)
        assert figures(first)[0][0] > 0


def test_a_contract_of_paths_attaches_to_tracepoints(tmp_path: Path) -> None:
    rules = every_type(tmp_path).rules
    opens = Rule("open", "/", (CallType.OPEN,), SizeRange(), Measurement.COUNT, 1)
    with ProfileSession(Contract(10**9, (*rules, opens))) as session:
        assert not session.by_functions


def test_a_refused_function_costs_only_the_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses the last of the programs: the trial here, or one without a function."""

    def with_one_wrong(probes: Sequence[Probe], btf: Btf | None) -> Functions:
        right = functions_of(probes, btf, lambda trial: None)
        if not right.traced:
            return right
        name = list(right.traced)[-1]
        return Functions({**right.traced, name: (NO_FUNCTION, FEXIT)}, right.macros)

    monkeypatch.setattr(loader, "functions_of", with_one_wrong)
    with ProfileSession(contract(tmp_path)) as session:
        assert not session.by_functions
        assert "the kernel refuses a program on the function of syscalls:" in str(
            session.functions_refused
        )
        assert "__x64_sys" not in enabled_functions()
        run(session, *writer("hammer", tmp_path, 200, 64))
        snapshot = session.snapshot()
    assert snapshot.stats[0].count > 0
    assert snapshot.losses.total == 0


def test_nothing_stays_attached(tmp_path: Path) -> None:
    with both_ways(contract(tmp_path)):
        assert "__x64_sys_pwrite64" in enabled_functions()
    deadline_s = time.monotonic() + 10 * SLOWNESS  # another process detaches
    while "__x64_sys_pwrite64" in enabled_functions():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def enabled_functions() -> str:
    """Return the functions that programs are attached to; none where no program can."""
    file = Path("/sys/kernel/tracing/enabled_functions")
    return file.read_text() if file.exists() else ""
