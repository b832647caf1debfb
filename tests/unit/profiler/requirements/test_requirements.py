# SPDX-License-Identifier: Apache-2.0
"""Every requirement on a host that has it and on hosts that lack it, none of them this one."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import json
import re
from pathlib import Path

import pytest

from contracts.shared.errors import RequirementError
from contracts.shared.installation import program
from profiler import requirements
from profiler.bpf import probes
from profiler.bpf.btf import parsed_btf
from profiler.cli import commands, doctor
from profiler.requirements import CheckedHost, checks, remedies, require
from tests.unit.btf_images import image_of

NEEDS = {command.NAME: command.NEEDS for command in commands.ALL}

NEEDED = tuple(path for probe in probes.ALL for path in probe.members.values())
ROOT_STATUS = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"
FILES = {
    "/proc/self/status": ROOT_STATUS,
    "/proc/filesystems": "nodev\tsysfs\nnodev\ttracefs\n\text4\n",
    "/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable:    6291456 kB\n",
    "/proc/self/mountinfo": "9 1 0:9 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
    "/proc/sys/vm/nr_hugepages": "0\n",
    "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device": "",
    "/dev/loop-control": "",
    "/etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "/usr/lib/python3/dist-packages/bcc/libbcc.py": "",
}


LINKS = {"/proc/self/ns/user": "user:[4026531837]", "/proc/self/ns/pid": "pid:[4026531836]"}


def host_link(host: CheckedHost, path: str, target: str) -> None:
    host.path(path).parent.mkdir(parents=True, exist_ok=True)
    host.path(path).unlink(missing_ok=True)
    host.path(path).symlink_to(target)


def write(host: CheckedHost, path: str, text: str) -> None:
    host.path(path).parent.mkdir(parents=True, exist_ok=True)
    host.path(path).write_text(text)


@pytest.fixture
def host(tmp_path: Path) -> CheckedHost:
    """A host that has everything."""
    complete = CheckedHost(
        root=tmp_path,
        python_version=(3, 11, 2),
        python="/clone/.venv/bin/python",
        find_tool=lambda name: f"/usr/sbin/{name}",
        module_folder=lambda name: tmp_path / f"usr/lib/python3/dist-packages/{name}",
        import_error=lambda name: None,
        package_version=lambda name: "1.44.5",
        load_bpf_program=lambda: 0,
        has_syncfs=lambda: True,
    )
    for path, text in FILES.items():
        write(complete, path, text)
    for link, target in LINKS.items():
        host_link(complete, link, target)
    write(complete, checks.BTF_FILE, "")
    complete.path(checks.BTF_FILE).write_bytes(image_of(NEEDED))
    parsed_btf.cache_clear()
    return complete


@pytest.mark.parametrize("requirement", requirements.ALL, ids=lambda item: item.name)
def test_a_complete_host_meets_each_requirement(
    requirement: requirements.Requirement, host: CheckedHost
) -> None:
    finding = requirement.check(host)
    assert finding.ok, finding.problem
    assert finding.found and not finding.remedy


@pytest.mark.parametrize("requirement", requirements.ALL, ids=lambda item: item.name)
def test_a_bare_host_gets_a_sentence_and_a_remedy_for_each(
    requirement: requirements.Requirement, tmp_path: Path
) -> None:
    bare = CheckedHost(
        root=tmp_path,
        python_version=(3, 8, 1),
        find_tool=lambda name: None,
        module_folder=lambda name: None,
        package_version=lambda name: None,
        load_bpf_program=lambda: errno.EPERM,
        has_syncfs=lambda: False,
    )
    finding = requirement.check(bare)
    assert not finding.ok
    assert finding.found and finding.problem and finding.remedy
    assert "\n" not in finding.problem + finding.remedy


def test_require_raises_for_the_first_one_missing_in_the_order_asked(host: CheckedHost) -> None:
    host.path("/proc/self/status").write_text("Uid:\t0\t1000\t0\t0\nCapEff:\t0\n")
    host.path(checks.BTF_FILE).unlink()
    require("bcc", "bpf", host=host)
    with pytest.raises(RequirementError, match=r"needs root.*effective uid 1000") as caught:
        require("bcc", "root", "btf", host=host)
    assert caught.value.exit_code == 3
    assert caught.value.hint == f"run it as root: sudo {program()} …"
    with pytest.raises(RequirementError, match=r"type information \(BTF\) is missing"):
        require("btf", "root", host=host)


def test_root_without_its_capabilities_is_not_root(host: CheckedHost) -> None:
    every_one_but_sys_admin = 0x1FFFFFFFFFF & ~(1 << 21)
    status = ROOT_STATUS.replace("000001ffffffffff", f"{every_one_but_sys_admin:016x}")
    host.path("/proc/self/status").write_text(status)
    assert "CAP_SYS_ADMIN is missing" in checks.root(host).problem


def test_root_of_a_user_namespace_is_not_root(host: CheckedHost) -> None:
    host_link(host, "/proc/self/ns/user", "user:[4026532000]")
    assert "root of another user namespace" in checks.root(host).problem
    host.path("/proc/self/ns/user").unlink()  # a kernel without CONFIG_USER_NS
    assert checks.root(host).ok


def test_a_separate_pid_namespace_is_reported_to_every_command_that_follows_processes(
    host: CheckedHost,
) -> None:
    host_link(host, "/proc/self/ns/pid", "pid:[4026532001]")
    for command in ("profile", "watch", "pull", "sweep", "demo"):
        with pytest.raises(RequirementError, match="another PID namespace"):
            require(*(name for name in NEEDS[command] if name in ("root", "pids")), host=host)


def test_an_empty_btf_file_counts_as_missing(host: CheckedHost) -> None:
    host.path(checks.BTF_FILE).write_bytes(b"")
    assert "not BTF" in checks.btf(host).found


def test_a_kernel_that_lacks_a_member_is_refused_by_the_member_and_the_oldest_kernel(
    host: CheckedHost,
) -> None:
    """Linux 5.10 has no request_queue.disk; no version is compared."""
    older = image_of(path for path in NEEDED if path != ("request_queue", "disk"))
    host.path(checks.BTF_FILE).write_bytes(older)
    finding = checks.btf(host)
    assert finding.problem == "this kernel lacks request_queue.disk, which the probes read"
    assert "Linux 6.1" in finding.remedy
    for command, needs in NEEDS.items():
        loads_probes = command in ("profile", "watch", "pull", "sweep", "study", "demo")
        assert ("btf" in needs) == loads_probes
        if loads_probes:
            with pytest.raises(RequirementError, match=r"request_queue\.disk"):
                require("btf", host=host)


class TestBcc:
    def test_not_installed(self, host: CheckedHost) -> None:
        host.path("/usr/lib/python3/dist-packages/bcc/libbcc.py").unlink()
        finding = checks.bcc(dataclasses.replace(host, module_folder=lambda name: None))
        assert finding.remedy == "apt-get install --no-install-recommends python3-bpfcc"

    def test_installed_but_not_seen_from_this_environment(self, host: CheckedHost) -> None:
        finding = checks.bcc(dataclasses.replace(host, module_folder=lambda name: None))
        assert "/clone/.venv/bin/python) does not find it" in finding.problem
        assert "system site packages" in finding.remedy

    def test_the_other_project_on_pypi(self, host: CheckedHost, tmp_path: Path) -> None:
        other = tmp_path / "site-packages/bcc"
        finding = checks.bcc(dataclasses.replace(host, module_folder=lambda name: other))
        assert "another project's bcc" in finding.problem
        assert "pip uninstall bcc" in finding.remedy

    def test_its_library_is_gone(self, host: CheckedHost) -> None:
        broken = dataclasses.replace(host, import_error=lambda name: "OSError: libbcc.so.0")
        finding = checks.libbcc(broken)
        assert finding.problem == "bcc is broken: OSError: libbcc.so.0"
        assert finding.remedy == "apt-get install --reinstall python3-bpfcc"


class TestBpf:
    def refused(self, host: CheckedHost, number: int) -> requirements.CheckResult:
        return checks.bpf(dataclasses.replace(host, load_bpf_program=lambda: number))

    def test_not_built_in(self, host: CheckedHost) -> None:
        assert "CONFIG_BPF_SYSCALL" in self.refused(host, errno.ENOSYS).remedy

    def test_lockdown(self, host: CheckedHost) -> None:
        write(host, "/sys/kernel/security/lockdown", "none integrity [confidentiality]\n")
        assert "lockdown=confidentiality" in self.refused(host, errno.EINVAL).remedy

    def test_seccomp(self, host: CheckedHost) -> None:
        status = ROOT_STATUS.replace("Seccomp:\t0", "Seccomp:\t2")
        host.path("/proc/self/status").write_text(status)
        assert "seccomp filter" in self.refused(host, errno.EPERM).remedy

    def test_not_root(self, host: CheckedHost) -> None:
        host.path("/proc/self/status").write_text("Uid:\t9\t9\t9\t9\nSeccomp:\t2\n")
        refused = self.refused(host, errno.EPERM)
        assert refused.needs_root
        assert refused.remedy.startswith("run it as root")
        assert not self.refused(host, errno.ENOSYS).needs_root


class TestTracefs:
    def test_mounted_with_system_calls(self, host: CheckedHost) -> None:
        mount = checks.TRACEFS_MOUNTS[1]
        host.path(f"{mount}/events/syscalls/sys_enter_write").mkdir(parents=True)
        assert checks.tracefs(host) == requirements.CheckResult(mount)

    def test_mounted_without_system_calls(self, host: CheckedHost) -> None:
        write(host, f"{checks.TRACEFS_MOUNTS[0]}/events/header_page", "")
        assert "no tracepoints for system calls" in checks.tracefs(host).problem


def test_a_tool_off_the_path_is_not_installed_again(host: CheckedHost) -> None:
    write(host, "/usr/sbin/mkfs.xfs", "")
    finding = checks.tools("mkfs.xfs")(dataclasses.replace(host, find_tool=lambda name: None))
    assert finding.problem == "mkfs.xfs is in /usr/sbin, which is not on PATH"
    assert finding.remedy == "export PATH=$PATH:/usr/sbin"


class TestBlkio:
    def test_cgroup_v2_with_io(self, host: CheckedHost) -> None:
        host.path("/proc/self/mountinfo").write_text("9 1 0:9 / /sys/fs/cgroup rw - cgroup2 x rw\n")
        write(host, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n")
        assert checks.blkio(host).found == "io in /sys/fs/cgroup/cgroup.controllers"

    def test_cgroup_v2_without_io(self, host: CheckedHost) -> None:
        host.path("/proc/self/mountinfo").write_text("9 1 0:9 / /sys/fs/cgroup rw - cgroup2 x rw\n")
        write(host, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu iota memory\n")
        assert "no cgroup controller can cap" in checks.blkio(host).problem


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=debian\n", "apt-get install --no-install-recommends python3-bpfcc"),
        (
            'ID=pop\nID_LIKE="ubuntu debian"\n',
            "apt-get install --no-install-recommends python3-bpfcc",
        ),
        ('ID="amzn"\nID_LIKE="fedora"\n', "dnf install python3-bcc"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install python3-bcc"),
        ("ID=arch\n", "install your distribution's equivalent of Debian's python3-bpfcc"),
        ("", "install your distribution's equivalent of Debian's python3-bpfcc"),
    ],
)
def test_a_remedy_speaks_the_hosts_distribution(
    release: str, command: str, host: CheckedHost
) -> None:
    host.path("/etc/os-release").write_text(release)
    assert remedies.install(host, "module:bcc") == command


def test_every_command_says_what_it_needs() -> None:
    known = {requirement.name for requirement in requirements.ALL}
    assert {name for names in NEEDS.values() for name in names} <= known


class TestDoctor:
    @pytest.fixture(autouse=True)
    def this_host(self, host: CheckedHost, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requirements, "CheckedHost", lambda: host)

    def run(self, as_json: bool = False) -> int:
        return doctor.run(argparse.Namespace(json=as_json, commands=commands.ALL))

    def test_all_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run() == 0
        output = capsys.readouterr().out
        assert "missing" not in output and "→" not in output
        assert "doctor" in output.split("command")[1]

    def test_what_was_found_is_not_broken(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        self.run()
        assert "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device" in capsys.readouterr().out

    def test_one_missing(self, host: CheckedHost, capsys: pytest.CaptureFixture[str]) -> None:
        host.path(checks.BTF_FILE).unlink()
        assert self.run() == 3
        output = capsys.readouterr().out
        assert "the kernel's type information (BTF) is missing\n  → boot a kernel" in output
        assert "[" not in output  # no markup, and none eaten

    def test_checks_that_need_root_say_so_and_the_rest_is_shown(
        self, host: CheckedHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(absolute: str) -> bool:
            if absolute.startswith(checks.TRACEFS_MOUNTS[0]):
                raise PermissionError(errno.EACCES, "Permission denied", absolute)
            return True

        monkeypatch.setattr(CheckedHost, "exists", lambda _, absolute: refuse(absolute))
        host.path("/proc/self/status").write_text("Uid:\t9\t9\t9\t9\nSeccomp:\t0\n")
        assert self.run() == 3
        output = capsys.readouterr().out
        assert all(f"\n{item.name} " in output for item in requirements.ALL)
        assert "only root can check: tracefs, functions\n  → run it as root" in output
        rows = {tuple(re.split(r" {2,}", line.strip())) for line in output.splitlines()}
        assert {("profile", "missing: root"), ("verify --applied", "missing: root")} <= rows
        assert ("verify", "ready") in rows
        with pytest.raises(RequirementError, match="only root can check this"):
            require("tracefs", host=host)

    def test_json(self, host: CheckedHost, capsys: pytest.CaptureFixture[str]) -> None:
        host.path(checks.BTF_FILE).unlink()
        assert self.run(as_json=True) == 3
        report = json.loads(capsys.readouterr().out)
        missing = [item["name"] for item in report["requirements"] if not item["ok"]]
        assert missing == ["btf"]
        for command in report["commands"]:
            needs_it = "btf" in NEEDS[command["name"].partition(" ")[0]]
            assert command["ready"] is not needs_it
            assert command["missing"] == (["btf"] if needs_it else [])
