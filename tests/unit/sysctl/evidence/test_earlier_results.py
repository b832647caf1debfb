# SPDX-License-Identifier: Apache-2.0
"""Results of an earlier sweep: no run watched for its price, mount options in the search.

`data/results-mounts-in-the-search.json` was written by the sweep of commit 0f992ad on a made-up
bench: 80/5 takes 3.4 s of the present 19 s, and 10 % less with noatime, in two pairs.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from profiler.report.advice import print_details
from profiler.report.conclusions import note_texts, verdict_text
from profiler.report.reasons import reason_texts
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.evidence.price import Limits
from sysctl.evidence.results import CANDIDATE, PRICE, RECHECK, load
from sysctl.evidence.runs import Runs
from tests.places import DATA
from tests.unit.changes import change_in
from tests.unit.studies import ratio
from tests.unit.sweeps import GIB

EARLIER = DATA / "results-mounts-in-the-search.json"


@pytest.fixture(scope="module")
def results():
    return load(EARLIER)


def test_the_file_was_written_by_an_earlier_version(results):
    assert not Runs.of(results).of_role(PRICE)
    tried = [trial.setting.mount_options for trial in Runs.of(results).of_role(CANDIDATE)]
    assert tried == ["defaults", "defaults", "noatime", "noatime"]
    assert {trial.setting.mount_options for trial in Runs.of(results).of_role(RECHECK)} == set(
        tried
    )


def test_its_circumstances_are_of_the_class_and_of_the_node(results, tmp_path):
    shared, node = results.circumstances.node_class, results.circumstances.node
    assert (shared.fstype, shared.kernel, shared.mount_policy) == ("xfs", "6.18.0", ("nosuid",))
    assert (node.host, node.device, node.memory_bytes) == ("node-1", "/dev/nvme1n1", 0)
    results.save(tmp_path / "today.json")
    assert load(tmp_path / "today.json").circumstances == results.circumstances


def test_the_thresholds_are_recommended_by_their_pairs(results):
    found = advise(results)
    assert found.case is Case.CHANGE
    assert found.best.setting == ratio(80, mount_options="defaults")
    assert verdict_text(found).startswith("5.6× faster (95% interval 5.4× to 5.8×, 2 pairs)")
    assert (found.present_price.durable_s, found.price.durable_s) == (31.5, 31.5)


def test_the_mount_option_that_has_too_few_pairs_is_left_out_with_what_they_show(results):
    found = advise(results)
    (note,) = note_texts(found)
    assert note.endswith(
        "but it was compared without mount=noatime in only 2 pairs, and 4 are needed."
    )
    reason = reason_texts(found)[-1]
    assert (reason.name, reason.value, reason.action) == ("mount options", "noatime", "leave out")
    assert reason.effect.startswith("with it the pull took 90.0% of the time without it")
    assert change_in(found).mount is None


def test_earlier_results_obey_limits_too(results):
    found = advise(results, Limits(max_at_risk_bytes=GIB))
    assert found.case is Case.NOT_WITHIN_LIMITS
    assert "1.70 GiB at risk, more than 1.00 GiB" in verdict_text(found)


def test_earlier_results_are_reported_and_read_back_unchanged(results, tmp_path):
    file = io.StringIO()
    print_details(advise(results), Console(file=file, width=100))
    assert "leave out mount options noatime" in file.getvalue()
    results.save(tmp_path / "again.json")
    assert load(tmp_path / "again.json") == results
