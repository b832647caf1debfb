# SPDX-License-Identifier: Apache-2.0
"""The checks for requirements: what was found on the host, the problem, and the remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass

from contracts.shared import units
from contracts.shared.errors import RequirementError
from contracts.shared.installation import how_to_set_up, program
from profiler.requirements.host import CheckedHost
from profiler.requirements.remedies import install, reinstall
from sysctl.host.mount_table import parse_mountinfo

#: include/uapi/linux/capability.h. It implies CAP_BPF and CAP_PERFMON (bpf_capable() and
#: perfmon_capable() in include/linux/capability.h, Linux 6.1), and mounting needs it.
CAP_SYS_ADMIN = 21
MIN_PYTHON = (3, 9)
#: The host's own namespaces have these inode numbers (include/linux/proc_ns.h,
#: PROC_USER_INIT_INO and PROC_PID_INIT_INO).
HOST_USER_NAMESPACE = f"user:[{0xEFFFFFFD}]"
HOST_PID_NAMESPACE = f"pid:[{0xEFFFFFFC}]"
#: The memory of the small instance that the demo emulates, in addition to the ballast.
MIN_DEMO_MEMORY_BYTES = 4 * 2**30
BTF_FILE = "/sys/kernel/btf/vmlinux"
BTF_MAGICS = (b"\x9f\xeb", b"\xeb\x9f")  # BTF_MAGIC, include/uapi/linux/btf.h, either byte order
TRACEFS_MOUNTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
AS_ROOT = f"run it as root: sudo {program()} …"
PRIVILEGED = "run on the host itself; in a container, start it with --privileged"


@dataclass(frozen=True)
class CheckResult:
    """The result of a check; `problem` (one sentence) and `remedy` are None if it passed.

    `needs_root` means that this user may not check, so the requirement may or may not be met.
    """

    found: str
    problem: str | None = None
    remedy: str | None = None
    needs_root: bool = False

    @property
    def ok(self) -> bool:
        """Whether the requirement is met."""
        return not self.problem


def unchecked(found: str) -> CheckResult:
    """Return the result of a check that only root can perform."""
    return CheckResult(found, "only root can check this", AS_ROOT, needs_root=True)


def python(host: CheckedHost) -> CheckResult:
    """Check for Python 3.9 or later; the check of bcc shows whether it is the distribution's."""
    found = ".".join(map(str, host.python_version))
    if host.python_version >= MIN_PYTHON:
        return CheckResult(found)
    problem = f"{host.python} is Python {found}, but Writewise needs 3.9 or later"
    return CheckResult(found, problem, "use a distribution whose /usr/bin/python3 is newer")


def root(host: CheckedHost) -> CheckResult:
    """Check for effective user id 0 on the host, with CAP_SYS_ADMIN in the effective set."""
    status = host.fields("/proc/self/status", ":")
    user_ids = status.get("Uid", "").split()
    found = f"effective uid {user_ids[1]}" if len(user_ids) > 1 else "no /proc/self/status"
    if not host.is_root:
        return CheckResult(found, f"this needs root, but runs with {found}", AS_ROOT)
    if not int(status.get("CapEff", "0"), 16) >> CAP_SYS_ADMIN & 1:
        problem = "this needs root with all capabilities, but CAP_SYS_ADMIN is missing"
        return CheckResult(f"{found}, no CAP_SYS_ADMIN", problem, PRIVILEGED)
    # A kernel without CONFIG_USER_NS has no such link, and only one user namespace.
    if host.link("/proc/self/ns/user") not in (None, HOST_USER_NAMESPACE):
        problem = "this needs the host's root, but runs as root of another user namespace"
        return CheckResult(f"{found} of a user namespace", problem, PRIVILEGED)
    return CheckResult(found)


def pid_namespace(host: CheckedHost) -> CheckResult:
    """Check for the host's PID namespace, because the probes report the host's process ids."""
    found = host.link("/proc/self/ns/pid")
    if found == HOST_PID_NAMESPACE:
        return CheckResult("the host's own")
    problem = "this process is in another PID namespace, which hides the host's process ids"
    remedy = "run on the host itself, or start the container with --pid=host"
    return CheckResult(found or "no /proc/self/ns/pid", problem, remedy)


