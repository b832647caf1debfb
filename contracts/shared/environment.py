"""The environment of programs that Writewise starts: what they need alone, with a PATH of root's.

An environment is readable in /proc/PID/environ by the same user, and inherited by all that a
program starts; which variables hold credentials nobody can tell by their names. A PATH with a
directory of somebody else would let them choose what root runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping

from contracts.shared.errors import UsageError
from contracts.shared.trust import path_of, walk

#: Who and where one is, how text is to be, where BCC finds the kernel's headers (bcc's
#: src/cc/frontends/clang/kbuild_helper.cc), where the loader finds an interpreter's own libraries;
#: of ours, and of the time zone. No PYTHON*: our interpreters are isolated.
_NEEDED = re.compile(
    r"HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TERM|TMPDIR|TZ|LD_LIBRARY_PATH"
    r"|BCC_(KERNEL|LINUX)_\w+|WRITEWISE_\w+"
)
_SECRET = re.compile(r"^AWS_|SECRET|TOKEN|PASSW|CREDENTIAL|_KEY$|_PROXY$", re.IGNORECASE)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: As sudo's `secure_path`.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def for_programs(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a program may need, none of them a credential; its PATH `safe_path`."""
    kept = {
        name: value
        for name, value in environment.items()
        if _NEEDED.fullmatch(name) and not _SECRET.search(name)
    }
    return {**kept, "PATH": safe_path(environment.get("PATH", ""))}


def safe_path(path: str) -> str:
    """The absolute directories of a PATH that none but `trusted_owners` can change or replace.

    Each without symlinks: what leads there may be changed later. Those of a distribution where
    there is none.
    """
    directories = (_trusted(directory) for directory in path.split(":"))
    return ":".join(dict.fromkeys(filter(None, directories))) or _DEFAULT_PATH


def _trusted(directory: str) -> str | None:
    """The directory without symlinks; None if others can change it or what leads there."""
    if not directory.startswith("/"):
        return None
    try:
        place = walk(directory, believe_all=False)
    except (OSError, ValueError, UsageError):
        return None
    try:
        mode, resolved = os.fstat(place).st_mode, path_of(place)
    finally:
        os.close(place)
    is_closed = stat.S_ISDIR(mode) and not mode & _OTHERS_WRITE  # the sticky bit is not enough
    return resolved if is_closed and ":" not in resolved else None


@contextlib.contextmanager
def secrets_hidden() -> Iterator[None]:
    """For processes that a library starts with our own environment: without credentials."""
    hidden = {name: value for name, value in os.environ.items() if _SECRET.search(name)}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)
