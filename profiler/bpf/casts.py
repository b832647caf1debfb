# SPDX-License-Identifier: Apache-2.0
"""Reads of kernel memory without a helper, which takes ten times as many instructions.

Since Linux 6.2 the kernel function `bpf_rdonly_cast` gives any address a type of the kernel's, and
a program may read through such a pointer; behind an invalid one it reads 0. The probes read words,
so one structure that begins with a word serves all reads (`word_at` in `places.bpf.h`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from profiler.bpf.btf import Btf
from profiler.bpf.syscall import load_bpf_program

_CAST = "bpf_rdonly_cast"
_WORD = "timespec64"
#: A number that no helper has; the compiler replaces its calls.
_PLACEHOLDER = 0x7000
_HELPER, _KERNEL_FUNCTION = 0, 0x20  # include/uapi/linux/bpf.h, BPF_PSEUDO_KFUNC_CALL << 4


@dataclass(frozen=True)
class Cast:
    """The call to insert for the placeholder, each a kind and a number, or none."""

    calls: tuple[tuple[int, int], ...] = ()
    macros: Mapping[str, int] = field(default_factory=dict)


def cast_of(btf: Btf | None) -> Cast:
    """Return the kernel's cast, if it lets a tracepoint's program call it."""
    function = btf.functions({_CAST}).get(_CAST) if btf else None
    if btf is None or function is None or not btf.has_structure(_WORD):
        return Cast()
    word = btf.structure_id(_WORD)
    if load_bpf_program(_reading(function, word)):
        return Cast()
    calls = ((_HELPER, _PLACEHOLDER), (_KERNEL_FUNCTION, function))
    return Cast(calls, {"READ_ONLY_CAST": _PLACEHOLDER, "TYPE_OF_WORD": word})


def _reading(function: int, word: int) -> tuple[tuple[int, int, int], ...]:
    """Return a program that reads a word through the cast, as (opcode, registers, immediate)."""
    return (
        (0xB7, 0x01, 0),  # r1 = 0
        (0xB7, 0x02, word),  # r2 = word
        (0x85, _KERNEL_FUNCTION, function),  # r0 = cast(r1, r2)
        (0x79, 0x00, 0),  # r0 = *(u64 *)r0
        (0xB7, 0x00, 0),  # r0 = 0
        (0x95, 0x00, 0),  # exit
    )
