# SPDX-License-Identifier: Apache-2.0
"""The guests' harness, as far as it needs no guest: names, reports, the matrix in the docs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.guests import images, results
from tests.guests.catalogue import GUESTS, PACKAGES, TRIXIE, Role, guest_of
from tests.guests.features import FEATURES
from tests.guests.running import FeatureResult, GuestResult, read_report
from tests.places import REPOSITORY

REPORT = """<testsuites><testsuite>
<testcase name="a"/>
<testcase name="b"><failure message="x"/></testcase>
<testcase name="c"><skipped message="no v1 hierarchy"/></testcase>
<testcase name="d"><skipped message="no v1 hierarchy"/></testcase>
<testcase name="e"><error message="y"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("name", "guest"),
    [("6.1", "debian12-6.1"), ("6.12", "debian12-6.12"), ("debian13-6.12", "debian13-6.12")],
)
def test_a_guest_is_found_by_its_name_or_kernel(name: str, guest: str) -> None:
    assert guest_of(name).name == guest


def test_an_unknown_guest_is_refused_with_all_names() -> None:
    with pytest.raises(KeyError, match=r"debian11-5\.10"):
        guest_of("4.19")


def test_a_report_is_counted() -> None:
    assert read_report(REPORT, 1.26) == FeatureResult(1, 2, ("no v1 hierarchy",), 1.3)


def test_every_feature_names_tests_that_exist_and_runs_on_a_guest() -> None:
    for feature in FEATURES:
        assert any(feature.is_for(guest) for guest in GUESTS), feature.name
        for test in feature.tests:
            assert (REPOSITORY / test.partition("::")[0]).is_file(), test


def test_a_feature_without_a_passed_test_has_failed() -> None:
    def has_failed(*counts: int) -> bool:
        passed, failed = counts
        return GuestResult("g", "6.1", 1.0, {"x": FeatureResult(passed, failed, (), 1)}).has_failed

    assert has_failed(0, 0) and has_failed(3, 1) and not has_failed(3, 0)


def test_results_of_one_feature_leave_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "results.json")
    for name, passed in (("causes of waits", 5), ("sweep", 7), ("causes of waits", 6)):
        feature = {name: FeatureResult(passed, 0, (), 1.0)}
        results.keep(GuestResult("debian12-6.1", "6.1.0-1", 40.0, feature))
    kept = json.loads(results.FILE.read_text())["debian12-6.1"]["features"]
    assert {name: each["passed"] for name, each in kept.items()} == {
        "causes of waits": 6,
        "sweep": 7,
    }
    row = next(line for line in results.matrix().splitlines() if line.startswith("| causes"))
    assert row.startswith("| causes of waits | 6 pass | not run yet |")
    assert Role.REFUSED in {guest.role for guest in GUESTS} and "refused" in row
    results.keep(GuestResult("debian12-6.1", "6.1.0-2", 40.0, {}))
    assert "6 pass" not in results.matrix(), "another kernel's results are void"


def test_the_matrix_has_the_age_of_its_oldest_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "FILE", tmp_path / "results.json")
    feature = FeatureResult(1, 0, (), 90.0, "2026-11-23 02:05 1a2b3c4")
    newer = replace(feature, commit="2026-11-24 02:05 5d6e7f8")
    results.keep(GuestResult("debian12-6.1", "6.1.0-1", 30.0, {"lab": feature, "sweep": newer}))
    table = results.matrix()
    assert "| oldest result | 2026-11-23 02:05 1a2b3c4 | – |" in table
    assert "| all features, minutes | 4 | – |" in table


def test_an_image_is_named_by_what_it_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "cached", lambda name, make: Path(name))
    before = images.image_folder(TRIXIE)
    monkeypatch.setattr(images, "PACKAGES", (*PACKAGES, "another"))
    assert images.image_folder(TRIXIE) != before
    assert re.fullmatch(r"trixie-[0-9a-f]{12}", before.name)


def test_the_docs_show_the_last_run() -> None:
    assert results.matrix() in (REPOSITORY / "docs/development/kernels.md").read_text()
