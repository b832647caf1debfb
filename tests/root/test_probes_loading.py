# SPDX-License-Identifier: Apache-2.0
"""Every probe loads, attaches and leaves nothing behind; if it cannot, one sentence says why."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from contracts.shared.errors import RequirementError
from contracts.stats import BUCKET_COUNT
from profiler.bpf import loader
from profiler.bpf.btf import Btf
from profiler.bpf.probe import Probe
from profiler.bpf.probes import ALL, dirty_limit, scope
from profiler.bpf.probes.dirty_limit import DirtyLimitReader
from profiler.bpf.session import SYSTEM_CALLS, ProfileSession
from tests.places import REPOSITORY
from tests.root.hosts import SLOWNESS
from tests.root.mount_namespaces import (
    DEBUGFS_MOUNTED,
    TRACEFS_MOUNTED,
    TRACEFS_UNMOUNTED,
    apart,
)
from tests.root.profiling import contract

NUMBERS = {
    **{"BUCKET_COUNT": BUCKET_COUNT, "CPU_COUNT": 1, "MAX_THREADS": 8},
    **{"SLOT_COUNT": 1, "WALK_LIMIT": 64, "DEVICE_COUNT": 1, "START_COUNT": 1, "ROUTE_COUNT": 1},
}
#: The names in /proc of attachments to tracepoints and to raw tracepoints.
ATTACHMENTS = ("anon_inode:[perf_event]", "anon_inode:bpf_link")


def descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # listdir's own
    return found


def is_supported(probe: Probe) -> bool:
    """Return whether this kernel has the structure of the probe (io_uring: since Linux 6.3)."""
    return not probe.structure or Btf.of_kernel().has_structure(probe.structure)


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def same_afterwards() -> Iterator[None]:
    loader.load((dirty_limit.PROBE,), {}).close()  # bcc has now opened what it keeps open
    before = descriptors(), os.getcwd(), threading.active_count()
    yield
    assert (descriptors(), os.getcwd(), threading.active_count()) == before
    assert "BCC_KERNEL_SOURCE" not in os.environ


@pytest.mark.usefixtures("same_afterwards")
@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.name)
def test_loads_attaches_and_leaves_nothing(probe: Probe, capfd: pytest.CaptureFixture[str]) -> None:
    before = mounts()
    with loader.load((probe,), NUMBERS) as module:
        assert mounts() == before
        attached = [target for target in descriptors().values() if target in ATTACHMENTS]
        all_of_it = set(probe.all_tracepoints) if is_supported(probe) else set()
        assert len(all_of_it - set(probe.optional)) <= len(attached) <= len(all_of_it)
        module.close()
    assert capfd.readouterr() == ("", "")


def closers() -> list[set[str]]:
    """Return what each process that closes attachments for us has open."""
    own, found = Path("/proc/self/cmdline").read_bytes(), []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if path.name != str(os.getpid()) and (path / "cmdline").read_bytes() == own:
                found.append({os.readlink(each) for each in (path / "fd").iterdir()})
    return found


def test_who_detaches_holds_nothing_else_and_ends() -> None:
    """In particular not the report's pipe, whose reader would wait for it."""
    loader.load((scope.PROBE,), {**NUMBERS, "MAX_THREADS": 1}).close()
    start = time.monotonic()
    while seen := closers():
        passed_s = time.monotonic() - start
        assert passed_s < 20 * SLOWNESS
        others = [{each for each in held if each not in ATTACHMENTS} for held in seen]
        is_early = passed_s < 0.1 * SLOWNESS
        assert is_early or all(len(each) <= 1 for each in others), others  # 1: the gate


def test_a_session_of_every_type_of_call() -> None:
    kinds = tuple(CallType)
    assert set(SYSTEM_CALLS) == set(kinds)
    rules = tuple(
        Rule(kind.name.lower(), "/", (kind,), SizeRange(), Measurement.COUNT, 1) for kind in kinds
    )
    with ProfileSession(Contract(10**9, rules)) as session:
        attached = [target for target in descriptors().values() if target in ATTACHMENTS]
        assert len(attached) > 2 * len(kinds)
        assert session.snapshot().losses.total == 0


@pytest.mark.usefixtures("same_afterwards")
def test_32_slots_load() -> None:
    loader.load(ALL[:6], {**NUMBERS, "SLOT_COUNT": 32}).close()


def in_python(script: str, wrapper: Sequence[str]) -> str:
    """Run a Python script in the repository; return its output, with nothing on stderr."""
    command = [*wrapper, sys.executable, "-c", script]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("mount", [TRACEFS_MOUNTED, DEBUGFS_MOUNTED, TRACEFS_UNMOUNTED])
