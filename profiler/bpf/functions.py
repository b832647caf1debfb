# SPDX-License-Identifier: Apache-2.0
"""The kernel functions behind system calls, to which probes attach where the kernel allows it.

A tracepoint of one system call slows every system call of the host. A program on the function's
entry or exit (fentry, fexit) costs only the calls of that function. `__x64_sys_NAME` gets the
registers of the call and returns its result, so a program learns the same there as from the two
tracepoints. 32-bit programs call other functions; the tracepoints leave them out, too
(arch/x86/include/asm/ftrace.h, arch_trace_is_compat_syscall).

Such a program can be preempted. Then the kernel leaves out its runs for other threads, and its
counters, which have one writer for each CPU, would be wrong. So tracepoints, whose programs cannot
be preempted, remain where the kernel preempts its own code.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contracts.shared.errors import RequirementError
from profiler.bpf import compiler
from profiler.bpf.btf import Btf
from profiler.bpf.probe import Probe
from sysctl.host.kernel_filesystems import open_debugfs

#: enum bpf_attach_type, include/uapi/linux/bpf.h.
FENTRY, FEXIT = 24, 25
_SIDES = {"syscalls:sys_enter_": FENTRY, "syscalls:sys_exit_": FEXIT}
_PREFIX = "__x64_sys_"
#: The registers of a call's arguments (arch/x86/include/asm/syscall_wrapper.h).
_ARGUMENTS = ("di", "si", "dx", "r10", "r8", "r9")
#: A program that does nothing is attached to this function for a moment; few programs call it.
_TRIAL = _PREFIX + "getcpu"
#: `return 0`: r0 = 0; exit.
_NOTHING = bytes((0xB7, 0, 0, 0, 0, 0, 0, 0)) + bytes((0x95, 0, 0, 0, 0, 0, 0, 0))
_MOUNTED_DEBUGFS, _PREEMPTION = Path("/sys/kernel/debug"), "sched/preempt"
#: The modes of CONFIG_PREEMPT_DYNAMIC in which the kernel does not preempt its own code.
_WITHOUT_PREEMPTION = ("none", "voluntary")


@dataclass(frozen=True)
class Functions:
    """How programs of system calls attach; without any they attach to the tracepoints.

    `traced` maps a tracepoint to the BTF id of the function and FENTRY or FEXIT, `macros` are for
    the compiler.
    """

    traced: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    macros: Mapping[str, int] = field(default_factory=dict)


def functions_of(
    probes: Sequence[Probe],
    btf: Btf | None,
    refusal: Callable[[int | None], str | None] | None = None,
) -> Functions:
    """Return the functions for all system calls of the probes, or none.

    All or none: where one tracepoint remains, every call of the host is slow already. `refusal` is
    asked why not to use them (`why_not`).
    """
    names = [name for probe in probes for name in probe.all_tracepoints if _side(name)]
    if not names or btf is None or not all(p.by_functions for p in probes if _has_calls(p)):
        return Functions()
    optional = {name for probe in probes for name in probe.optional}
    ids = btf.functions({_function(name) for name in names} | {_TRIAL})
    if any(_function(name) not in ids for name in names if name not in optional):
        return Functions()
    if (refusal or why_not)(ids.get(_TRIAL)) is not None:
        return Functions()
    macros = {
        f"OFFSET_ARGUMENT_{at}": btf.offset_bytes("pt_regs", register)
        for at, register in enumerate(_ARGUMENTS)
    }
    here = {name: ids[_function(name)] for name in names if _function(name) in ids}
    traced = {name: (function, _SIDES[_side(name)]) for name, function in here.items()}
    return Functions(traced, {"BY_FUNCTIONS": 1, **macros})


def _has_calls(probe: Probe) -> bool:
    return any(_side(name) for name in probe.all_tracepoints)


def _side(name: str) -> str:
    return next((side for side in _SIDES if name.startswith(side)), "")


def _function(name: str) -> str:
    return _PREFIX + name[len(_side(name)) :]


def reason_for_tracepoints(btf: Btf) -> str | None:
    """Return why programs cannot attach to functions on this kernel; None if they can."""
    return why_not(btf.functions({_TRIAL}).get(_TRIAL))


def why_not(trial: int | None) -> str | None:
    """Return the same; `trial` is the BTF id of the function for a trial."""
    if platform.machine() != "x86_64":
        return "attaching to functions was tested on x86_64 only"
    if trial is None:
        return f"the kernel does not describe {_TRIAL}"
    if preempts_itself():
        return "the kernel preempts its own code, or does not report whether it does"
    try:
        _try(trial)
    except OSError as error:
        return f"the kernel refuses programs on functions: {error.strerror}"
    return None


def _try(function: int) -> None:
    program = compiler.load_traced(_NOTHING, function, FENTRY)
    try:
        os.close(compiler.attach_traced(program))
    finally:
        os.close(program)


def preempts_itself(version: str = "", read: Callable[[], str] | None = None) -> bool:
    """Return whether the kernel may preempt its own code, or that is unknown.

    `version` is that of uname(2), by default the running kernel's; `read` returns its modes.
    """
    version = version or os.uname().version
    if "PREEMPT" not in version:
        return False
    if "PREEMPT_DYNAMIC" not in version:
        return True
    in_force = (read or modes_of_preemption)().partition("(")[2].partition(")")[0]
    return in_force not in _WITHOUT_PREEMPTION


def modes_of_preemption() -> str:
    """Return the modes, that in force in brackets: `none (voluntary) full`; "" if unknown.

    debugfs is read where it is mounted, because a hardened service may not mount it.
    """
    with contextlib.suppress(OSError):
        return (_MOUNTED_DEBUGFS / _PREEMPTION).read_text(encoding="ascii")
    with contextlib.suppress(OSError, RequirementError):
        root = open_debugfs()
        try:
            file = os.open(_PREEMPTION, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
            with os.fdopen(file, encoding="ascii") as text:
                return text.read()
        finally:
            os.close(root)
    return ""
