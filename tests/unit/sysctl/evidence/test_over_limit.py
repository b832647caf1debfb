# SPDX-License-Identifier: Apache-2.0
"""The time over the limits of a volume: its figures, and kept in the results."""

from __future__ import annotations

import json

import pytest

from contracts.shared.errors import UsageError
from sysctl.evidence.over_limit import EbsLimit, OverLimit, most_limited
from sysctl.evidence.results import PRESENT, load
from tests.unit.studies import Study

THROTTLED = OverLimit(
    20.0,
    volume_iops_s=1.5,
    volume_throughput_s=12.0,
    instance_throughput_s=3.0,
    at_limit_s=12.0,
    at_limit_rate_bytes_per_s=125e6,
    at_limit_ops_per_s=480.0,
)


def saved(results, path):
    results.save(path)
    return json.loads(path.read_text())


def test_the_longest_limit_and_its_share():
    assert THROTTLED.longest is EbsLimit.VOLUME_THROUGHPUT
    assert THROTTLED.share(EbsLimit.VOLUME_THROUGHPUT) == 0.6
    assert THROTTLED.share(EbsLimit.INSTANCE_IOPS) == 0
    assert OverLimit(20.0).longest is None


def test_a_limit_that_was_hardly_exceeded_did_not_hold_the_run_up():
    assert THROTTLED.main is EbsLimit.VOLUME_THROUGHPUT
    assert OverLimit(20.0, instance_iops_s=2.0).main is EbsLimit.INSTANCE_IOPS
    assert OverLimit(20.0, instance_iops_s=1.9).main is None


def test_counters_that_advance_in_steps_are_no_share_above_1():
    assert OverLimit(9.5, instance_iops_s=10.0).share(EbsLimit.INSTANCE_IOPS) == 1


def test_only_two_of_the_limits_are_of_the_instance():
    assert [limit.value for limit in EbsLimit if limit.is_of_instance] == [
        "instance IOPS",
        "instance throughput",
    ]


def test_of_several_volumes_the_most_limited_counts():
    other = OverLimit(20.0, instance_iops_s=12.5)
    assert most_limited([THROTTLED, other, OverLimit(20.0)]) is other
    assert most_limited([]) is None


def test_it_is_read_back_unchanged(tmp_path):
    study = Study(over_limit=THROTTLED)
    study.add(PRESENT, study.results.trials[0].setting, 20.0, over_limit_problem="it was unplugged")
    study.results.save(tmp_path / "results.json")
    first, *_, last = (trial.valid for trial in load(tmp_path / "results.json").trials)
    assert (first.over_limit, first.over_limit_problem) == (THROTTLED, None)
    assert (last.over_limit, last.over_limit_problem) == (None, "it was unplugged")


def test_results_of_earlier_versions_do_not_have_it(tmp_path):
    document = saved(Study(over_limit=THROTTLED).results, tmp_path / "new.json")
    for trial in document["trials"]:
        del trial["observation"]["over_limit"]
        del trial["observation"]["over_limit_problem"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    assert {t.valid.over_limit for t in load(tmp_path / "old.json").trials} == {None}


@pytest.mark.parametrize(
    "damage",
    [{"observed_s": 0}, {"volume_iops_s": -1}, {"at_limit_rate_bytes_per_s": "fast"}],
    ids=lambda damage: next(iter(damage)),
)
def test_damaged_figures_are_refused(tmp_path, damage):
    document = saved(Study(over_limit=THROTTLED).results, tmp_path / "new.json")
    document["trials"][0]["observation"]["over_limit"].update(damage)
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="damaged"):
        load(tmp_path / "bad.json")
