"""Set-up and doctor on this very host: the second run, and real refusals by the kernel."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profiler import requirements
from profiler.requirements.host import load_bpf_program

REPOSITORY = Path(__file__).parents[2]
VENV = REPOSITORY / ".venv"
DOCTOR = (sys.executable, "-m", "profiler.cli.main", "doctor", "--json")
TRY_BPF = (
    sys.executable,
    "-c",
    "import profiler.requirements.host as h; print(h.load_bpf_program())",
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
    requirements.require(*requirements.NEEDED_BY["pull"], *requirements.NEEDED_BY["lab"])


def test_the_kernel_takes_the_program_and_it_is_gone_afterwards() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert load_bpf_program() == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def without_capabilities(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as root whose every capability is taken away, as in a container."""
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
    assert problems["bcc"] == problems["btf"] == ""
    assert problems["root"] == (
        "root is needed with all its capabilities, and CAP_SYS_ADMIN is missing"
    )
    assert problems["bpf"] == "the kernel refuses BPF programs (bpf(): Operation not permitted)"
