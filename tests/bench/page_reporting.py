# SPDX-License-Identifier: Apache-2.0
"""Keep free memory in this virtual machine while a benchmark runs, as on EC2.

`sysctl/host/page_reporting.py` says what it costs if the hypervisor takes it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from sysctl.host.page_reporting import ORDER_FILE
from sysctl.host.system import HostError, System

_NO_BLOCK_IS_SO_LARGE = "11"
#: Ends after the benchmark, however that ended, and restores the parameter.
_RESTORE = "import sys; sys.stdin.read(); open(sys.argv[1], 'w').write(sys.argv[2])"


@contextlib.contextmanager
def paused(system: System) -> Iterator[None]:
    """Report no free page in the context; the change is undone also if the benchmark is killed.

    Raises SystemExit if the kernel refuses it.
    """
    try:
        before = system.read(ORDER_FILE)
        if before == _NO_BLOCK_IS_SO_LARGE:
            raise SystemExit("free page reporting is paused already, by another benchmark")
        restore = subprocess.Popen(
            [sys.executable, "-c", _RESTORE, str(system.path(ORDER_FILE)), before],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
    except (HostError, OSError) as error:
        raise SystemExit(f"free page reporting cannot be paused: {error}") from None
    try:
        try:
            system.write(ORDER_FILE, _NO_BLOCK_IS_SO_LARGE)
        except HostError as error:
            raise SystemExit(f"free page reporting cannot be paused: {error}") from None
        yield
    finally:
        restore.communicate()  # close this end of the pipe and wait, also after Ctrl-C
    if system.read(ORDER_FILE) != before:
        raise SystemExit(f"free page reporting is still paused: write {before} to {ORDER_FILE}")
