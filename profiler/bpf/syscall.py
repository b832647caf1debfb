# SPDX-License-Identifier: Apache-2.0
"""The system call bpf(2) without a library: its number, and a test program."""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Sequence

#: __NR_bpf: syscall_64.tbl of arch/x86 and include/uapi/asm-generic/unistd.h, Linux 6.1.
BPF_SYSCALL_NUMBERS = {"x86_64": 321, "aarch64": 280}
BPF_PROG_LOAD = 5
BPF_PROG_TYPE_TRACEPOINT = 5

#: (opcode, registers, immediate) of `bpf_probe_read_kernel(r10 - 8, 8, 0); return 0`. It reads
#: kernel memory, as the probes do, because lockdown=confidentiality refuses exactly that (EINVAL
#: from the verifier: bpf_tracing_func_proto in kernel/trace/bpf_trace.c, Linux 6.1).
_READING_PROGRAM = (
    (0xBF, 0xA1, 0),  # r1 = r10
    (0x07, 0x01, -8),  # r1 += -8
    (0xB7, 0x02, 8),  # r2 = 8
    (0xB7, 0x03, 0),  # r3 = 0
    (0x85, 0x00, 113),  # call bpf_probe_read_kernel
    (0xB7, 0x00, 0),  # r0 = 0
    (0x95, 0x00, 0),  # exit
)


def load_bpf_program(program: Sequence[tuple[int, int, int]] = _READING_PROGRAM) -> int:
    """Load and drop a tiny tracepoint program without attaching it; return 0 or the errno."""
    number = BPF_SYSCALL_NUMBERS.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    import ctypes  # late, because every command that checks its requirements imports this module

    code = b"".join(struct.pack("=BBhi", op, regs, 0, imm) for op, regs, imm in program)
    instructions, gpl = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    # union bpf_attr of BPF_PROG_LOAD, include/uapi/linux/bpf.h: prog_type, insn_cnt, insns,
    # license, log_level, log_size, log_buf, kern_version, prog_flags.
    pointers = (ctypes.addressof(instructions), ctypes.addressof(gpl))
    attributes = struct.pack(
        "=IIQQIIQII", BPF_PROG_TYPE_TRACEPOINT, len(program), *pointers, 0, 0, 0, 0, 0
    )
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(number, BPF_PROG_LOAD, attributes, len(attributes))
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0
