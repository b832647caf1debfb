# SPDX-License-Identifier: Apache-2.0
"""The host as the checks see it; tests replace it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from contracts.shared.environment import for_programs
from contracts.shared.errors import RequirementError
from profiler.bpf.syscall import load_bpf_program


def has_syncfs() -> bool:
    """Return whether the C library has syncfs(2)."""
    import ctypes

    return hasattr(ctypes.CDLL(None), "syncfs")


def reason_for_tracepoints() -> str | None:
    """Return why probes cannot attach to the functions behind calls; None if they can."""
    from profiler.bpf.btf import VMLINUX, parsed_btf
    from profiler.bpf.functions import reason_for_tracepoints as reason

    try:
        return reason(parsed_btf(VMLINUX))
    except RequirementError as error:
        return error.message


def module_folder(name: str) -> Path | None:
    """Return the folder of a package without importing it; None if it cannot be found."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def import_error(name: str) -> str | None:
    """Import a module in another process and return why that failed; None if it did not.

    Another process, because BCC's compiler never returns its memory.
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
        return None
    return done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"


def package_version(name: str) -> str | None:
    """Return the version of a Python package without importing it; None if not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class CheckedHost:
    """The host as the checks see it: files below `root`, programs, modules, two system calls."""

    root: Path = Path("/")
    python_version: tuple[int, ...] = sys.version_info[:3]
    python: str = sys.executable
    find_tool: Callable[[str], str | None] = shutil.which
    module_folder: Callable[[str], Path | None] = module_folder
    import_error: Callable[[str], str | None] = import_error
    package_version: Callable[[str], str | None] = package_version
    load_bpf_program: Callable[[], int] = load_bpf_program
    has_syncfs: Callable[[], bool] = has_syncfs
    reason_for_tracepoints: Callable[[], str | None] = reason_for_tracepoints

    def path(self, absolute: str) -> Path:
        """Return the path of `absolute` on this host."""
        return self.root / absolute.lstrip("/")

    def exists(self, absolute: str) -> bool:
        """Return whether it exists. Raises PermissionError if this user may not know."""
        try:
            self.path(absolute).stat()
        except PermissionError:
            raise
        except OSError:
            return False
        return True

    def text(self, absolute: str) -> str:
        """Return the text of a file; "" if it is missing or unreadable."""
        try:
            return self.path(absolute).read_text(errors="replace")
        except OSError:
            return ""

    def link(self, absolute: str) -> str | None:
        """Return the target of a symlink; None if it is missing or unreadable."""
        try:
            return os.readlink(self.path(absolute))  # noqa: PTH115
        except OSError:
            return None

    def fields(self, absolute: str, separator: str) -> Mapping[str, str]:
        """Return a file's `KEY separator VALUE` lines; values without quotes and outer blanks."""
        lines = (line.partition(separator) for line in self.text(absolute).splitlines())
        return {key: value.strip().strip('"') for key, found, value in lines if found}

    @property
    def is_root(self) -> bool:
        """Whether the effective user id is 0."""
        real_and_effective = self.fields("/proc/self/status", ":").get("Uid", "").split()
        return real_and_effective[1:2] == ["0"]
