# SPDX-License-Identifier: Apache-2.0
"""What a profile needs of root's capabilities once its probes are attached."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.recording.privileges import SYS_ADMIN, SYS_PTRACE, needed_to_profile


def proc_with(folder: Path, options: str) -> Path:
    """Return a /proc that is mounted with these options, on a kernel with CAP_BPF."""
    for name in ("sys/kernel", "self"):
        (folder / name).mkdir(parents=True)
    (folder / "sys/kernel/cap_last_cap").write_text("40\n")
    line = f"22 1 0:5 / /proc rw,nosuid - proc proc {options}\n"
    (folder / "self/mountinfo").write_text(line)
    return folder


@pytest.mark.parametrize(
    ("options", "is_needed"),
    [
        ("rw", False),
        ("rw,hidepid=0", False),
        ("rw,hidepid=2", True),
        ("rw,hidepid=invisible", True),
    ],
)
def test_processes_that_proc_hides_are_seen_by_sys_ptrace(
    tmp_path: Path, options: str, is_needed: bool
) -> None:
    proc = proc_with(tmp_path, options)
    needed = needed_to_profile(changes_user=False, may_remove_output=False, proc=proc)
    assert (SYS_PTRACE in needed) == is_needed


@pytest.mark.parametrize("reads", [False, True])
def test_only_an_ebs_volume_needs_sys_admin_to_the_end(tmp_path: Path, reads: bool) -> None:
    needed = needed_to_profile(
        changes_user=False,
        may_remove_output=False,
        reads_log_page=reads,
        proc=proc_with(tmp_path, "rw"),
    )
    assert (SYS_ADMIN in needed) == reads
