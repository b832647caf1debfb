"""The environment of programs that Writewise starts: without credentials, with a PATH of root's.

An environment is readable in /proc/PID/environ by the same user, and inherited by all that a
program starts. A PATH with a directory of somebody else would let them choose what root runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping

from contracts.trust import trusted_owners

_SECRET = re.compile(r"^AWS_|SECRET|TOKEN|PASSW|CREDENTIAL|_KEY$|_PROXY$", re.IGNORECASE)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: As sudo's `secure_path`.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def for_programs(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for a program that needs no credentials, its PATH `safe_path`."""
    kept = {name: value for name, value in environment.items() if not _SECRET.search(name)}
    return {**kept, "PATH": safe_path(environment.get("PATH", ""))}


def safe_path(path: str) -> str:
    """The absolute directories of a PATH that none but `trusted_owners` can write to.

    Those of a distribution where there is none.
    """
    return ":".join(filter(_is_safe, path.split(":"))) or _DEFAULT_PATH


def _is_safe(directory: str) -> bool:
    try:
        status = os.stat(directory)  # noqa: PTH116 - text, also what is no path
    except (OSError, ValueError):
        return False
    is_own = status.st_uid in trusted_owners() and not status.st_mode & _OTHERS_WRITE
    return directory.startswith("/") and is_own


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
