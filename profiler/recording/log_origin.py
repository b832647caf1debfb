# SPDX-License-Identifier: Apache-2.0
"""The origin in a log record: file systems, host, process and job."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sysctl.host.mount_table import mount_of, parse_mountinfo

#: Variables with the ids of a job and its group, our own first; the first that is set counts.
JOB_ID_VARIABLES = (
    *("WRITEWISE_JOB_ID", "SLURM_JOB_ID", "AWS_BATCH_JOB_ID"),
    *("LSB_JOBID", "PBS_JOBID", "JOB_ID"),
)
JOB_GROUP_VARIABLES = ("WRITEWISE_JOB_GROUP_ID", "SLURM_ARRAY_JOB_ID", "AWS_BATCH_JQ_NAME")
#: The length in Mistral (`PLUGIN_MESSAGE_CMD_LEN`, plugin_control.h).
COMMAND_LENGTH = 1405

_MASK = "***"
_TELLING = "secret|passw|passphrase|pwd|token|key|credential"
_SENSITIVE_NAME = rf"[\w.-]{{0,64}}(?:{_TELLING})[\w.-]{{0,64}}"
_SECRET_OPTION = re.compile(rf"--{_SENSITIVE_NAME}", re.IGNORECASE)
_SECRET_WORD = re.compile(rf"(?:--)?{_SENSITIVE_NAME}=", re.IGNORECASE)
_SECRETS_WITHIN = (
    re.compile(r"(X-Amz-[A-Za-z-]*=|[?&]Signature=)[^&\s\"']+", re.IGNORECASE),
    re.compile(r"(://[^/\s:@]*:)[^/\s]+(?=@)"),  # to the last @: a password may have one
    re.compile(r"(authorization:\s*)\S.*", re.IGNORECASE | re.DOTALL),
    re.compile(rf"((?<!\S)--{_SENSITIVE_NAME}[=\s]\s*)\S+", re.IGNORECASE),
    re.compile(rf"((?<![\w-])(?=\w){_SENSITIVE_NAME}=)[^&\s]+", re.IGNORECASE),
)


@dataclass(frozen=True)
class Volume:
    """The volume of a path: type and source of its file system, and the host that has it."""

    fstype: str
    source: str
    host: str


@dataclass(frozen=True)
class Origin:
    """What all records of a profile share; host-wide, `pid` is 0 and `command` is ""."""

    hostname: str
    pid: int
    command: str
    job_group_id: str
    job_id: str
    volume_of_path: Mapping[str, Volume]


def origin(
    paths: Sequence[str],
    pid: int = 0,
    argv: Sequence[str] = (),
    *,
    environment: Mapping[str, str] = os.environ,
) -> Origin:
    """Return the origin of records about `paths`, for the command `argv` with id `pid`."""
    hostname = socket.gethostname()
    return Origin(
        hostname=hostname,
        pid=pid,
        command=" ".join(without_secrets(argv[:COMMAND_LENGTH]))[:COMMAND_LENGTH],
        job_group_id=_first(JOB_GROUP_VARIABLES, environment),
        job_id=_first(JOB_ID_VARIABLES, environment),
        volume_of_path={path: volume_of(path, hostname) for path in paths},
    )


def without_secrets(argv: Sequence[str]) -> list[str]:
    """Return the words of a command with `***` in place of secrets.

    Secrets are the values of options and variables with such names (`--secret=…`, `--api-key …`,
    `TOKEN=…`), of a presigned URL's parameters (`X-Amz-Signature=…`), a URL's password, and what
    follows `Authorization:`.
    """
    words: list[str] = []
    is_next = False
    for word in argv:
        is_secret = is_next and not word.startswith("--")
        words.append(_MASK if is_secret else _masked(word[:COMMAND_LENGTH]))
        is_next = _SECRET_OPTION.fullmatch(word) is not None
    return words


def _masked(word: str) -> str:
    """Mask a word: `--secret=a b` as a whole, a secret within a longer text up to a blank."""
    named = _SECRET_WORD.match(word)
    if named:
        return f"{named[0]}{_MASK}"
    for pattern in _SECRETS_WITHIN:
        word = pattern.sub(rf"\1{_MASK}", word)
    return word


def command_of(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Return the arguments of a running process; none if it has ended or is a kernel thread."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
    return [word.decode(errors="replace") for word in words if word]


def volume_of(path: str, hostname: str, mountinfo: Path = Path("/proc/self/mountinfo")) -> Volume:
    """Return the volume of `path`, following symlinks.

    The host of a network file system is the HOST in `HOST:/PATH` or `//HOST/SHARE`; for others it
    is `hostname`.
    """
    table = parse_mountinfo(mountinfo.read_bytes().decode(errors="surrogateescape"))
    mount = mount_of(table, os.path.realpath(path))
    return Volume(mount.fstype, mount.source, _host_of(mount.source) or hostname)


def _host_of(source: str) -> str:
    if source.startswith("//"):
        return source[2:].partition("/")[0]
    host, colon, _path = source.partition(":/")
    return host if colon and "/" not in host else ""


def _first(names: Sequence[str], environment: Mapping[str, str]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")
