"""Running a program that fetches a whole prefix, as one of the clients."""

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
_PAUSE_PER_LOOK = 20  # so that looking takes at most 5 % of a core
_MAX_PAUSE_S = 10.0  # well below the silence after which a pull is given up
_VERSION_TIMEOUT_S = 20.0
_SHOWN_CHARACTERS = 200
#: Of s5cmd and rclone.
_OWN_ENDPOINTS = ("S3_ENDPOINT_URL", "RCLONE_S3_ENDPOINT", "RCLONE_CONFIG_PULL_ENDPOINT")
_MASK = "***"
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: Those of other sources: access keys, secret keys, tokens, signatures, by alphabet and length.
_LIKE_A_CREDENTIAL = re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}|[A-Za-z0-9+/=%]{40,}")


def find_program(name: str) -> str | None:
    """The path of a program that nobody else can change, nor what leads there; or None.

    It is looked for on PATH, then in the directory of this Python, where pip puts programs, and
    which sudo's PATH lacks.
    """
    own = os.path.dirname(sys.executable)  # noqa: PTH120 - text
    found = shutil.which(name, path=safe_path(f"{os.environ.get('PATH', '')}:{own}"))
    if found is None:
        return None
    try:
        program_fd = walk(found, believe_all=False)
    except (OSError, UntrustedError):
        return None
    try:
        return path_of(program_fd)
    finally:
        os.close(program_fd)


def require_program(name: str) -> str:
    """The path of a program. Raises PullError where it is not."""
    program_path = find_program(name)
    if program_path is None:
        raise PullError(f"{name} is not on PATH", "`writewise clients` tells how to install it")
    return program_path


def program_version(name: str, *arguments: str) -> str | None:
    """The first line that a program prints about its version; None when it is not there."""
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
    """A program on PATH; a subclass says with which arguments."""

    program: str
    objects_at_once = 10  # to verify: as many as the client has connections

    def __init__(self, access: S3Access, settings: TransferSettings) -> None:
        self._client = access.make_client()
        self.access, self.settings = access.resolved(self._client), settings

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """The program's arguments. Raises PullError for what it cannot fetch."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """What the program needs to find in its environment, beside the credentials."""
        return {}

    def head(self, bucket: str, key: str, part: int | None = None) -> Answer:
        """See PrefixClient."""
        return head_object(self._client, bucket, key, part)

    def download_all(self, source: PrefixSource, directory: str, on_bytes: OnBytes) -> str:
        """See PrefixClient. The answer is the program's last line when it fails."""
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
        """The exit code; the program's group of processes is gone then, whatever happens."""
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
        """Start it, in a group of its own; it calls `prepare` first, and ends with this thread."""
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
        """The environment with credentials, which the program needs; PATH as for others.

        Not what names an endpoint to one program alone: it would be another than the listing's.
        """
        kept = {name: value for name, value in os.environ.items() if name not in _OWN_ENDPOINTS}
        path = safe_path(os.environ.get("PATH", ""))
        return {**kept, "PATH": path, **self.environment()}


def _count_while_running(
    process: subprocess.Popen[bytes], directory: str, total_bytes: int, on_bytes: OnBytes
) -> None:
    """Tell `on_bytes` what arrives until the program ends.

    `wait` with a timeout would see the end up to 50 ms late, which is not the program's time.
    """
    arrived, process_fd, end = _Arrived(directory, total_bytes), os.pidfd_open(process.pid), poll()
    end.register(process_fd, POLLIN)
    try:
        while not end.poll(LOOK_S * 1000):
            on_bytes(arrived.new_bytes())
    finally:
        os.close(process_fd)
    if process.wait() == 0:
        on_bytes(total_bytes - arrived.counted_bytes)  # without a look, in the program's time
    else:
        on_bytes(arrived.look())


class _Arrived:
    """What has arrived, read off the files: programs tell it in words of their own, or not.

    Looking at many files takes time on the program's cores: a small part of the whole alone.
    """

    def __init__(self, directory: str, total_bytes: int) -> None:
        self._directory, self._total_bytes = directory, total_bytes
        self._next_look_s = 0.0
        self.counted_bytes = 0

    def new_bytes(self) -> int:
        """What has come since the last look; 0 where it is too early for another."""
        began_s = time.monotonic()
        if began_s < self._next_look_s:
            return 0
        found = self.look()
        ended_s = time.monotonic()
        pause_s = min(_PAUSE_PER_LOOK * (ended_s - began_s), _MAX_PAUSE_S)
        self._next_look_s = ended_s + pause_s
        return found

    def look(self) -> int:
        """What has come since the last look."""
        before = self.counted_bytes
        now = min(bytes_below(self._directory), self._total_bytes)
        self.counted_bytes = max(before, now)
        return self.counted_bytes - before


def bytes_below(directory: str) -> int:
    """Blocks, not sizes: some programs set the size first, and write then."""
    found = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(f"{folder}/{name}")
                found += min(status.st_size, status.st_blocks * 512)
    return found


def reason(program: str, exit_code: int, output: IO[bytes]) -> str:
    """Why a program ended, by the last line of its output."""
    output.seek(0)
    lines = output.read(1 << 20).decode("utf-8", "replace").strip().splitlines()
    last = f": {printable(_without_secrets(lines[-1]))[:_SHOWN_CHARACTERS]}" if lines else ""
    how = f"was ended by signal {-exit_code}" if exit_code < 0 else f"failed (exit {exit_code})"
    return f"{program} {how}{last}"


def _without_secrets(line: str) -> str:
    """A server may repeat the request in its answer, and a program prints that."""
    for name in _CREDENTIALS:
        line = line.replace(os.environ.get(name) or _MASK, _MASK)
    return _LIKE_A_CREDENTIAL.sub(_MASK, line)
