# SPDX-License-Identifier: Apache-2.0
"""Which paths are trusted. A path is walked component by component, and nothing is opened twice.

A program that runs as root follows two rules. It does not follow symlinks that others could have
made, and it changes the host only because of files that nobody else could have written. The
kernel's `fs.protected_symlinks` covers a part of the first rule and is off on many hosts.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_SYMLINKS = 40  # MAXSYMLINKS of the kernel's path walk, include/linux/namei.h
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ID = re.compile(r"[0-9]{1,10}")
_LARGEST_ID = 2**32 - 2  # 2^32 - 1, (uid_t) -1, is not a valid id


class UntrustedError(UsageError):
    """Others could have changed a path or what it leads to."""


def trusted_owners(environment: Mapping[str, str] = os.environ) -> frozenset[int]:
    """Return the ids of users whose files are trusted: root, this user and the sudo caller."""
    own = os.geteuid()
    caller = id_of(environment.get("SUDO_UID", "")) if own == 0 else None
    return frozenset({0, own, *([] if caller is None else [caller])})


def id_of(text: str) -> int | None:
    """Return the user or group id in `text` (ASCII digits); None for anything else."""
    return int(text) if _ID.fullmatch(text) and int(text) <= _LARGEST_ID else None


def walk(path: str, *, trust_all: bool = True) -> int:
    """Return an O_PATH descriptor of `path`, which the caller closes.

    Symlinks are followed only in directories that only `trusted_owners` can write to. Unless
    `trust_all`, the same is required of every component; a directory that others can write to is
    allowed if it has the sticky bit, like /tmp. Raises UntrustedError and OSError.
    """
    whole = path if path.startswith("/") else f"{Path.cwd()}/{path}"
    pending, links_left = _components(whole), _MAX_SYMLINKS
    current = os.open("/", _STEP)
    try:
        while pending:
            following = _step(current, pending.pop())
            if stat.S_ISLNK(os.fstat(following).st_mode):
                target = _target(current, following, path)
                following = os.open("/" if target.startswith("/") else ".", _STEP, dir_fd=current)
                pending += _components(target)
                links_left -= 1
            os.close(current)
            current = following
            if links_left < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if not trust_all:
                _require_trusted(current, path)
    except BaseException:
        os.close(current)
        raise
    return current


def _step(directory: int, name: str) -> int:
    """Open an entry of a directory; O_DIRECTORY comes first because it triggers automounts."""
    try:
        return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        return os.open(name, _STEP, dir_fd=directory)


def resolved(path: Path) -> Path:
    """Return `path` with symlinks resolved, or unchanged if it does not exist.

    Raises OSError, and UntrustedError for a symlink that others could have made.
    """
    try:
        place = walk(str(path))
    except FileNotFoundError:
        return path
    try:
        return Path(path_of(place))
    finally:
        os.close(place)


def _components(path: str) -> list[str]:
    """The components of a path, last first, to be popped."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _target(directory: int, link: int, path: str) -> str:
    """Return a symlink's target; close it. Raises UntrustedError if others could have made it."""
    try:
        status, name = os.fstat(directory), path_of(link)
        if status.st_uid not in trusted_owners() or status.st_mode & _OTHERS_WRITE:
            raise UntrustedError(
                f"{printable(path)} leads through the symlink {printable(name)}, which is in a "
                "directory that others can write to",
                "use the path that the symlink points to",
            )
        return os.readlink("", dir_fd=link)
    finally:
        os.close(link)


def _require_trusted(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    name = path_of(descriptor)
    word = shlex.quote(printable(name))
    if status.st_uid not in trusted_owners():
        problem = f"{printable(name)} belongs to {_user(status.st_uid)}"
        raise _changeable(path, problem, f"chown root: {word}")
    if status.st_mode & _OTHERS_WRITE and not is_sticky:
        raise _changeable(path, f"others can write to {printable(name)}", f"chmod go-w {word}")


def _changeable(path: str, problem: str, remedy: str) -> UntrustedError:
    message = f"{printable(path)} could have been changed by others: {problem}"
    return UntrustedError(message, f"check its content, then run: {remedy}")


def path_of(descriptor: int) -> str:
    """The path of an open file or directory, without symlinks."""
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - text, even if not UTF-8


def _user(uid: int) -> str:
    try:
        return f"{printable(pwd.getpwuid(uid).pw_name)} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
