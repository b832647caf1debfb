# SPDX-License-Identifier: Apache-2.0
"""The finalists: settings from a search by time that are measured in pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sysctl.evidence.price import SAME_SHARE
from sysctl.evidence.results import CANDIDATE, PRICE, Trial
from sysctl.search.finalists import cheapest_and_fastest
from tests.unit.studies import MIB, Study, ratio
from tests.unit.sweeps import PRESENT as NOW

#: Nothing changes but the thresholds; those of `ratio` change both, so one more that changes one.
ONE_CHANGE = ratio(70, 10)


def study(*candidates, present_s=(20.0, 20.2), context=None):
    """Candidates as (dirty ratio, time to return in s, peak of dirty MiB)."""
    made = Study(present_s, context)
    for dirty, return_s, peak in candidates:
        made.candidate(ratio(dirty), return_s, peak_dirty_bytes=peak * MIB)
    return made


def finalists(made):
    return list(cheapest_and_fastest(made.runs))


def test_a_setting_both_cheapest_and_fastest_is_the_only_finalist():
    assert finalists(study((40, 4.0, 800), (60, 4.1, 900), (80, 4.2, 1000))) == [ratio(40)]


def test_the_cheapest_cheapest_and_fastest_comes_first_and_the_fastest_second():
    tried = study((30, 9.0, 600), (40, 4.3, 800), (50, 4.2, 900), (80, 4.0, 1200))
    assert finalists(tried) == [ratio(40), ratio(80)]


@pytest.mark.parametrize(("return_s", "is_near"), [(4.4, True), (4.41, False)])
def test_a_setting_ten_percent_slower_than_the_fastest_is_not_near_it(return_s, is_near):
    found = finalists(study((30, return_s, 100), (80, 4.0, 1200)))
    assert found == ([ratio(30)] if is_near else []) + [ratio(80)]


def test_fewer_changes_weigh_more_than_fewer_bytes_at_risk():
    tried = study((40, 4.0, 800)).candidate(ONE_CHANGE, 4.3, peak_dirty_bytes=1200 * MIB)
    assert finalists(tried) == [ONE_CHANGE, ratio(40)]


@pytest.mark.parametrize(("return_s", "is_gain"), [(19.0, True), (19.2, False)])
def test_a_gain_below_five_percent_has_no_finalists(return_s, is_gain):
    assert bool(finalists(study((80, return_s, 900), present_s=(20.0,)))) == is_gain


def test_the_gain_is_over_the_median_of_the_present_runs_of_the_search():
    assert finalists(study((80, 15.0, 900), present_s=(15.5, 15.5, 40.0))) == []
    priced = study((80, 15.0, 900), present_s=(15.5,))
    priced.add(PRICE, NOW, 40.0)
    assert finalists(priced) == [], "the run for the price is in no comparison"


def test_without_a_run_of_either_side_there_are_none():
    assert finalists(study()) == []
    assert finalists(study((80, 4.0, 900), present_s=())) == []


def test_a_failed_or_stopped_setting_is_not_a_finalist():
    tried = study((40, 4.2, 800)).candidate(ratio(60), 1.0, problem="disturbed")
    tried.results.trials.append(Trial(CANDIDATE, ratio(80), "now", None, stopped_s=1.0))
    assert finalists(tried) == [ratio(40)]


def test_the_recheck_does_not_change_the_finalists():
    tried = study((40, 4.2, 800), (80, 4.0, 1200))
    before = finalists(tried)
    tried.recheck(ratio(40), [9.0, 9.0], [5.0, 5.0], peak_dirty_bytes=9000 * MIB)
    tried.add(PRICE, ratio(40), 9.0, peak_dirty_bytes=9000 * MIB)
    assert finalists(tried) == before == [ratio(40), ratio(80)]


def test_a_setting_that_a_limit_excludes_is_not_a_finalist():
    context = {"max_at_risk_bytes": 1000 * MIB}
    tried = study((40, 4.2, 800), (60, 4.1, 900), (80, 4.0, 1200), context=context)
    assert finalists(tried) == [ratio(40), ratio(60)]
    assert finalists(study((80, 4.0, 1200), context=context)) == []


def test_the_cheapest_setting_with_room_to_the_limit_is_a_finalist_too():
    """One run does not show on which side of the limit a setting is."""
    within = int(1000 / (1 + SAME_SHARE))
    candidates = (30, 6.0, 300), (40, 5.0, within), (60, 4.0, within + 1)
    context = {"max_at_risk_bytes": 1000 * MIB}
    assert finalists(study(*candidates, context=context)) == [ratio(60), ratio(40)]
    assert finalists(study(*candidates[:2], context=context)) == [ratio(40)]


def test_host_and_pull_changes_of_the_fastest_are_also_separate_finalists():
    slow, fast = (("io_chunksize", 2**18),), (("io_chunksize", 2**20),)
    made = Study(())
    for _ in range(2):
        made.add("present", replace(NOW, transfer=slow), 20.0)
    both = replace(ratio(80), transfer=fast)
    made.candidate(replace(ratio(80), transfer=slow), 9.0).candidate(both, 4.0)
    assert finalists(made) == [
        both,
        replace(NOW, transfer=fast),
        replace(ratio(80), transfer=slow),
    ]
    made.candidate(replace(NOW, transfer=fast), 3.0)
    assert finalists(made) == [replace(NOW, transfer=fast)]
