# SPDX-License-Identifier: Apache-2.0
"""A profile by Writewise installed from a wheel, in a separate environment."""

from __future__ import annotations

import json
from pathlib import Path

from tests.install import wheels


def test_an_installed_wheel_profiles(tmp_path: Path) -> None:
    writewise = wheels.install(wheels.build(tmp_path), tmp_path / "environment") / "writewise"
    target = tmp_path / "file"
    contract = tmp_path / "contract"
    contract.write_text(f"2,monitortimeframe,1000s\ncalls,{tmp_path},write,all,count,1\n")
    dd = ["dd", "if=/dev/zero", f"of={target}", "bs=100", "count=5", "status=none"]
    done = wheels.run(writewise, "profile", "--contract", str(contract), "--json", "--", *dd)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert [entry["value"] for entry in document["findings"]] == [5]
    assert document["losses"]["total"] == 0
    shipped = wheels.run(writewise, "profile", "--", "true")
    assert shipped.returncode == 0 and "mean_lat_write" in shipped.stderr
