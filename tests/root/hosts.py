"""What tests need to know of the host; a test that needs another kind of host is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

#: A skip that begins so is none that a package or a mount would mend: it is no failure in CI.
CANNOT_RUN_HERE = "cannot run on this host: "


def cannot_run_here(why: str) -> NoReturn:
    """Skip, also with WRITEWISE_REQUIRE_ROOT_TESTS."""
    pytest.skip(CANNOT_RUN_HERE + why)


def is_emulated() -> bool:
    """Whether software emulates the CPUs (QEMU's TCG), which makes them 10 to 30 times slower.

    TCG names its hypervisor leaf so; /proc/cpuinfo has it as `model name : QEMU TCG CPU version …`
    with `-cpu max` and `-cpu qemu64` (target/i386/cpu.c, target/i386/tcg/tcg-cpu.c).
    """
    return "TCG" in Path("/proc/cpuinfo").read_text()


#: How many times longer programs may take here. Limits of time and amounts of work scale by it;
#: lower limits of time do not: nothing is faster on an emulated CPU.
SLOWNESS = 20 if is_emulated() else 1


def needs_real_cpus(claim: str) -> None:
    """Skip what is a claim about time where CPUs are emulated."""
    if is_emulated():
        cannot_run_here(f"its CPUs are emulated (QEMU TCG), and {claim}")


def runs_programs_preemptibly() -> bool:
    """Whether a thread may lose its CPU amid a program on a system call, as on Linux 7.3.

    The kernel leaves out that program's runs on that CPU until the thread goes on
    (`trace_call_bpf_faultable()`). On Linux 6.18 it cannot happen.
    """
    return " trace_call_bpf_faultable\n" in Path("/proc/kallsyms").read_text()


def has_systemd() -> bool:
    """Whether systemd is the init of this host (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()