def btf(host: CheckedHost) -> CheckResult:
    """Check for the kernel's type information (BTF) with all members that the probes read."""
    try:
        with host.path(BTF_FILE).open("rb") as file:
            magic = file.read(2)
    except OSError as error:
        found = error.strerror or "unreadable"
    else:
        if magic in BTF_MAGICS:
            return _layouts(host)
        found = "not BTF"
    remedy = "boot a kernel with CONFIG_DEBUG_INFO_BTF, such as your distribution's"
    return CheckResult(
        f"{BTF_FILE}: {found}", "the kernel's type information (BTF) is missing", remedy
    )


def _layouts(host: CheckedHost) -> CheckResult:
    """Check for the structure members that the probes read; no kernel version is compared."""
    from profiler.bpf.btf import kernel_hint, parsed_btf
    from profiler.bpf.layouts import missing_members
    from profiler.bpf.probes import ALL

    try:
        missing = ", ".join(missing_members(ALL, parsed_btf(host.path(BTF_FILE))))
    except RequirementError as error:
        return CheckResult(BTF_FILE, error.message, error.hint)
    if not missing:
        return CheckResult(BTF_FILE)
    problem = f"this kernel lacks {missing}, which the probes read"
    return CheckResult(f"{BTF_FILE}: no {missing}", problem, kernel_hint())


def bcc(host: CheckedHost) -> CheckResult:
    """Check for BCC's Python binding; `bcc` on PyPI is another project."""
    folder = host.module_folder("bcc")
    if folder is None:
        return _missing_bcc(host)
    if not (folder / "libbcc.py").exists():  # only BCC's binding has it
        problem = f"{folder} is another project's bcc, from PyPI, not the eBPF compiler's"
        remedy = f"{host.python} -m pip uninstall bcc, then {how_to_set_up()}"
        return CheckResult(str(folder), problem, remedy)
    return CheckResult(str(folder))


def libbcc(host: CheckedHost) -> CheckResult:
    """Check that BCC's Python binding can be imported with its libraries."""
    binding = bcc(host)
    failure = host.import_error("bcc") if binding.ok else None
    if failure:
        return CheckResult(
            binding.found, f"bcc is broken: {failure}", reinstall(host, "module:bcc")
        )
    return binding


def _missing_bcc(host: CheckedHost) -> CheckResult:
    installed = sorted(host.path("/usr/lib").glob("python3*/*-packages/bcc/libbcc.py"))
    if not installed:
        problem = "the eBPF compiler's Python binding (bcc) is missing"
        return CheckResult("not installed", problem, install(host, "module:bcc"))
    problem = f"bcc is installed, but this Python ({host.python}) does not find it"
    remedy = f"{how_to_set_up()}: it makes .venv from /usr/bin/python3 with system site packages"
    return CheckResult(f"not seen by {host.python}", problem, remedy)


def bpf(host: CheckedHost) -> CheckResult:
    """Check that the kernel loads a BPF program that reads kernel memory."""
    number = host.load_bpf_program()
    if not number:
        return CheckResult("bpf() loads programs")
    found = f"bpf(): {os.strerror(number)}"
    if number in (errno.EPERM, errno.EACCES) and not host.is_root:
        return unchecked(found)
    return CheckResult(
        found, f"the kernel refuses BPF programs ({found})", _bpf_remedy(host, number)
    )


def _bpf_remedy(host: CheckedHost, number: int) -> str:
    if number == errno.ENOSYS:
        return "boot a kernel with CONFIG_BPF_SYSCALL on x86_64 or aarch64"
    if "[confidentiality]" in host.text("/sys/kernel/security/lockdown"):
        return "boot without lockdown=confidentiality, which forbids BPF to read kernel memory"
    if host.fields("/proc/self/status", ":").get("Seccomp") == "2":
        return f"{PRIVILEGED} (a seccomp filter is active)"
    return PRIVILEGED


def tracefs(host: CheckedHost) -> CheckResult:
    """Check for tracepoints of system calls; the loader mounts tracefs privately if necessary."""
    if "tracefs" not in host.text("/proc/filesystems").split():
        remedy = "boot a kernel with CONFIG_FTRACE_SYSCALLS, such as your distribution's"
        return CheckResult("not built in", "the kernel has no tracefs, so no tracepoints", remedy)
    for mount in TRACEFS_MOUNTS:
        if host.exists(f"{mount}/events/syscalls/sys_enter_write"):
            return CheckResult(mount)
        if host.exists(f"{mount}/events/header_page"):
            remedy = "boot a kernel with CONFIG_FTRACE_SYSCALLS"
            return CheckResult(mount, "the kernel has no tracepoints for system calls", remedy)
    return CheckResult("built in; mounted privately for each run")


