# SPDX-License-Identifier: Apache-2.0
"""A kernel that the probes cannot run on is refused by name; commands without probes work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sysctl.host.sysctls import read_writeback
from tests.guests.inside.volumes import TIMEOUT_S, recommended_sysctls
from tests.root.labs import SYSTEM, guarded, writewise
from tests.unit.studies import Study, ratio

WANTED = {"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7}
PULL = ("s3://bucket/prefix", "/root", "--no-sign-request")
OLDEST = "Linux 6.1"


def test_doctor_names_what_is_missing_and_the_oldest_kernel() -> None:
    done = writewise("doctor", timeout=TIMEOUT_S)
    assert done.returncode == 3
    assert "request_queue.disk" in done.stdout + done.stderr
    assert OLDEST in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("profile", "--", "true"),
        ("pull", *PULL),
        ("sweep", *PULL),
        ("demo",),
    ],
    ids=["profile", "pull", "sweep", "demo"],
)
def test_what_loads_probes_is_refused_before_anything_is_changed(
    arguments: tuple[str, ...],
) -> None:
    before = read_writeback(SYSTEM)
    done = writewise(*arguments, timeout=TIMEOUT_S)
    assert done.returncode == (125 if arguments[0] == "profile" else 3)
    assert "request_queue.disk" in done.stderr and OLDEST in done.stderr
    assert "Traceback" not in done.stderr
    assert read_writeback(SYSTEM) == before


def test_advise_apply_verify_status_and_rollback_work(tmp_path: Path) -> None:
    results = Study().tried(ratio(60), 3.6).results
    file = tmp_path / "results.json"
    results.save(file)
    advised = writewise("advise", file, "--output-dir", tmp_path, timeout=TIMEOUT_S)
    assert advised.returncode == 0 and "× faster" in advised.stdout
    with guarded(tmp_path):
        before = read_writeback(SYSTEM)
        wanted = recommended_sysctls(WANTED, tmp_path)
        assert writewise("apply", wanted, "--yes", timeout=TIMEOUT_S).returncode == 0
        assert writewise("verify", wanted, timeout=TIMEOUT_S).returncode == 0
        status = json.loads(writewise("status", "--json", timeout=TIMEOUT_S).stdout)
        assert "vm.dirty_ratio = 61" in status["applied"][0]["what"]
        assert writewise("rollback", timeout=TIMEOUT_S).returncode == 0
        assert read_writeback(SYSTEM) == before
