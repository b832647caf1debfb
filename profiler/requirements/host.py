"""What the checks can see of the host; tests give them another one."""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from contracts.environment import for_programs

#: __NR_bpf: syscall_64.tbl of arch/x86 and include/uapi/asm-generic/unistd.h, Linux 6.1.
BPF_SYSCALL_NUMBERS = {"x86_64": 321, "aarch64": 280}
BPF_PROG_LOAD = 5
BPF_PROG_TYPE_TRACEPOINT = 5

#: (opcode, registers, immediate) of `bpf_probe_read_kernel(r10 - 8, 8, 0); return 0`. It reads
#: kernel memory, as the probes do: lockdown=confidentiality refuses just that (EINVAL from the
#: verifier: bpf_tracing_func_proto in kernel/trace/bpf_trace.c, Linux 6.1).
_READING_PROGRAM = (
    (0xBF, 0xA1, 0),  # r1 = r10
    (0x07, 0x01, -8),  # r1 += -8
    (0xB7, 0x02, 8),  # r2 = 8
    (0xB7, 0x03, 0),  # r3 = 0
    (0x85, 0x00, 113),  # call bpf_probe_read_kernel
    (0xB7, 0x00, 0),  # r0 = 0
    (0x95, 0x00, 0),  # exit
)


def load_bpf_program() -> int:
    """Load a tiny tracepoint program, attached to nothing, and drop it; 0 or the errno."""
    number = BPF_SYSCALL_NUMBERS.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    import ctypes

    code = b"".join(struct.pack("=BBhi", op, regs, 0, imm) for op, regs, imm in _READING_PROGRAM)
    instructions, gpl = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    # union bpf_attr of BPF_PROG_LOAD, include/uapi/linux/bpf.h: prog_type, insn_cnt, insns,
    # license, log_level, log_size, log_buf, kern_version, prog_flags.
    pointers = (ctypes.addressof(instructions), ctypes.addressof(gpl))
    attributes = struct.pack(
        "=IIQQIIQII", BPF_PROG_TYPE_TRACEPOINT, len(_READING_PROGRAM), *pointers, 0, 0, 0, 0, 0
    )
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(number, BPF_PROG_LOAD, attributes, len(attributes))
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0


def has_syncfs() -> bool:
    """Whether the C library has syncfs(2), by which a pull learns when it is durable."""
    import ctypes

    return hasattr(ctypes.CDLL(None), "syncfs")


def module_folder(name: str) -> Path | None:
    """The folder of an importable package, without importing it; None when there is none."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def import_error(name: str) -> str:
    """Import a module and say why that failed; empty when it did not.

    In a process of its own: what BCC's compiler takes of memory is never given back.
    """
    script = "import importlib, sys; importlib.import_module(sys.argv[1])"
    command = [sys.executable, "-I", "-c", script, name]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        env=for_programs(),
        check=False,
    )
    if done.returncode == 0:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"


def package_version(name: str) -> str | None:
    """Version of a Python package, without importing it; None when it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Host:
    """The host as the checks see it: files below `root`, tools, modules, and two system calls."""

    root: Path = Path("/")
    python_version: tuple[int, ...] = sys.version_info[:3]
    python: str = sys.executable
    find_tool: Callable[[str], str | None] = shutil.which
    module_folder: Callable[[str], Path | None] = module_folder
    import_error: Callable[[str], str] = import_error
    package_version: Callable[[str], str | None] = package_version
    load_bpf_program: Callable[[], int] = load_bpf_program
    has_syncfs: Callable[[], bool] = has_syncfs

    def path(self, absolute: str) -> Path:
        """Where `absolute` is on this host."""
        return self.root / absolute.lstrip("/")

    def exists(self, absolute: str) -> bool:
        """Whether it is there. Raises PermissionError where this user may not look."""
        try:
            self.path(absolute).stat()
        except PermissionError:
            raise
        except OSError:
            return False
        return True

    def text(self, absolute: str) -> str:
        """Text of a file; empty when it is missing or unreadable."""
        try:
            return self.path(absolute).read_text(errors="replace")
        except OSError:
            return ""

    def link(self, absolute: str) -> str:
        """Target of a symlink; empty when it is missing or unreadable."""
        try:
            return os.readlink(self.path(absolute))  # noqa: PTH115
        except OSError:
            return ""

    def fields(self, absolute: str, separator: str) -> Mapping[str, str]:
        """`KEY separator VALUE` lines of a file; values without quotes and surrounding blanks."""
        lines = (line.partition(separator) for line in self.text(absolute).splitlines())
        return {key: value.strip().strip('"') for key, found, value in lines if found}

    @property
    def is_root(self) -> bool:
        """Whether the effective user id is 0."""
        real_and_effective = self.fields("/proc/self/status", ":").get("Uid", "").split()
        return real_and_effective[1:2] == ["0"]
