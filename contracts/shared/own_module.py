# SPDX-License-Identifier: Apache-2.0
"""How to run one of our modules as a program, wherever Writewise is installed."""

from __future__ import annotations

from pathlib import Path

#: The directory that holds the packages `contracts`, `sysctl` and `profiler`.
_ROOT = Path(__file__).resolve().parents[2]
_START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def own_module(name: str) -> tuple[str, ...]:
    """Return Python's arguments that run the module `name` isolated; append the module's own.

    With `-I` Python does not import from the current directory, which others may write to. `-I -m`
    is not enough: it misses the directory of a .deb or .rpm, which only the launcher adds to the
    path.
    """
    return ("-I", "-c", _START, str(_ROOT), name)
