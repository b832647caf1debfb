# SPDX-License-Identifier: Apache-2.0
"""A client that runs a program to fetch a whole prefix."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from select import POLLIN, poll
from typing import IO

from contracts.shared.environment import for_programs, safe_path
from contracts.shared.processes import die_with_parent
from contracts.shared.text import printable
from contracts.shared.trust import UntrustedError, path_of, walk
from profiler.pull.access import S3Access
from profiler.pull.clients.answers import head_object
from profiler.pull.clients.interface import Answer, OnBytes, PrefixSource
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings

LOOK_S = 0.2
_PAUSE_PER_LOOK = 20  # limits looking to 5 % of a core
_MAX_PAUSE_S = 10.0  # well below the silence that ends a pull
_VERSION_TIMEOUT_S = 20.0
_SHOWN_CHARACTERS = 200
#: Variables of s5cmd and rclone that name an endpoint.
_OWN_ENDPOINTS = ("S3_ENDPOINT_URL", "RCLONE_S3_ENDPOINT", "RCLONE_CONFIG_PULL_ENDPOINT")
_MASK = "***"
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: Access keys, secret keys, tokens and signatures from elsewhere, by alphabet and length.
_LIKE_A_CREDENTIAL = re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}|[A-Za-z0-9+/=%]{40,}")


def find_program(name: str) -> str | None:
    """Return the path of a program that no other user can change or redirect; None without one.

    PATH is searched first, then the directory of this Python interpreter, where pip installs
    programs and which sudo's PATH lacks.
    """
    own = os.path.dirname(sys.executable)  # noqa: PTH120 - text
    found = shutil.which(name, path=safe_path(f"{os.environ.get('PATH', '')}:{own}"))
    if found is None:
        return None
    try:
        program_fd = walk(found, trust_all=False)
    except (OSError, UntrustedError):
        return None
    try:
        return path_of(program_fd)
    finally:
        os.close(program_fd)


def require_program(name: str) -> str:
    """Return the path of a program. Raises PullError if it is not installed."""
    program_path = find_program(name)
    if program_path is None:
        hint = "run `writewise clients`, which shows how to install it"
        raise PullError(f"{name} is not on PATH", hint)
    return program_path


def program_version(name: str, *arguments: str) -> str | None:
    """Return the first line of a program's version output; None if it is not installed."""
    program_path = find_program(name)
    if program_path is None:
        return None
    try:
        done = subprocess.run(
            [program_path, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            env=for_programs(),
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return printable(lines[0])[:_SHOWN_CHARACTERS] if done.returncode == 0 and lines else None


class ProgramClient:
    """A program on PATH; a subclass provides its arguments."""

    program: str
    objects_at_once = 10  # to verify: as many as the client has connections

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        self._client = access.make_client()
        self.access, self.settings = access.resolved(self._client), settings

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """Return the program's arguments. Raises PullError for a prefix that it cannot fetch."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return additional environment variables for the program."""
        return {}

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PrefixClient."""
        return head_object(self._client, bucket, key, part)

    def download_all(self, source: PrefixSource, directory: str, on_bytes: OnBytes) -> str:
        """See PrefixClient. If the program fails, returns the last line of its output."""
        program_path = require_program(self.program)
        arguments = [program_path, *self.command(source, directory)]
        with tempfile.TemporaryFile() as output:
            exit_code = self._run(arguments, directory, source.bytes, on_bytes, output)
            return "" if exit_code == 0 else reason(self.program, exit_code, output)

    def _run(
        self,
        arguments: Sequence[str],
        directory: str,
        total_bytes: int,
        on_bytes: OnBytes,
        output: IO[bytes],
    ) -> int:
        """Run the program and return its exit code; its process group has always ended then."""
        process = self.start(arguments, output)
        try:
            _count_while_running(process, directory, total_bytes, on_bytes)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode

    def start(
        self,
        arguments: Sequence[str],
        output: IO[bytes],
        prepare: Callable[[], None] = lambda: None,
    ) -> subprocess.Popen[bytes]:
        """Start it in its own process group; it calls `prepare` first and ends with this thread."""
        parent_pid = os.getpid()

        def begin() -> None:
            die_with_parent(parent_pid)
            prepare()

        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=self.all_environment(),
            start_new_session=True,
            preexec_fn=begin,
        )

    def all_environment(self) -> dict[str, str]:
        """Return the environment, with credentials and a safe PATH.

        It leaves out variables that name an endpoint to one program only: the program would pull
        from another endpoint than the one that was listed.
        """
        kept = {name: value for name, value in os.environ.items() if name not in _OWN_ENDPOINTS}
        path = safe_path(os.environ.get("PATH", ""))
        return {**self.access.environment(kept), "PATH": path, **self.environment()}


def _count_while_running(
    process: subprocess.Popen[bytes], directory: str, total_bytes: int, on_bytes: OnBytes
) -> None:
    """Report to `on_bytes` what arrives until the program ends.

    `wait` with a timeout would notice the end up to 50 ms late, which would count as the program's
    time.
    """
    arrived, process_fd, end = _Arrived(directory, total_bytes), os.pidfd_open(process.pid), poll()
    end.register(process_fd, POLLIN)
    try:
        while not end.poll(LOOK_S * 1000):
            on_bytes(arrived.new_bytes())
    finally:
        os.close(process_fd)
    if process.wait() == 0:
        on_bytes(total_bytes - arrived.counted_bytes)  # looking would add to the program's time
    else:
        on_bytes(arrived.look())


class _Arrived:
    """Counts what has arrived, from the files: programs do not report it in a common way.

    Looking at many files takes CPU time from the program, so it is limited to a small share.
    """

    def __init__(self, directory: str, total_bytes: int) -> None:
        self._directory, self._total_bytes = directory, total_bytes
        self._next_look_s = 0.0
        self.counted_bytes = 0

    def new_bytes(self) -> int:
        """Return the bytes since the last look; 0 if it is too early for another look."""
        began_s = time.monotonic()
        if began_s < self._next_look_s:
            return 0
        found = self.look()
        ended_s = time.monotonic()
        pause_s = min(_PAUSE_PER_LOOK * (ended_s - began_s), _MAX_PAUSE_S)
        self._next_look_s = ended_s + pause_s
        return found

    def look(self) -> int:
        """Return the bytes since the last look."""
        before = self.counted_bytes
        now = min(bytes_below(self._directory), self._total_bytes)
        self.counted_bytes = max(before, now)
        return self.counted_bytes - before


def bytes_below(directory: str) -> int:
    """Return the bytes of allocated blocks: some programs set a file's size before they write."""
    found = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(f"{folder}/{name}")
                found += min(status.st_size, status.st_blocks * 512)
    return found


def reason(program: str, exit_code: int, output: IO[bytes]) -> str:
    """Return why a program ended, with the last line of its output."""
    output.seek(0)
    lines = output.read(1 << 20).decode("utf-8", "replace").strip().splitlines()
    last = f": {printable(_without_secrets(lines[-1]))[:_SHOWN_CHARACTERS]}" if lines else ""
    how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"failed (exit {exit_code})"
    return f"{program} {how}{last}"


def _without_secrets(line: str) -> str:
    """Mask credentials: a server may quote the request, and the program prints that."""
    for name in _CREDENTIALS:
        line = line.replace(os.environ.get(name) or _MASK, _MASK)
    return _LIKE_A_CREDENTIAL.sub(_MASK, line)
