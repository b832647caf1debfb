# SPDX-License-Identifier: Apache-2.0
"""When probes attach to the functions behind calls, on kernels made here."""

from __future__ import annotations

import pytest

from contracts.model import CallType
from profiler.bpf.btf import Btf
from profiler.bpf.casts import cast_of
from profiler.bpf.functions import FENTRY, FEXIT, Functions, functions_of, preempts_itself
from profiler.bpf.probe import Probe
from profiler.bpf.probes import calls, path_calls, scope, uring
from tests.unit.btf_images import FUNCTION, INT, POINTER, Image

FSYNC = calls.probe_of([CallType.FSYNC])
NAMES = ("fsync", "fdatasync", "sync_file_range", "syncfs", "io_submit", "getcpu")
REGISTERS = ("r10", "r9", "r8", "dx", "si", "di")


def kernel(*without: str) -> Btf:
    image = Image()
    number = image.add(INT, "long", 8, words=(64,))
    image.structure("pt_regs", *((name, number, 8 * at) for at, name in enumerate(REGISTERS)))
    for name in NAMES:
        image.add(POINTER, f"__x64_sys_{name}")  # of another kind
        if name not in without:
            image.add(FUNCTION, f"__x64_sys_{name}", number)
    return Btf(image.bytes())


def attached(probes: tuple[Probe, ...], btf: Btf | None, refusal: str | None = None) -> Functions:
    return functions_of(probes, btf, lambda trial: refusal)


def test_each_side_of_each_call_has_its_function() -> None:
    found = attached((scope.PROBE, FSYNC), kernel())
    ids = kernel().functions([f"__x64_sys_{name}" for name in NAMES])
    assert len(found.traced) == 9
    assert found.traced["syscalls:sys_enter_fsync"] == (ids["__x64_sys_fsync"], FENTRY)
    assert found.traced["syscalls:sys_exit_syncfs"] == (ids["__x64_sys_syncfs"], FEXIT)
    assert found.macros["OFFSET_ARGUMENT_0"] == 40
    assert found.macros["OFFSET_ARGUMENT_3"] == 0
    assert found.macros["BY_FUNCTIONS"]


def test_a_call_that_may_be_missing_is_left_out() -> None:
    found = attached((FSYNC,), kernel("io_submit"))
    assert len(found.traced) == 8
    assert "syscalls:sys_enter_io_submit" not in found.traced


@pytest.mark.parametrize(
    ("probes", "btf", "refusal"),
    [
        ((FSYNC,), kernel(), "it refuses"),
        ((FSYNC,), kernel("fdatasync"), None),
        ((FSYNC,), None, None),
        ((FSYNC, path_calls.probe_of([CallType.OPEN])), kernel(), None),
        ((scope.PROBE, uring.PROBE), kernel(), None),
    ],
    ids=["refused", "a function is missing", "no BTF", "paths", "no system calls"],
)
def test_tracepoints_remain(
    probes: tuple[Probe, ...], btf: Btf | None, refusal: str | None
) -> None:
    assert attached(probes, btf, refusal) == Functions()


@pytest.mark.parametrize(
    ("version", "modes", "preempts"),
    [
        ("#1 SMP Debian 5", "", False),
        ("#1 SMP PREEMPT Debian 5", "", True),
        ("#1 SMP PREEMPT_RT Debian 5", "", True),
        ("#1 SMP PREEMPT_DYNAMIC Debian 5", "none (voluntary) full\n", False),
        ("#1 SMP PREEMPT_DYNAMIC Debian 5", "(none) voluntary full lazy\n", False),
        ("#1 SMP PREEMPT_DYNAMIC Debian 5", "none voluntary (full)\n", True),
        ("#1 SMP PREEMPT_DYNAMIC Debian 5", "full (lazy)\n", True),
        ("#1 SMP PREEMPT_DYNAMIC Debian 5", "", True),
    ],
)
def test_preemption(version: str, modes: str, preempts: bool) -> None:
    assert preempts_itself(version, lambda: modes) is preempts


def test_a_kernel_without_the_cast_gets_no_macros() -> None:
    assert not cast_of(kernel()).macros
    assert not cast_of(None).calls
