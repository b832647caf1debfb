# SPDX-License-Identifier: Apache-2.0
"""Files that commit 4ca1b0e wrote are read, or refused by a sentence that says what to do.

tests/unit/data/4ca1b0e says how they were recorded.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.main import main
from profiler.pull.settings import TransferSettings, parse_settings
from profiler.study.circumstances_here import resumed_results
from profiler.study.space import Space
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.change.recommendation import FORMAT as RECOMMENDATION_FORMAT
from sysctl.change.recommendation_file import parse_recommendation
from sysctl.evidence.results import load
from sysctl.evidence.runs import Runs
from tests.places import DATA
from tests.unit.changes import EVERYTHING, change_in

FILES = DATA / "4ca1b0e"
KEPT = "run `writewise advise` on it as it is, or start a new sweep with another --output"


def test_results_are_read_saved_and_lead_to_the_same_change(tmp_path: Path) -> None:
    results = load(FILES / "results.json")
    found = advise(results)
    assert found.case is Case.CHANGE
    assert change_in(found).sysctl_values == {
        "vm.dirty_ratio": 80,
        "vm.dirty_background_ratio": 5,
    }
    results.save(tmp_path / "today.json")
    assert load(tmp_path / "today.json") == results


def test_results_of_transfer_settings_are_read() -> None:
    results = load(FILES / "results-transfer.json")
    tried = {trial.setting.transfer for trial in Runs.of(results).trials}
    assert tried == {(), (("max_concurrency", 20),)}


def test_a_sweep_of_transfer_settings_is_not_resumed_and_says_what_to_do() -> None:
    path = FILES / "results-transfer.json"
    earlier = load(path)
    now = Space(vm=False, transfer=("max_concurrency",), strategy="random").to_json()
    with pytest.raises(UsageError) as refused:
        resumed_results(path, now, earlier.circumstances)
    assert refused.value.message == f"{path} is from a different sweep: values to try differ"
    assert refused.value.hint == (
        f"an earlier version wrote it, without the transfer settings to try: {KEPT}"
    )


def test_a_recommendation_is_read_as_what_it_is() -> None:
    change = parse_recommendation((FILES / "recommendation.json").read_text(), "recommendation")
    assert change.sysctl_values == EVERYTHING.sysctl_values
    assert change.undo_values == EVERYTHING.undo_values
    assert change.mount == replace(EVERYTHING.mount, fstab=None)  # it did not keep the line
    assert change.disk == EVERYTHING.disk
    assert change.transfer == EVERYTHING.transfer


def test_transfer_settings_are_read() -> None:
    settings = parse_settings(str(FILES / "transfer.json"))
    assert settings == TransferSettings(339, 400619332, 15096201, 122)


def test_a_tuning_is_refused_with_what_to_use_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(FILES / "tuning.json")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "tuning.json is not a results file of `writewise sweep`" in said
    assert (
        "use the settings in the transfer.json next to it with `writewise pull --transfer`" in said
    )


def test_a_recommendation_is_named_as_such(tmp_path):
    path = tmp_path / "recommendation.json"
    path.write_text(json.dumps({"format": RECOMMENDATION_FORMAT}))
    with pytest.raises(UsageError, match="is not a results file") as error:
        load(path)
    assert error.value.hint == "this is a recommendation: use `writewise apply`"
