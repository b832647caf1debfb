# SPDX-License-Identifier: Apache-2.0
"""Mountpoint for Amazon S3 (`mount-s3`): mount the prefix, copy its files, unmount.

The program has its own mount namespace, which is read through `/proc/PID/root`: the mount ends with
the program, however that ends, and no other process sees it. The mount point is a directory of
root's, because the destination's owner could redirect any path at the destination.
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

from contracts.shared.units import counted
from profiler.bpf.compiler import keep_mounts_to_itself
from profiler.pull.clients.interface import OnBytes, PrefixSource
from profiler.pull.clients.program import ProgramClient, reason, require_program
from profiler.pull.clients.ranged_get import write_at
from profiler.pull.errors import PullError
from profiler.pull.program_directory import CACHE

#: Libraries, certificates and targets of links in /etc. The program sees no other mounts, so it
#: does not keep them busy.
_NEEDED = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share", "/run", "/var/lib")
_LOOK_S = 0.02
_MOUNT_TIMEOUT_S = 30.0
_UNMOUNT_TIMEOUT_S = 0.5  # a worker has 0.8 s to stop


class MountpointClient(ProgramClient):
    """Copies `max_concurrency` files at a time, in blocks of `io_chunksize`; needs root."""

    program = "mount-s3"

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See ProgramClient; the caller appends the mount point."""
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
        """See PrefixClient."""
        arguments = [require_program(self.program), *self.command(source, directory)]
        with self._mounted(arguments, on_bytes) as mounted:
            names = [source.file_name] if source.is_one_object else _names_below(mounted)
            return self._copy(names, mounted, directory, on_bytes)

    @contextlib.contextmanager
    def _mounted(self, arguments: Sequence[str], on_bytes: OnBytes) -> Iterator[str]:
        """Mount within the block and yield a path to the mount."""
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
        return f"{self.program} reported no error but mounted nothing"

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
        return f"{counted(len(problems), 'file')} could not be copied: {problems[0]}"


class CachedMountpointClient(MountpointClient):
    """Uses a cache on the destination's volume, which is empty at the start of each pull.

    mount-s3 does not reuse a cache in a later mount.
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
    """Yield the paths that the environment names, of temporary files, and of ~/.aws."""
    yield tempfile.gettempdir()
    for value in environment.values():
        yield from (path for path in value.split(os.pathsep) if path.startswith("/"))
    home = environment.get("HOME", "/root")
    yield from (f"{home}/.aws/{name}" for name in ("config", "credentials"))


def _place_to_mount_at() -> str:
    """Return a directory of root's; each program sees only its own mount there."""
    from sysctl.host.host import state_directory
    from sysctl.host.journal import private_directory

    if os.geteuid() != 0:
        raise _needs_root()
    return str(private_directory(private_directory(state_directory()) / "mount"))


def _needs_root() -> PullError:
    return PullError("mount-s3 cannot be given its own mount namespace", "run as root")


def _appears(process: subprocess.Popen[bytes], mounted: str, place: str, on_bytes: OnBytes) -> bool:
    """Wait until something is mounted there, and return whether it is."""
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
    """Ask the program to unmount, then kill it: its mounts end with its last process."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_UNMOUNT_TIMEOUT_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _names_below(mounted: str) -> list[str]:
    """Return the paths of all files, relative to the mount."""
    found = []
    for folder, _, names in os.walk(mounted):
        below = folder[len(mounted) + 1 :]
        found += [f"{below}/{name}" if below else name for name in names]
    return found


def _copy_file(source: str, target: str, block_bytes: int, on_bytes: OnBytes) -> None:
    """Copy one file, or leave none. Raises OSError and what `on_bytes` raises."""
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
