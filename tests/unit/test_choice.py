"""Which candidates are measured again."""

from __future__ import annotations

from sysctl.choice import finalists
from sysctl.mounts_tried import mount_ratios

from tests.unit.studies import Study, ratio

MIB = 2**20


def study(*candidates, present_s=(20.0, 20.2)):
    """Candidates as (dirty ratio, time to return in s, peak of dirty MiB)."""
    made = Study(present_s)
    for dirty, return_s, peak in candidates:
        made.add("candidate", ratio(dirty), return_s, peak_dirty_bytes=peak * MIB)
    return made.results


def test_one_that_is_both_cheapest_and_fastest_is_the_only_one():
    assert finalists(study((40, 4.0, 800), (60, 4.1, 900), (80, 4.2, 1000))) == [ratio(40)]


def test_one_that_costs_more_must_have_been_faster():
    tried = study((30, 9.0, 600), (40, 4.2, 800), (50, 4.3, 900), (60, 4.1, 1000), (80, 4.0, 1200))
    assert finalists(tried) == [ratio(40), ratio(60), ratio(80)]


def test_one_that_was_faster_by_a_hair_is_not_worth_its_price():
    assert finalists(study((40, 4.1, 800), (60, 4.05, 1000))) == [ratio(40)]


def test_of_many_the_cheapest_two_and_the_fastest_stay():
    tried = study(*((dirty, 4.7 - dirty / 100, 10 * dirty) for dirty in (30, 40, 50, 60, 70)))
    assert finalists(tried) == [ratio(30), ratio(40), ratio(70)]


def test_what_is_much_slower_than_the_fastest_is_none_however_cheap():
    assert finalists(study((30, 4.5, 100), (80, 4.0, 1200))) == [ratio(80)]


def test_on_a_noisy_host_more_may_be_as_fast():
    tried = study((30, 4.5, 100), (80, 4.0, 1200), present_s=(20.0, 24.0))
    assert finalists(tried) == [ratio(30), ratio(80)]


def test_a_gain_below_five_percent_or_the_noise_floor_has_no_finalists():
    assert finalists(study((80, 19.3, 900))) == []
    assert finalists(study((80, 17.0, 900), present_s=(18.0, 22.0))) == []


def test_without_a_run_of_either_side_there_are_none():
    assert finalists(study()) == []
    assert finalists(study((80, 4.0, 900), present_s=())) == []


def test_the_recheck_does_not_change_the_finalists():
    tried = study((40, 4.2, 800), (80, 4.0, 1200))
    before = finalists(tried)
    again = Study(())
    again.results = tried
    for pair in range(2):
        again.add("present", again.results.trials[0].setting, 5.0, pair=pair)
        again.add("recheck", ratio(40), 9.0, pair=pair)
    assert finalists(again.results) == before == [ratio(40), ratio(80)]


def test_a_mount_option_is_measured_again_beside_the_same_thresholds_without_it():
    made = Study()
    made.candidate(ratio(40), 5.0, peak_dirty_bytes=600 * MIB)
    made.candidate(ratio(80), 4.9, peak_dirty_bytes=900 * MIB)
    made.candidate(ratio(80, mount_options="noatime"), 4.55, peak_dirty_bytes=900 * MIB)
    with_it = ratio(80, mount_options="noatime")
    assert finalists(made.results) == [ratio(40), ratio(80), with_it]


def test_what_was_measured_again_speaks_for_a_mount_option_and_not_the_search():
    """One run with it was 10 % faster; side by side it is no faster."""
    made, with_it = Study(), ratio(80, mount_options="noatime")
    made.candidate(ratio(80), 5.0).candidate(with_it, 4.5)
    assert mount_ratios(made.results, "noatime") == [0.9]
    made.recheck(ratio(80), (4.6, 4.6)).recheck(with_it, (4.6, 4.6))
    assert mount_ratios(made.results, "noatime") == [1.0]
