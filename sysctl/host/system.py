# SPDX-License-Identifier: Apache-2.0
"""The operating system as an argument: files, commands, the mount table and the boot's identity.

Tests pass a `System` with another root and another `run`; nothing else in `sysctl.host` accesses
the host directly.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from contracts.shared.environment import for_programs
from contracts.shared.errors import WritewiseError
from sysctl.host.mount_table import Mount, parse_mountinfo
from sysctl.host.signals import signals_held_back

COMMAND_TIMEOUT_S = 120
_PF_EXITING = 0x4  # include/linux/sched.h

Run = Callable[[Sequence[str]], str]


class HostError(WritewiseError):
    """The host refused a change, or the change had no effect."""


@contextlib.contextmanager
def host_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the block into a HostError: `cannot WHAT: No space left on device`."""
    try:
        yield
    except OSError as error:
        raise HostError(f"cannot {what}: {error.strerror}") from None


def run_command(argv: Sequence[str]) -> str:
    """Run a program (never a shell) and return its stdout. Raises HostError with its stderr.

    Signals do not interrupt it: it has its own session, and ours are delayed until it ends. Else it
    would continue during the restore. After our SIGKILL it does continue, and then it holds the
    lock that it inherits (`lock.py`).
    """
    environment = {**for_programs(), "LC_ALL": "C"}
    try:
        with signals_held_back():
            done = subprocess.run(
                list(argv),
                capture_output=True,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                env=environment,
                stdin=subprocess.DEVNULL,
                close_fds=False,
                start_new_session=True,
                check=False,
            )
    except FileNotFoundError:
        raise HostError(
            f"the program {argv[0]} is not installed", "`writewise doctor` names the package"
        ) from None
    except subprocess.TimeoutExpired:
        raise HostError(f"{argv[0]} did not end within {COMMAND_TIMEOUT_S} s") from None
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise HostError(f"{' '.join(argv[:2])} … failed: {output}")
    return done.stdout


def sync_directory(path: Path) -> None:
    """Write the names in a directory to the device. Raises OSError."""
    with _opened(path) as descriptor:
        os.fsync(descriptor)


def sync_writable_directory(path: Path) -> None:
    """Do the same on a device that may have failed. Raises OSError.

    After ext4 has aborted its journal, fsync may succeed without writing anything (Linux 6.1.y),
    but new changes are refused. This one removes an attribute that does not exist.
    """
    with _opened(path) as descriptor:
        os.fsync(descriptor)
        try:
            os.removexattr(descriptor, "user.writewise")
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                raise


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class System:
    """The running host. `root` is put before every absolute path, for tests."""

    def __init__(self, root: Path = Path("/"), run: Run = run_command) -> None:
        self.root = root
        self.run = run

    def is_run_by_systemd(self) -> bool:
        """Return whether systemd is the init of this host (sd_booted(3))."""
        return self.exists("/run/systemd/system")

    def path(self, absolute: str) -> Path:
        """Return this system's path for the host's `absolute` path."""
        return self.root / absolute.lstrip("/")

    def read(self, absolute: str) -> str:
        """Return the stripped text of a file of /proc or /sys. Raises HostError."""
        try:
            return self.path(absolute).read_text().strip()
        except OSError as error:
            raise HostError(f"cannot read {absolute}: {error.strerror}") from None

    def write(self, absolute: str, text: str) -> None:
        """Write a file of /proc or /sys in one call. Raises HostError."""
        try:
            descriptor = os.open(self.path(absolute), os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HostError(f"cannot write {text!r} to {absolute}: {error.strerror}") from None

    def exists(self, absolute: str) -> bool:
        """Return whether the path exists (a symlink counts as itself).

        Raises HostError if that cannot be determined, as on a failed volume.
        """
        try:
            os.lstat(self.path(absolute))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise HostError(f"cannot check {absolute}: {error.strerror}") from None
        return True

    def boot_id(self) -> str:
        """Return the id of the running boot, which changes when the host restarts."""
        return self.read("/proc/sys/kernel/random/boot_id")

    def mounts(self) -> tuple[Mount, ...]:
        """Return the mount table of this process."""
        return parse_mountinfo(self.read("/proc/self/mountinfo"))

    def sleep(self, seconds: float) -> None:
        """Wait; tests replace it."""
        time.sleep(seconds)

    def process_start_ticks(self, pid: int) -> int | None:
        """Return when process `pid` started, in clock ticks since boot; None if it has ended.

        A zombie has ended; only its parent can remove it.
        """
        fields = self._process_fields(pid)
        return int(fields[19]) if fields and fields[0] not in "ZX" else None

    def is_running(self, pid: int) -> bool:
        """Return whether process `pid` is running and not about to end.

        A killed process may first have to wake from an uninterruptible wait (D).
        """
        fields = self._process_fields(pid)
        if not fields or fields[0] in "ZX" or int(fields[6]) & _PF_EXITING:
            return False
        return not self._was_killed(pid)

    def _was_killed(self, pid: int) -> bool:
        """Return whether a SIGKILL is pending for the process."""
        with contextlib.suppress(OSError):
            status = self.path(f"/proc/{pid}/status").read_text()
            pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
            return any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending)
        return True

    def _process_fields(self, pid: int) -> list[str]:
        """Return /proc/PID/stat from its third field on (proc(5)); [] if there is no process."""
        with contextlib.suppress(OSError):
            return self.path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return []
