"""Whom a path is believed: it is walked component by component, and nothing is opened twice.

Two rules, for a program that runs as root. No symlink is followed that others could have put in its
place; and what decides a change of the host must come from a file that nobody else could have
written. The kernel's `fs.protected_symlinks` is a part of the first, and off on many hosts.
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
_MAX_SYMLINKS = 40  # as the kernel's own path walk, include/linux/namei.h
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ID = re.compile(r"[0-9]{1,10}")
_LARGEST_ID = 2**32 - 2  # the last one is no id: (uid_t) -1


class UntrustedError(UsageError):
    """A path that somebody else could have changed."""


def trusted_owners(environment: Mapping[str, str] = os.environ) -> frozenset[int]:
    """User ids whose files are as good as our own: root, this user, and who called sudo."""
    own = os.geteuid()
    caller = id_of(environment.get("SUDO_UID", "")) if own == 0 else None
    return frozenset({0, own, *([] if caller is None else [caller])})


def id_of(text: str) -> int | None:
    """The user or group id that `text` is in ASCII digits; None for anything else."""
    return int(text) if _ID.fullmatch(text) and int(text) <= _LARGEST_ID else None


def walk(path: str, *, believe_all: bool = True) -> int:
    """An O_PATH descriptor of what `path` names; to be closed by the caller.

    A symlink is followed only in a directory that none but `trusted_owners` can write. Unless
    `believe_all`, the same is asked of everything on the way and of the end; a directory that
    others can write may have the sticky bit, as /tmp. Raises UntrustedError and OSError.
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
            if not believe_all:
                _require_trusted(current, path)
    except BaseException:
        os.close(current)
        raise
    return current


def _step(directory: int, name: str) -> int:
    """An entry of a directory, itself; asked for as a directory first, or no automount happens."""
    try:
        return os.open(name, _STEP | os.O_DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        return os.open(name, _STEP, dir_fd=directory)


def resolved(path: Path) -> Path:
    """`path` without symlinks, none of which others could have made; as it is if it is not there.

    Raises UntrustedError and OSError.
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
    """The components of a path, last first, ready to be popped."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _target(directory: int, link: int, path: str) -> str:
    """Where a symlink leads; closes it. Raises UntrustedError where others could have made it."""
    try:
        status, name = os.fstat(directory), path_of(link)
        if status.st_uid not in trusted_owners() or status.st_mode & _OTHERS_WRITE:
            raise UntrustedError(
                f"{printable(path)} leads through the symlink {printable(name)}, which lies in a "
                "directory that others can write",
                "give the path that the symlink points to",
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
        raise _changeable(path, f"others may write to {printable(name)}", f"chmod go-w {word}")


def _changeable(path: str, problem: str, remedy: str) -> UntrustedError:
    message = f"{printable(path)} could have been changed by others: {problem}"
    return UntrustedError(message, f"look into it, then: {remedy}")


def path_of(descriptor: int) -> str:
    """The path of an open file or directory, without symlinks."""
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - text, also no UTF-8


def _user(uid: int) -> str:
    try:
        return f"{printable(pwd.getpwuid(uid).pw_name)} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
