# SPDX-License-Identifier: Apache-2.0
"""The requirements of commands as data.

`require` checks those of a command, `writewise doctor` shows all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from contracts.shared.errors import RequirementError
from profiler.requirements import checks
from profiler.requirements.checks import CheckResult, unchecked
from profiler.requirements.host import CheckedHost

__all__ = ["ALL", "CheckResult", "CheckedHost", "Requirement", "require"]


@dataclass(frozen=True)
class Requirement:
    """One requirement: its name, what it is for, and the check for it."""

    name: str
    purpose: str
    check: Callable[[CheckedHost], CheckResult]

    def found_on(self, host: CheckedHost) -> CheckResult:
        """Return the check's result; if this user may not check, that root is needed."""
        try:
            return self.check(host)
        except PermissionError as error:
            return unchecked(f"{error.filename}: {error.strerror}")


#: In the order in which a person would fix them.
ALL = (
    Requirement("python", "everything", checks.python),
    Requirement("root", "probes, settings, mounts", checks.root),
    Requirement("pids", "following processes", checks.pid_namespace),
    Requirement("btf", "structure offsets for the probes", checks.btf),
    Requirement("bcc", "compiling the probes", checks.bcc),
    Requirement("libbcc", "compiling the probes", checks.libbcc),
    Requirement("bpf", "loading the probes", checks.bpf),
    Requirement("tracefs", "attaching the probes", checks.tracefs),
    Requirement("functions", "probes that cost other calls nothing", checks.functions),
    Requirement("syncfs", "time until durable", checks.syncfs),
    Requirement("boto3", "pulling from S3", checks.boto3),
    Requirement("xfsprogs", "volumes with XFS", checks.tools("mkfs.xfs")),
    Requirement("e2fsprogs", "volumes with ext4", checks.tools("mkfs.ext4")),
    Requirement("losetup", "the lab's volume", checks.loop),
    Requirement("blkio", "the lab's throughput cap", checks.blkio),
    Requirement("hugepages", "the lab's memory ballast", checks.huge_pages),
    Requirement("memory", "the demo", checks.memory),
)


def require(*names: str, host: CheckedHost | None = None) -> None:
    """Check the named requirements in turn. Raises RequirementError for the first one not met."""
    by_name = {requirement.name: requirement for requirement in ALL}
    for name in names:
        finding = by_name[name].found_on(host or CheckedHost())
        if finding.problem:
            raise RequirementError(finding.problem, finding.remedy or "")
