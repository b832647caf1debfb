# SPDX-License-Identifier: Apache-2.0
"""The user of a profiled command: under sudo the user who called it, not root.

The command has this identity from its first instruction, without a process in between that would be
counted. On Linux each thread has its own credentials, so this thread takes the user's, starts the
command and restores its own. Its saved user id remains root's; execve(2) sets the command's to the
user's (credentials(7)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from contracts.shared import libc
from contracts.shared.environment import for_programs
from contracts.shared.errors import RequirementError, UsageError
from contracts.shared.text import printable, quoted
from contracts.shared.trust import id_of, trusted_owners

#: syscall_64.tbl of arch/x86, include/uapi/asm-generic/unistd.h. Called directly, because the C
#: library's functions change the credentials of all threads.
_NUMBERS = {
    "x86_64": {"setgroups": 116, "setresuid": 117, "setresgid": 119},
    "aarch64": {"setgroups": 159, "setresuid": 147, "setresgid": 149},
}
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4  # include/uapi/linux/prctl.h
_KEEP = ctypes.c_uint(-1)
_USER_HINT = "pass --user with a user of this host, or --user root to run it as root"


@dataclass(frozen=True)
class Identity:
    """A user with the name, home directory and groups of a login.

    `is_other` is whether this is neither root nor the user who called sudo, so that it must not get
    the credentials in our environment.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    is_other: bool = False

    def __str__(self) -> str:
        return f"{printable(self.name)} (uid {self.uid})"

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return `base` with the variables that name the user; for others, only what all need."""
        given = for_programs(base) if self.is_other else base
        return {**given, "HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @contextlib.contextmanager
    def assumed(self) -> Iterator[None]:
        """Have this thread start processes as the user within the block. Raises OSError."""
        before = os.getgroups(), os.getegid()
        _clear_ambient_capabilities()
        try:
            _call("setgroups", len(self.groups), _ids(self.groups))
            _call("setresgid", self.gid, self.gid, _KEEP)
            _call("setresuid", self.uid, self.uid, 0)
            yield
        finally:
            _call("setresuid", 0, 0, 0)
            _call("setresgid", before[1], before[1], _KEEP)
            _call("setgroups", len(before[0]), _ids(before[0]))


def chosen(name: str | None, environment: Mapping[str, str] = os.environ) -> Identity | None:
    """Return the user `name`, by default the caller of sudo; None if that is the current user.

    Raises UsageError for an unknown user, or one that only root can become.
    """
    own = os.geteuid()
    if name is not None:
        identity = _identity(_entry_of_name(name))
        identity = replace(identity, is_other=identity.uid not in trusted_owners(environment))
    elif own == 0 and environment.get("SUDO_UID", "0") != "0":
        identity = _who_called_sudo(environment)
    else:
        return None
    if identity.uid == own:
        return None
    if own != 0:
        raise UsageError(f"only root can run a command as {identity}", "omit --user")
    if platform.machine() not in _NUMBERS:
        raise RequirementError(f"{platform.machine()} is not supported", "use --user root")
    return identity


def command_user(argv: list[str], identity: Identity | None) -> str | None:
    """Return the user that a command ran as, for the report; None without a command."""
    if not argv:
        return None
    if identity:
        return str(identity)
    try:
        return f"{printable(pwd.getpwuid(os.geteuid()).pw_name)} (uid {os.geteuid()})"
    except KeyError:
        return f"uid {os.geteuid()}"


def _entry_of_name(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except (KeyError, ValueError):  # ValueError: a NUL or a surrogate
        raise UsageError(f"there is no user {quoted(name)}", _USER_HINT) from None


def _who_called_sudo(environment: Mapping[str, str]) -> Identity:
    """Return the caller of sudo, from sudo's variables and the user database."""
    texts = environment["SUDO_UID"], environment.get("SUDO_GID", "")
    uid, gid = map(id_of, texts)
    try:
        identity = _identity(pwd.getpwuid(-1 if uid is None else uid))
    except (KeyError, OverflowError):
        gid = None
    if gid is None:
        message = f"SUDO_UID={quoted(texts[0])} and SUDO_GID={quoted(texts[1])} do not name a user"
        raise UsageError(f"{message} of this host", _USER_HINT)
    if gid not in identity.groups:
        raise UsageError(f"{identity} is not in the group of SUDO_GID={gid}", _USER_HINT)
    return replace(identity, gid=gid)


def _identity(entry: pwd.struct_passwd) -> Identity:
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Identity(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)


def _ids(groups: tuple[int, ...] | list[int]) -> ctypes.Array[ctypes.c_uint]:
    return (ctypes.c_uint * len(groups))(*groups)


def _clear_ambient_capabilities() -> None:
    """Clear them, because they survive the change of user if a saved user id is root's.

    Source: capabilities(7).
    """
    ctypes.CDLL(None).prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    libc.checked_call("syscall", _NUMBERS[platform.machine()][name], *arguments)
