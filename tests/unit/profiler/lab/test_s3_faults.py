# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from profiler.lab.s3_faults import Fault, FaultPlan, dump_faults, load_faults


def test_faults_are_read_as_they_were_written(tmp_path: Path) -> None:
    faults = (Fault("refuse", "a*", "*", 2, 500, "InternalError"), Fault("trickle", pause_s=0.5))
    path = tmp_path / "faults.json"
    path.write_text(dump_faults(faults))
    assert load_faults(path) == faults


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "not a JSON list"),
        ('[{"key": "a"}]', r"faults\[0\]: must have kind"),
        ('[{"kind": "reset"}, {"kind": "reset", "often": 1}]', r"faults\[1\]: must have kind"),
        ('[{"kind": "burn"}]', r"faults\[0\].kind: unknown fault 'burn'"),
    ],
)
def test_an_invalid_fault_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=problem):
        load_faults(path)


def test_a_fault_is_used_up_and_the_next_that_meets_follows() -> None:
    once, always = Fault("reset", "a", times=1), Fault("corrupt", "?")
    plan = FaultPlan([once, always])
    assert plan.take("HEAD", "a") is None
    assert plan.take("GET", "long") is None
    assert [plan.take("GET", "a") for _ in range(3)] == [once, always, always]
