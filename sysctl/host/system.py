"""The operating system as an argument: files, commands, the mount table and the boot's identity.

Tests hand in a `System` with another root and another `run`; nothing else of `sysctl.host` touches
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
    """The host refused a change, or did not do what it said."""


@contextlib.contextmanager
def host_errors(what: str) -> Iterator[None]:
    """Turn an OSError of the block into a HostError: `cannot WHAT: No space left on device`."""
    try:
        yield
    except OSError as error:
        raise HostError(f"cannot {what}: {error.strerror}") from None


def run_command(argv: Sequence[str]) -> str:
    """Run a program (never a shell) and return its stdout; raises HostError with its stderr.

    No signal tears it: it has a session of its own, and ours wait for its end, or it would run on
    beside the restore. After SIGKILL it does; the lock, which it inherits (`lock.py`), tells.
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
        raise HostError(f"{argv[0]} did not answer within {COMMAND_TIMEOUT_S} s") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise HostError(f"{' '.join(argv[:2])} … failed: {said}")
    return done.stdout


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the device. Raises OSError."""
    with _opened(path) as descriptor:
        os.fsync(descriptor)


def sync_writable_directory(path: Path) -> None:
    """As `sync_directory`, where the device below may have failed. Raises OSError.

    Once ext4 has given its journal up, fsync may succeed and bring nothing to the device (Linux
    6.1.y). A change begun then is refused: here, taking away an attribute that is not there.
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
    """The running host. `root` stands before every absolute path, for tests."""

    def __init__(self, root: Path = Path("/"), run: Run = run_command) -> None:
        self.root = root
        self.run = run

    def is_run_by_systemd(self) -> bool:
        """Whether systemd is the init of this host (sd_booted(3))."""
        return self.exists("/run/systemd/system")

    def path(self, absolute: str) -> Path:
        """Where the host's `absolute` path is for this system."""
        return self.root / absolute.lstrip("/")

    def read(self, absolute: str) -> str:
        """The text of a file of /proc or /sys, stripped. Raises HostError."""
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
        """Whether the path is there (a symlink counts as itself).

        Raises HostError where that cannot be told, as on a volume that fails.
        """
        try:
            os.lstat(self.path(absolute))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise HostError(f"cannot look at {absolute}: {error.strerror}") from None
        return True

    def boot_id(self) -> str:
        """The identity of the running boot; another value means that the host was restarted."""
        return self.read("/proc/sys/kernel/random/boot_id")

    def mounts(self) -> tuple[Mount, ...]:
        """The mount table of this process."""
        return parse_mountinfo(self.read("/proc/self/mountinfo"))

    def sleep(self, seconds: float) -> None:
        """Wait; an argument of the system so that tests need not."""
        time.sleep(seconds)

    def process_start_ticks(self, pid: int) -> int | None:
        """When process `pid` started, in clock ticks since boot; None when there is none.

        A zombie is none: it has ended, and only its parent can make it disappear.
        """
        fields = self._process_fields(pid)
        return int(fields[19]) if fields and fields[0] not in "ZX" else None

    def is_running(self, pid: int) -> bool:
        """Whether process `pid` is there and not on its way out.

        One that was killed may first have to wake from a wait that nothing interrupts (D).
        """
        fields = self._process_fields(pid)
        if not fields or fields[0] in "ZX" or int(fields[6]) & _PF_EXITING:
            return False
        return not self._was_killed(pid)

    def _was_killed(self, pid: int) -> bool:
        """Whether a SIGKILL waits to be seen by the process."""
        with contextlib.suppress(OSError):
            status = self.path(f"/proc/{pid}/status").read_text()
            pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
            return any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending)
        return True

    def _process_fields(self, pid: int) -> list[str]:
        """/proc/PID/stat from its third field on (proc(5)); no fields without such a process."""
        with contextlib.suppress(OSError):
            return self.path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return []
