# SPDX-License-Identifier: Apache-2.0
"""The environment of programs that Writewise starts: only what they need, and a trusted PATH.

The same user can read an environment in /proc/PID/environ, and every child process inherits it. Not
every variable with a credential can be recognised by its name, so only known variables are kept.
If others could write to a directory in PATH, they could choose what root runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping

from contracts.shared.errors import UsageError
from contracts.shared.trust import path_of, walk

#: User, locale, terminal, time zone, the interpreter's libraries, the kernel headers for BCC (bcc's
#: src/cc/frontends/clang/kbuild_helper.cc) and Writewise's own. No PYTHON*: our interpreters are
#: isolated.
_NEEDED = re.compile(
    r"HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TERM|TMPDIR|TZ|LD_LIBRARY_PATH"
    r"|BCC_(KERNEL|LINUX)_\w+|WRITEWISE_\w+"
)
_SECRET = re.compile(r"^AWS_|SECRET|TOKEN|PASSW|CREDENTIAL|_KEY$|_PROXY$", re.IGNORECASE)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: The same as sudo's `secure_path`.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def for_programs(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that a program may need, without credentials; PATH is `safe_path`."""
    kept = {
        name: value
        for name, value in environment.items()
        if _NEEDED.fullmatch(name) and not _SECRET.search(name)
    }
    return {**kept, "PATH": safe_path(environment.get("PATH", ""))}


def safe_path(path: str) -> str:
    """Return the absolute directories of a PATH that only `trusted_owners` can change or replace.

    Symlinks are resolved, because they may be changed later. If no directory is left, the PATH is a
    distribution's default.
    """
    directories = (_trusted(directory) for directory in path.split(":"))
    return ":".join(dict.fromkeys(filter(None, directories))) or _DEFAULT_PATH


def _trusted(directory: str) -> str | None:
    """Return the directory with symlinks resolved; None if others can change it or its parents."""
    if not directory.startswith("/"):
        return None
    try:
        place = walk(directory, trust_all=False)
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
    """Remove credentials from our environment while a library starts processes with it."""
    hidden = {name: value for name, value in os.environ.items() if _SECRET.search(name)}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)
