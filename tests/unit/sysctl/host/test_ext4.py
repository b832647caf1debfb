# SPDX-License-Identifier: Apache-2.0
"""A new ext4 that the kernel still initializes. The journalling mode: profiler/price."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysctl.host.ext4 import is_being_initialized
from sysctl.host.mount_table import Mount
from sysctl.host.system import System


def mount(fstype: str = "ext4", *words: str) -> Mount:
    return Mount("259:1", "/", "/data", ("rw",), fstype, "/dev/nvme1n1p1", ("rw", *words))


def host_with(folder: Path, *names: bytes) -> System:
    for number, name in enumerate(names):
        process = folder / "proc" / str(number + 2)
        process.mkdir(parents=True)
        (process / "comm").write_bytes(name + b"\n")
    (folder / "proc" / "77").mkdir(parents=True)  # a process that has just ended
    return System(folder)


@pytest.mark.parametrize(
    ("mounted", "names", "is_so"),
    [
        (mount(), [b"systemd", b"ext4lazyinit"], True),
        (mount(), [b"systemd", b"\xff\xfe"], False),
        (mount("ext4", "noinit_itable"), [b"ext4lazyinit"], False),
        (mount("xfs"), [b"ext4lazyinit"], False),
    ],
)
def test_the_thread_that_initializes_is_seen(
    tmp_path: Path, mounted: Mount, names: list[bytes], is_so: bool
) -> None:
    assert is_being_initialized(host_with(tmp_path, *names), mounted) is is_so
