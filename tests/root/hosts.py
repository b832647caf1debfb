"""What tests need to know of the host; a test that needs another kind of host is skipped."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NoReturn

import pytest

from sysctl.host.system import System

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


@functools.cache
def leaves_out_runs() -> bool:
    """Whether the kernel leaves out runs of programs on system calls, as Linux 7.3 does.

    It does where threads outnumber the CPUs, since it runs them by `trace_call_bpf_faultable()`,
    with preemption. Linux 6.18 has no such function.
    """
    return " trace_call_bpf_faultable\n" in Path("/proc/kallsyms").read_text()


def has_systemd() -> bool:
    """Whether systemd is the init of this host (sd_booted(3))."""
    return System().is_run_by_systemd()
