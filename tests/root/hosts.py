# SPDX-License-Identifier: Apache-2.0
"""Facts about the host; a test that needs another kind of host is skipped."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NoReturn

import pytest

from sysctl.host.system import System

#: No package or mount would help against a skip that begins like this: it is no failure in CI.
CANNOT_RUN_HERE = "cannot run on this host: "


def cannot_run_here(why: str) -> NoReturn:
    """Skip the test, also with WRITEWISE_REQUIRE_ROOT_TESTS."""
    pytest.skip(CANNOT_RUN_HERE + why)


def is_emulated() -> bool:
    """Return whether software emulates the CPUs (QEMU's TCG): they are 10 to 30 times slower.

    TCG sets this hypervisor leaf; with `-cpu max` and `-cpu qemu64`, /proc/cpuinfo shows it as
    `model name : QEMU TCG CPU version …` (target/i386/cpu.c, target/i386/tcg/tcg-cpu.c).
    """
    return "TCG" in Path("/proc/cpuinfo").read_text()


#: How many times longer programs may take here. Upper time limits and amounts of work scale by it;
#: lower time limits do not, since nothing is faster on an emulated CPU.
SLOWNESS = 20 if is_emulated() else 1


def needs_real_cpus(claim: str) -> None:
    """Skip a test that makes a claim about time if the CPUs are emulated."""
    if is_emulated():
        cannot_run_here(f"its CPUs are emulated (QEMU TCG), and {claim}")


@functools.cache
def leaves_out_runs() -> bool:
    """Return whether the kernel leaves out runs of programs on system calls, as Linux 7.3 does.

    It does if threads outnumber the CPUs, since `trace_call_bpf_faultable()` runs them with
    preemption. Linux 6.18 has no such function.
    """
    return " trace_call_bpf_faultable\n" in Path("/proc/kallsyms").read_text()


def has_systemd() -> bool:
    """Return whether systemd is the init of this host (sd_booted(3))."""
    return System().is_run_by_systemd()
