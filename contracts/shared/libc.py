# SPDX-License-Identifier: Apache-2.0
"""Functions of the C library that Python's standard library lacks."""

from __future__ import annotations

import ctypes
import os


def checked_call(name: str, *arguments: object) -> int:
    """Return the result of the function `name`. Raises OSError if it is negative: errno is set."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(getattr(libc, name)(*arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