def test_tracefs_is_used_where_it_is_and_mounted_nowhere(mount: str) -> None:
    script = (
        "import sys; from profiler.bpf import loader; from profiler.bpf.probes import dirty_limit\n"
        "from pathlib import Path\nbefore = Path('/proc/self/mountinfo').read_text()\n"
        "with dirty_limit.DirtyLimitReader() as reader: print(reader.read().limit_bytes > 0)\n"
        "assert Path('/proc/self/mountinfo').read_text() == before\n"
    )
    assert in_python(script, apart(mount)) == "True\n"


def test_a_killed_session_leaves_no_mount() -> None:
    before = mounts()
    script = (
        "from tests.root.profiling import contract\n"
        "from profiler.bpf.session import ProfileSession\n"
        "session = ProfileSession(contract('/')).__enter__()\n"
        "print('attached', flush=True)\nimport time; time.sleep(60)"
    )
    root = REPOSITORY
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "attached\n"
        process.send_signal(signal.SIGKILL)
    assert mounts() == before


def test_the_end_of_a_session_ends_its_counting(tmp_path: Path) -> None:
    with ProfileSession(contract(tmp_path)) as session:
        session.track(os.getpid())
    with ProfileSession(contract(tmp_path)) as fresh:
        (tmp_path / "file").write_bytes(b"x")
        assert fresh.snapshot().stats[0].count == 0


def test_a_missing_tracepoint_is_named() -> None:
    probe = Probe("none", ("dirty_limit.bpf.c",), ("writeback:no_such_event",))
    with pytest.raises(RequirementError, match="no tracepoint writeback:no_such_event"):
        loader.load((probe,), {})


def test_a_missed_attachment_is_an_error() -> None:
    probe = Probe("half", dirty_limit.PROBE.sources, ("writeback:balance_dirty_pages",))
    with pytest.raises(RequirementError, match="writeback:balance_dirty_pages"):
        loader.load((probe,), {})


def test_a_compiler_error_is_told_and_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "broken.bpf.c"
    source.write_text("int broken(void) { return nothing_of_that_name; }")
    with pytest.raises(RequirementError) as caught:
        loader.load((Probe("broken", (str(source),), ()),), {})
    assert "nothing_of_that_name" in caught.value.hint
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        (TRACEFS_UNMOUNTED, "tracefs cannot be accessed: unshare(): Operation not permitted"),
        (TRACEFS_MOUNTED, "the kernel does not allow this process to load BPF programs"),
    ],
)
def test_without_the_right_to_load(mount: str, told: str) -> None:
    script = (
        "from contracts.shared.errors import RequirementError\nfrom profiler.bpf import loader\n"
        "from profiler.bpf.probes import dirty_limit\nimport os\n"
        "try: loader.load((dirty_limit.PROBE,), {})\n"
        "except RequirementError as error: print(error.message)\n"
    )
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    assert in_python(script, [*apart(mount), *drop]) == f"{told}\n"


def test_a_refusal_by_bpf_itself_is_told_from_a_broken_probe() -> None:
    refused = loader.load_error("Failed to load", "bpf: Operation not permitted")
    assert "does not allow this process" in refused.message
    broken = loader.load_error("Failed to load", "x" * 1000 + " invalid access")
    assert broken.hint.endswith("invalid access")
    assert len(broken.hint) <= 400
    named = loader.load_error("Failed to load BPF program b'tracepoint__x': No", "")
    assert named.message == "the probes could not be loaded: Failed to load BPF program " + (
        "tracepoint__x: No"
    )


def thresholds_bytes() -> tuple[int, int]:
    lines = Path("/proc/vmstat").read_text().splitlines()
    values = {name: int(value) for name, value in (line.split() for line in lines)}
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    names = ("nr_dirty_threshold", "nr_dirty_background_threshold")
    return values[names[0]] * page_bytes, values[names[1]] * page_bytes


def test_dirty_limits_agree_with_vmstat() -> None:
    with DirtyLimitReader() as reader:
        for _ in range(20):
            limits = reader.read()
            threshold_bytes, background_bytes = thresholds_bytes()
            # free memory, and so the thresholds, change between the two readings
            assert limits.threshold_bytes == pytest.approx(threshold_bytes, rel=0.01)
            assert limits.background_bytes == pytest.approx(background_bytes, rel=0.01)
            assert limits.limit_bytes >= limits.threshold_bytes > limits.background_bytes > 0


def test_a_reader_whose_trigger_fires_nothing_says_so(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.touch()
    with DirtyLimitReader(trigger=silent) as reader, pytest.raises(RequirementError, match="limit"):
        reader.read()
