# SPDX-License-Identifier: Apache-2.0
"""If a host or container refuses `writewise profile`: a sentence, a remedy, exit code 3.

Each refusal is real: it comes from the kernel, or from a mount namespace of the test.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.places import REPOSITORY
from tests.root import groups
from tests.root.hosts import SLOWNESS
from tests.root.mount_namespaces import (
    DEBUGFS_MOUNTED,
    TRACEFS_MOUNTED,
    TRACEFS_UNMOUNTED,
    apart,
)

pytestmark = pytest.mark.side_by_side

WRITEWISE = [sys.executable, "-m", "profiler.cli.main", "profile"]
#: bpf and perf_event_open: syscall_64.tbl of arch/x86, include/uapi/asm-generic/unistd.h.
NUMBERS = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "unshare": 272},
    "aarch64": {"bpf": 280, "perf_event_open": 241, "unshare": 97},
}[platform.machine()]
MIB = 1 << 20


def profile(
    tmp_path: Path,
    before: Callable[[], None] | None = None,
    wrapper: Sequence[object] = (),
    expected: int = 125,
) -> str:
    """Profile a command that leaves a mark; return stderr, whose form is checked."""
    mark = tmp_path / "mark"
    command = [*map(str, wrapper), *WRITEWISE, "--", "touch", str(mark)]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60 * SLOWNESS,
        preexec_fn=before,
    )
    assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr
    assert mark.exists() == (expected == 0)  # without a profile the command does not run
    if expected:
        sentence, hint = done.stderr.splitlines()
        assert sentence.startswith("writewise: ")
        assert hint.startswith("  → ")
    return done.stderr


@pytest.mark.parametrize("mount", [TRACEFS_UNMOUNTED, TRACEFS_MOUNTED, DEBUGFS_MOUNTED])
def test_tracefs_mounted_or_not_is_no_hindrance(tmp_path: Path, mount: str) -> None:
    assert "Lost: nothing" in profile(tmp_path, wrapper=apart(mount), expected=0)


def test_a_kernel_without_tracefs(tmp_path: Path) -> None:
    filesystems = tmp_path / "filesystems"
    filesystems.write_text("nodev\ttmpfs\n\text4\n")
    said = profile(tmp_path, wrapper=apart('mount --bind "$1" /proc/filesystems', filesystems))
    assert "the kernel has no tracefs" in said
    assert "CONFIG_FTRACE_SYSCALLS" in said


def test_a_tracepoint_that_is_missing(tmp_path: Path) -> None:
    """For example a kernel built without the scheduler's: a folder replaces tracefs."""
    tracing = "/sys/kernel/tracing"
    script = f"{TRACEFS_UNMOUNTED}\nmount -t tmpfs none {tracing}; mkdir -p {tracing}/events/$1"
    said = profile(tmp_path, wrapper=apart(script, "syscalls/sys_enter_write"))
    assert "this kernel has no tracepoint " in said
    assert "CONFIG_FTRACE_SYSCALLS" in said


def test_a_kernel_without_btf(tmp_path: Path) -> None:
    said = profile(tmp_path, wrapper=apart("mount -t tmpfs none /sys/kernel/btf"))
    assert "the kernel's type information (BTF) is missing" in said
    assert "CONFIG_DEBUG_INFO_BTF" in said


@pytest.mark.parametrize("kept_bytes", [2, 24, 5000])
def test_btf_that_is_cut_short(tmp_path: Path, kept_bytes: int) -> None:
    cut = tmp_path / "btf"
    cut.write_bytes(Path("/sys/kernel/btf/vmlinux").read_bytes()[:kept_bytes])
    said = profile(tmp_path, wrapper=apart('mount --bind "$1" /sys/kernel/btf/vmlinux', cut))
    assert "the kernel's BTF is truncated" in said
    assert "CONFIG_DEBUG_INFO_BTF" in said


@pytest.mark.parametrize("dropped", ["-all", "-sys_admin", "-sys_admin,-bpf,-perfmon"])
def test_root_without_capabilities(tmp_path: Path, dropped: str) -> None:
    said = profile(tmp_path, wrapper=["setpriv", f"--bounding-set={dropped}"])
    assert "CAP_SYS_ADMIN is missing" in said
    assert "--privileged" in said


def refuse(*names: str) -> None:
    """Make seccomp refuse system calls with EPERM, as container runtimes do by default.

    A classic BPF program on struct seccomp_data, whose first word is the call's number
    (include/uapi/linux/seccomp.h).
    """
    load, jump, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    filters = [(load, 0, 0, 0)]
    for left, name in zip(range(len(names) - 1, -1, -1), names):
        filters.append((jump, left + 1, 0, NUMBERS[name]))
    filters += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | errno.EPERM)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in filters))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(filters), ctypes.addressof(code)))
    set_seccomp, filter_mode = 22, 2  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(set_seccomp, filter_mode, program) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.parametrize(
    ("refused", "sentence", "remedy"),
    [
        ("bpf", "the kernel refuses BPF programs (bpf(): Operation not permitted)", "seccomp"),
        (
            "perf_event_open",
            "does not allow this process to load BPF",
            "outside a container",
        ),
    ],
)
def test_a_container_that_refuses(tmp_path: Path, refused: str, sentence: str, remedy: str) -> None:
    said = profile(tmp_path, before=lambda: refuse(refused))
    assert sentence in said
    assert remedy in said


#: Makes this module's filter refuse unshare() in a namespace that `unshare` has already made.
REFUSE_UNSHARE = (
    "import os, sys; from tests.root.test_profile_refused import refuse; refuse('unshare'); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


@pytest.mark.parametrize(
    ("mount", "expected", "said"),
    [
        (TRACEFS_UNMOUNTED, 125, "tracefs cannot be accessed: unshare():"),
        (TRACEFS_MOUNTED, 0, "Lost: nothing"),
    ],
)
def test_a_container_that_refuses_mount_namespaces(
    tmp_path: Path, mount: str, expected: int, said: str
) -> None:
    wrapper = [*apart(mount), sys.executable, "-c", REFUSE_UNSHARE]
    assert said in profile(tmp_path, wrapper=wrapper, expected=expected)


@pytest.mark.parametrize("limit_mib", [100, 150, 200])
def test_a_limit_of_address_space(tmp_path: Path, limit_mib: int) -> None:
    limits = (limit_mib * MIB, limit_mib * MIB)
    said = profile(tmp_path, before=lambda: resource.setrlimit(resource.RLIMIT_AS, limits))
    assert "not enough memory to load the probes" in said
    assert "ulimit -v" in said


@pytest.mark.alone
@pytest.mark.parametrize("limit_mib", [48, 64])
def test_a_control_group_without_memory_for_the_compiler(tmp_path: Path, limit_mib: int) -> None:
    """The kernel kills the compiler, and Writewise survives and reports it."""
    with groups.limited(limit_mib * MIB) as (group, _):
        said = profile(tmp_path, wrapper=groups.inside(group))
    assert "not enough memory to load the probes" in said
    assert "raise the memory limit" in said
