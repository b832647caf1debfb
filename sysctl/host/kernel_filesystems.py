# SPDX-License-Identifier: Apache-2.0
"""debugfs and tracefs without a mount that anybody sees: detached, until the descriptor is closed.

fsopen(2), fsconfig(2) and fsmount(2) exist since Linux 5.2. No mount namespace is needed, so no
copy of another mount keeps a volume busy.
"""

from __future__ import annotations

import os

from contracts.shared import libc
from contracts.shared.errors import RequirementError

#: The same on every architecture (include/uapi/asm-generic/unistd.h), except Alpha.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CLOEXEC = 1  # FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC
_CMD_CREATE = 6  # FSCONFIG_CMD_CREATE
_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8  # MOUNT_ATTR_NOSUID, _NODEV, _NOEXEC


def open_debugfs() -> int:
    """Return a descriptor of debugfs's root, to be closed. Raises RequirementError."""
    try:
        return _open_detached(b"debugfs")
    except OSError as error:
        raise RequirementError(
            f"the volumes' dirty pages cannot be read from debugfs: {error.strerror}",
            "use a kernel with CONFIG_DEBUG_FS, from 5.2 on, that was booted without debugfs=off",
        ) from None


def open_tracefs() -> int:
    """Return a descriptor of tracefs's root, to be closed. Raises OSError."""
    return _open_detached(b"tracefs")


def _open_detached(name: bytes) -> int:
    context = libc.checked_call("syscall", _FSOPEN, name, _CLOEXEC)
    try:
        libc.checked_call("syscall", _FSCONFIG, context, _CMD_CREATE, None, None, 0)
        return libc.checked_call("syscall", _FSMOUNT, context, _CLOEXEC, _NOSUID_NODEV_NOEXEC)
    finally:
        os.close(context)