def functions(host: CheckedHost) -> CheckResult:
    """Report what probes of calls attach to; both will do, so nothing is ever missing."""
    if not host.is_root:
        return unchecked("only root may attach probes")
    reason = host.reason_for_tracepoints()
    if reason is None:
        return CheckResult("probes of calls attach to functions")
    return CheckResult(f"probes of calls attach to tracepoints: {reason}")


def syncfs(host: CheckedHost) -> CheckResult:
    """Check for syncfs(2), which shows a pull when its data is durable."""
    if host.has_syncfs():
        return CheckResult("in the C library")
    remedy = "use a distribution with glibc 2.14 or later"
    return CheckResult("no", "the C library has no syncfs()", remedy)


def boto3(host: CheckedHost) -> CheckResult:
    """Check for boto3, with which Writewise pulls from S3."""
    version = host.package_version("boto3")
    if version:
        return CheckResult(version)
    return CheckResult("not installed", f"boto3 is missing in {host.python}", how_to_set_up())


def tools(*names: str) -> Callable[[CheckedHost], CheckResult]:
    """Return a check for programs on PATH; each has a row in packages.tsv."""

    def check(host: CheckedHost) -> CheckResult:
        for name in names:
            if not host.find_tool(name):
                return _missing_tool(host, name)
        return CheckResult(", ".join(str(host.find_tool(name)) for name in names))

    return check


def _missing_tool(host: CheckedHost, name: str) -> CheckResult:
    for folder in ("/usr/sbin", "/sbin"):
        if host.exists(f"{folder}/{name}"):
            problem = f"{name} is in {folder}, which is not on PATH"
            return CheckResult(f"{folder}/{name}", problem, f"export PATH=$PATH:{folder}")
    return CheckResult("not installed", f"{name} is missing", install(host, name))


def loop(host: CheckedHost) -> CheckResult:
    """Check for loop devices, which the lab's volume needs."""
    control = "/dev/loop-control"
    if not host.exists(control):
        return CheckResult(f"no {control}", "the kernel has no loop devices", "run `modprobe loop`")
    return tools("losetup", "mount")(host)


def blkio(host: CheckedHost) -> CheckResult:
    """Check for a controller that can cap a block device: blkio (cgroup v1) or io (cgroup v2)."""
    for mount in parse_mountinfo(host.text("/proc/self/mountinfo")):
        v1_file = f"{mount.target}/blkio.throttle.write_bps_device"
        if mount.fstype == "cgroup" and host.exists(v1_file):
            return CheckResult(v1_file)
        controllers = f"{mount.target}/cgroup.controllers"
        if mount.fstype == "cgroup2" and "io" in host.text(controllers).split():
            return CheckResult(f"io in {controllers}")
    problem = "no cgroup controller can cap a block device (blkio of version 1, io of version 2)"
    remedy = "run on the host itself, with a kernel that has CONFIG_BLK_DEV_THROTTLING"
    return CheckResult("neither", problem, remedy)


def huge_pages(host: CheckedHost) -> CheckResult:
    """Check for huge pages, which the lab's memory ballast needs."""
    path = "/proc/sys/vm/nr_hugepages"
    if host.exists(path):
        return CheckResult(path)
    remedy = "boot a kernel with CONFIG_HUGETLBFS, such as your distribution's"
    return CheckResult(f"no {path}", "the kernel has no huge pages", remedy)


def memory(host: CheckedHost) -> CheckResult:
    """Check for the memory that the demo needs to emulate a host of 4 GiB."""
    words = host.fields("/proc/meminfo", ":").get("MemAvailable", "0 kB").split()
    available_bytes = int(words[0]) * 1024
    found = f"{units.format_size(available_bytes)} available"
    if available_bytes >= MIN_DEMO_MEMORY_BYTES:
        return CheckResult(found)
    needed = units.format_size(MIN_DEMO_MEMORY_BYTES)
    problem = f"the demo needs {needed} of memory, but only {found}"
    remedy = "run `writewise lab down` if a lab is up, or use a larger instance"
    return CheckResult(found, problem, remedy)
