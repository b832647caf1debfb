# SPDX-License-Identifier: Apache-2.0
"""Set-up and doctor on this host: the second run, and real refusals by the kernel."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler import requirements
from profiler.bpf.syscall import load_bpf_program
from profiler.cli.needs import LAB, PULL
from tests.places import REPOSITORY

WRITEWISE = (sys.executable, "-m", "profiler.cli.main")
VENV = REPOSITORY / ".venv"
DOCTOR = (*WRITEWISE, "doctor", "--json")
TRY_BPF = (
    sys.executable,
    "-c",
    "import profiler.bpf.syscall as s; print(s.load_bpf_program())",
)


@pytest.mark.skipif(Path(sys.prefix) != VENV, reason="not run from .venv; use make test")
def test_a_second_run_takes_under_two_seconds_and_no_network() -> None:
    start = time.monotonic()
    result = subprocess.run(
        ["unshare", "--net", REPOSITORY / "tools/setup", "test"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    elapsed_s = time.monotonic() - start
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert elapsed_s < 2


def test_this_host_has_all_that_profiling_and_the_lab_need() -> None:
    requirements.require(*PULL, *LAB)


def test_the_kernel_takes_the_program_and_it_is_gone_afterwards() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert load_bpf_program() == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def without_capabilities(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as root without any capability, as in a container."""
    return subprocess.run(
        ["setpriv", "--bounding-set=-all", *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_kernel_refuses_a_root_without_capabilities() -> None:
    result = without_capabilities(*TRY_BPF)
    assert result.stdout.strip() == str(errno.EPERM), result.stderr


def test_doctor_names_what_such_a_root_lacks() -> None:
    result = without_capabilities(*DOCTOR)
    assert (result.returncode, result.stderr) == (3, "")
    report = json.loads(result.stdout)
    problems = {item["name"]: item["problem"] for item in report["requirements"]}
    assert problems["bcc"] is None and problems["btf"] is None
    assert problems["root"] == (
        "this needs root with all capabilities, but CAP_SYS_ADMIN is missing"
    )
    assert problems["bpf"] == "the kernel refuses BPF programs (bpf(): Operation not permitted)"


def in_mount_namespace(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a shell script whose mounts no other program sees; `arguments` are its $1, $2, …"""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script, "sh", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


#: Root opens the interpreter and finds the modules, since a clone may be in /root.
AS_NOBODY = """
import os, sys
from profiler import requirements
from profiler.cli import doctor, main
import profiler.bpf.layouts, profiler.bpf.probes, profiler.report.console, rich.table
os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.exit(main.main(["doctor", "--json"]))
"""


@pytest.mark.parametrize("mounting", ["", "mount -t tracefs none /sys/kernel/tracing; "])
def test_doctor_checks_all_for_an_ordinary_user(mounting: str) -> None:
    script = f'{mounting}exec "$1" -c "$2"'
    result = in_mount_namespace(script, sys.executable, AS_NOBODY)
    assert (result.returncode, result.stderr) == (3, "")
    found = {item["name"]: item for item in json.loads(result.stdout)["requirements"]}
    assert list(found) == [each.name for each in requirements.ALL]
    assert found["root"]["problem"] == "this needs root, but runs with effective uid 65534"
    assert found["bpf"]["needs_root"]
    if mounting:
        assert found["tracefs"]["needs_root"]
    assert found["btf"]["ok"] and found["blkio"]["ok"]


def btf_without(folder: Path, member: str) -> Path:
    """Return this kernel's BTF with all members of one name renamed, as in an older kernel."""
    image = Path("/sys/kernel/btf/vmlinux").read_bytes()
    path = folder / "vmlinux"
    path.write_bytes(image.replace(f"\0{member}\0".encode(), b"\0" + b"z" * len(member) + b"\0"))
    return path


ON_OLDER = 'mount --bind "$1" /sys/kernel/btf/vmlinux; shift; exec "$@"'


@pytest.mark.parametrize(
    "command", [("doctor",), ("profile", "--", "true"), ("pull", "s3://b/p", "/tmp")]
)
def test_a_kernel_without_a_member_is_refused_by_its_name(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    result = in_mount_namespace(ON_OLDER, btf_without(tmp_path, "disk"), *WRITEWISE, *command)
    assert result.returncode == (125 if command[0] == "profile" else 3)
    said = result.stdout + result.stderr
    assert "request_queue.disk" in said and "Linux 6.1" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["status", "rollback"])
def test_what_loads_no_probes_runs_on_it(tmp_path: Path, command: str) -> None:
    result = in_mount_namespace(ON_OLDER, btf_without(tmp_path, "disk"), *WRITEWISE, command)
    assert result.returncode == 0, result.stderr
