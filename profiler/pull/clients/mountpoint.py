"""Mountpoint for Amazon S3 (`mount-s3`): mount the prefix, copy its files, unmount.

The mount is made in a mount namespace of the program's own, and read through `/proc/PID/root`: it
goes with the program, however that ends, and nobody else ever sees it. It is at a directory of
root's, since the destination's owner could have any path there lead elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from profiler.bpf.compiler import keep_mounts_to_itself
from profiler.pull.clients.interface import OnBytes, PrefixSource
from profiler.pull.clients.program import ProgramClient, reason, require_program
from profiler.pull.clients.ranged_get import write_at
from profiler.pull.errors import PullError
from profiler.pull.program_directory import CACHE

#: Libraries and certificates, and what /etc has links to. Of other mounts that the program cannot
#: see, none stays busy through it.
_NEEDED = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share", "/run", "/var/lib")
_LOOK_S = 0.02
_MOUNT_TIMEOUT_S = 30.0
_UNMOUNT_TIMEOUT_S = 0.5  # a worker that is told to stop has 0.8 s


class MountpointClient(ProgramClient):
    """Files are copied `max_concurrency` at a time, in blocks of `io_chunksize`. Needs root."""

    program = "mount-s3"

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See ProgramClient; where the prefix is to be mounted is added to the arguments."""
        prefix = source.prefix.rpartition("/")[0] + "/" if "/" in source.prefix else ""
        options = ["--read-only", "--foreground"]
        if prefix:
            options.append(f"--prefix={prefix}")
        if self.access.endpoint_url:
            region = self._client.meta.region_name
            options += ["--endpoint-url", self.access.endpoint_url, "--force-path-style"]
            options += ["--region", region]
        if not self.access.sign_requests:
            options.append("--no-sign-request")
        return [*options, source.bucket]

    def download_all(self, source: PrefixSource, directory: str, on_bytes: OnBytes) -> str:
        """See PrefixClient. The answer says how many files could not be read."""
        arguments = [require_program(self.program), *self.command(source, directory)]
        with self._mounted(arguments, on_bytes) as mounted:
            names = [source.file_name] if source.is_one_object else _names_below(mounted)
            return self._copy(names, mounted, directory, on_bytes)

    @contextlib.contextmanager
    def _mounted(self, arguments: Sequence[str], on_bytes: OnBytes) -> Iterator[str]:
        """A path to the mount, which is gone after the block."""
        place = _place_to_mount_at()
        with tempfile.TemporaryFile() as output:
            process = self._start_apart([*arguments, place], output)
            try:
                mounted = f"/proc/{process.pid}/root{place}"
                if not _appears(process, mounted, place, on_bytes):
                    raise PullError(self._why_not_mounted(process, output))
                yield mounted
            finally:
                _end(process)

    def _why_not_mounted(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
        exit_code = process.poll()
        if exit_code:
            return reason(self.program, exit_code, output)
        return f"{self.program} runs, or has ended well, and has mounted nothing"

    def _start_apart(self, arguments: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        needed = (*_NEEDED, arguments[0], arguments[-1], *_paths_in(self.all_environment()))
        try:
            return self.start(arguments, output, lambda: keep_mounts_to_itself(needed))
        except subprocess.SubprocessError:
            raise _needs_root() from None

    def _copy(self, names: Sequence[str], mounted: str, directory: str, on_bytes: OnBytes) -> str:
        block_bytes = self.settings.io_chunksize

        def copy(name: str) -> str:
            try:
                _copy_file(f"{mounted}/{name}", f"{directory}/{name}", block_bytes, on_bytes)
            except OSError as error:
                return os.strerror(error.errno or 0)
            return ""

        for folder in sorted({os.path.dirname(name) for name in names}):  # noqa: PTH120 - text
            os.makedirs(f"{directory}/{folder}", mode=0o700, exist_ok=True)  # noqa: PTH103
        with ThreadPoolExecutor(self.settings.max_concurrency) as pool:
            problems = [problem for problem in pool.map(copy, names) if problem]
        if not problems:
            return ""
        return f"{len(problems)} files could not be copied, the first: {problems[0]}"


class CachedMountpointClient(MountpointClient):
    """With a cache on the destination's volume, which mount-s3 fills while it reads.

    It keeps nothing of it from one mount to the next: each pull begins with an empty one.
    """

    def download_all(self, source: PrefixSource, directory: str, on_bytes: OnBytes) -> str:
        """See MountpointClient."""
        cache = _cache_beside(directory)
        os.mkdir(cache, 0o700)  # noqa: PTH102 - text
        try:
            return super().download_all(source, directory, on_bytes)
        finally:
            shutil.rmtree(cache, ignore_errors=True)

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See MountpointClient."""
        return ["--cache", _cache_beside(directory), *super().command(source, directory)]


def _cache_beside(directory: str) -> str:
    return f"{os.path.dirname(directory)}/{CACHE}"  # noqa: PTH120 - text


def _paths_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Paths that the environment names, temporary files, and where credentials are below HOME."""
    yield tempfile.gettempdir()
    for value in environment.values():
        yield from (path for path in value.split(os.pathsep) if path.startswith("/"))
    home = environment.get("HOME", "/root")
    yield from (f"{home}/.aws/{name}" for name in ("config", "credentials"))


def _place_to_mount_at() -> str:
    """A directory of root's own, the same for all: each program sees its own mount there alone."""
    from sysctl.host.host import state_directory
    from sysctl.host.journal import private_directory

    if os.geteuid() != 0:
        raise _needs_root()
    return str(private_directory(private_directory(state_directory()) / "mount"))


def _needs_root() -> PullError:
    return PullError("mount-s3 cannot be started apart from other mounts", "run as root")


def _appears(process: subprocess.Popen[bytes], mounted: str, place: str, on_bytes: OnBytes) -> bool:
    """Wait until something is mounted there; whether it is."""
    bare, deadline_s = _identity(place), time.monotonic() + _MOUNT_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        on_bytes(0)  # raises when the pull is to stop
        with contextlib.suppress(OSError):
            if _identity(mounted) != bare:
                return True
        time.sleep(_LOOK_S)
    return False


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - text
    return found.st_dev, found.st_ino


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the program to unmount, then end it: its mounts go with its last process."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_UNMOUNT_TIMEOUT_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _names_below(mounted: str) -> list[str]:
    """The paths of all files, relative to the mount."""
    found = []
    for folder, _, names in os.walk(mounted):
        below = folder[len(mounted) + 1 :]
        found += [f"{below}/{name}" if below else name for name in names]
    return found


def _copy_file(source: str, target: str, block_bytes: int, on_bytes: OnBytes) -> None:
    """Copy one file; none is left that is not whole. Raises OSError and what `on_bytes` raises."""
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        writing = os.open(target, flags, 0o666)
        try:
            position = 0
            while block := os.read(reading, block_bytes):
                write_at(writing, block, position)
                position += len(block)
                on_bytes(len(block))
        except BaseException:
            os.unlink(target)  # noqa: PTH108 - text
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)
