# SPDX-License-Identifier: Apache-2.0
"""The user's line of fstab: found in its text, kept in the results, carried to the change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profiler.report.advised_change import change_of
from sysctl.advice.advise import advise
from sysctl.change.recommendation import FstabLine
from sysctl.change.recommendation_file import is_acceptable
from sysctl.evidence.results import load
from sysctl.host.fstab import escaped, fstab_line, parse_fstab, unescaped
from sysctl.host.system import System
from sysctl.knobs.setting import Setting
from tests.unit.changes import change_in
from tests.unit.studies import Study
from tests.unit.sweeps import circumstances

OTHERS = "# UUID=9 /data xfs ro 0 0\nproc /proc proc defaults 0 0\nUUID=2 /data2 xfs ro\n\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "UUID=1 /data xfs noatime,nofail 0 2",
            FstabLine("UUID=1", "xfs", ("noatime", "nofail"), 0, 2),
        ),
        ("\t LABEL=a\\040b\t/data  auto ro 1 ", FstabLine("LABEL=a b", "auto", ("ro",), 1, 0)),
        ("/dev/sdb /data ext4", FstabLine("/dev/sdb", "ext4", ("defaults",), 0, 0)),
        ("/dev/sdb /data", None),
        ("/dev/sdb /data xfs ro 0 2 more", None),
        ("/dev/sdb /data xfs ro 0 x", None),
        ("/dev/sdb /data xfs ro 0 -1", None),
        ("/dev/sdb /data xfs ro 0 2\n/dev/sdc /data xfs ro 0 2", None),
        ("#/dev/sdb /data xfs ro 0 2", None),
        ("/dev/sdb /data/ xfs ro 0 2", None),
    ],
)
def test_the_line_of_a_mount_point(line: str, found: FstabLine | None) -> None:
    assert parse_fstab(f"{OTHERS}{line}\n", "/data") == found


def test_fields_with_blanks_are_escaped_as_mount_reads_them() -> None:
    assert escaped("/my data\\x\t") == "/my\\040data\\134x\\011"
    assert unescaped(escaped("/my data\\040\t\n")) == "/my data\\040\t\n"
    line = parse_fstab("UUID=1 /my\\040data xfs ro 0 0\n", "/my data")
    assert line == FstabLine("UUID=1", "xfs", ("ro",))


def test_a_host_without_fstab_has_no_line(tmp_path) -> None:
    assert fstab_line(System(tmp_path), "/data") is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/fstab").write_text("UUID=1 /data xfs ro 0 2\n")
    assert fstab_line(System(tmp_path), "/data") == FstabLine("UUID=1", "xfs", ("ro",), 0, 2)


def test_the_line_goes_from_the_results_into_the_recommendation(tmp_path) -> None:
    results = Study().credited(Setting((), "noatime"), 4.0).results
    own = {"source": "UUID=1", "fstype": "xfs", "options": ["nofail"], "dump": 0, "check": 2}
    results.circumstances = circumstances(workers=2, fstab=own)
    results.save(tmp_path / "results.json")
    change = change_in(advise(load(tmp_path / "results.json")))
    assert change is not None and change.mount is not None
    assert change.mount.fstab == FstabLine("UUID=1", "xfs", ("nofail",), 0, 2)
    results.circumstances = circumstances(workers=2, fstab=None)
    without = change_in(advise(results))
    assert without is not None and without.mount == replace(change.mount, fstab=None)


def advised(found):
    """The line in the advice after a sweep that found this one."""
    results = Study().credited(Setting((), "noatime"), 4.0).results
    results.circumstances = circumstances(workers=2, fstab=found)
    return change_in(advise(results)).mount.fstab


@pytest.mark.parametrize(
    ("source", "fstype", "options"),
    [
        ("UUID=1", "xfs", ["defaults", "dev"]),
        ("UUID=1", "xfs", ["x-systemd.makefs"]),
        ("UUID=1", "xfs", ["X-mount.mode=0777"]),
        ("LABEL=my d", "xfs", ["defaults"]),
        ("UUID=1", "ext4,xfs", ["defaults"]),
    ],
)
def test_an_unusable_fstab_line_costs_no_other_advice(source, fstype, options):
    """`recommendation.json` is read again: a line that its reader refuses would spoil all of it."""
    found = {"source": source, "fstype": fstype, "options": options, "dump": 0, "check": 0}
    results = Study().credited(Setting((), "noatime"), 4.0).results
    results.circumstances = circumstances(workers=2, fstab=found)
    change = change_of(advise(results))
    assert change is not None and change.mount is not None
    assert change.mount.fstab is None
    assert is_acceptable(FstabLine("UUID=1", "xfs", ("defaults", "nofail")))
