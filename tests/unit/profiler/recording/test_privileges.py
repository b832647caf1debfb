# SPDX-License-Identifier: Apache-2.0
"""What a profile needs of root's capabilities once its probes are attached."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.recording.privileges import SYS_PTRACE, needed_to_profile


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
    for folder in ("sys/kernel", "self"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sys/kernel/cap_last_cap").write_text("40\n")
    line = f"22 1 0:5 / /proc rw,nosuid - proc proc {options}\n"
    (tmp_path / "self/mountinfo").write_text(line)
    needed = needed_to_profile(changes_user=False, may_remove_output=False, proc=tmp_path)
    assert (SYS_PTRACE in needed) == is_needed
