"""The recommendation: which setting, and why none; from made-up results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.shared.errors import UsageError
from profiler.report.conclusions import note_texts, verdict_text
from profiler.report.price import objection_text
from profiler.report.reasons import reason_texts
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.evidence.price import Limits
from sysctl.evidence.results import LeftOut, Results
from sysctl.evidence.statistics import Noise
from sysctl.search.extras import PAIRS
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import CIRCUMSTANCES, GIB, PRESENT, by_ratio, circumstances, failing, sweep

CHEAP, DEAR = ratio(40), ratio(80)


def test_the_verdict_is_of_the_pairs():
    recommendation = advise(sweep())
    assert recommendation.case is Case.CHANGE
    assert recommendation.best.setting == ratio(80, background=10)
    assert recommendation.speedup == pytest.approx(19 / 3.4, rel=0.02)
    assert recommendation.interval.count == 2
    assert "5.6× faster (95% interval 5.4× to 5.8×, 2 pairs)" in verdict_text(recommendation)


def test_what_the_recommended_setting_costs_was_watched_until_all_was_on_the_device():
    recommendation = advise(sweep())
    for price in (recommendation.price, recommendation.present_price):
        assert (price.durable_s, price.is_durable_predicted) == (31.5, False)


def test_of_settings_as_fast_the_one_that_leaves_least_in_memory_is_recommended():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB * 17 // 10)
    study.tried(CHEAP, 4.05, peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == CHEAP


def test_speed_that_differs_is_worth_its_price():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB * 17 // 10)
    study.tried(CHEAP, 5.0, peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == DEAR


def test_a_wide_interval_does_not_make_a_slower_setting_as_good():
    """By the intervals alone the cheap one could be as fast, but it took a third more each time."""
    study = Study().candidate(DEAR, 4.0).recheck(DEAR, [3.8, 4.2], peak_dirty_bytes=2 * GIB)
    study.candidate(CHEAP, 5.0).recheck(CHEAP, [5.0, 5.4], peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == DEAR


def test_peaks_that_sampling_alone_tells_apart_are_the_same_price():
    """Then the lower ceiling wins: a larger pull has less to lose."""
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB)
    study.tried(CHEAP, 4.0, peak_dirty_bytes=GIB * 103 // 100)
    assert advise(study.results).best.setting == CHEAP


def test_of_settings_at_the_same_risk_the_sooner_durable_one_is_recommended():
    study = Study().tried(CHEAP, 4.0, durable_s=40.0)
    study.tried(DEAR, 4.0, durable_s=30.0)
    assert advise(study.results).best.setting == DEAR


def test_of_settings_as_good_the_one_with_fewest_changes_is_recommended():
    """Above all: one change that leaves more at risk is preferred to two."""
    one = ratio(80, background=10)
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB)
    study.tried(one, 4.0, peak_dirty_bytes=2 * GIB)
    assert advise(study.results).best.setting == one


@pytest.mark.parametrize(
    ("times_s", "words"),
    [
        ([18.0, 21.0, 20.5], "3 pairs), not distinguishable from the present settings."),
        ([30.0, 31.5, 30.2], "3 pairs), slower than the present settings."),
        ([17.0, 19.0, 18.3], "a gain that chance may explain, as the pairs were looked at more"),
    ],
)
def test_no_change_without_a_gain_above_chance(times_s, words):
    study = Study(present_s=(20.0, 21.0)).candidate(DEAR, 15.0)
    recommendation = advise(study.recheck(DEAR, times_s, present_s=[20.0, 21.0, 20.0]).results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert recommendation.best is None
    assert verdict_text(recommendation).startswith(
        "No change recommended: the best of the settings"
    )
    assert words in verdict_text(recommendation)
    assert recommendation.speedup == 1


def test_a_gain_that_is_certain_and_small_is_not_worth_a_change():
    study = Study().candidate(DEAR, 15.0).recheck(DEAR, [19.5, 19.52, 19.5])
    recommendation = advise(study.results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert "a gain of less than 5%, which is not worth a change" in verdict_text(recommendation)


def test_no_change_when_the_best_is_not_fast_again():
    def seconds(setting, run):
        lucky = setting.values["vm.dirty_ratio"] == 80 and run == 1
        return 3.0 if lucky else 10.0 + 0.1 * run

    recommendation = advise(sweep(seconds))
    assert recommendation.best is None
    assert "measured again" in verdict_text(recommendation)


def test_no_change_when_the_search_found_nothing_worth_measuring_again():
    recommendation = advise(sweep(lambda setting, run: 10.0 + 0.1 * run))
    assert recommendation.case is Case.NO_DIFFERENCE
    assert "tried took 10.1 s, the present ones took 10.2 s: no gain" in verdict_text(
        recommendation
    )


def test_no_change_when_nothing_else_could_be_measured():
    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] != 20:
            failing("refused")
        return 10.0

    recommendation = advise(sweep(seconds))
    assert recommendation.case is Case.NOTHING_MEASURED
    assert "(18 of 18 trials: refused)" in verdict_text(recommendation)


def test_no_change_when_no_extra_could_be_measured():
    study = Study()
    for pair in range(2):
        study.add("present", PRESENT, 20.0, pair)
        study.add("recheck", replace(PRESENT, mount_options="noatime"), 0.0, pair, "refused")
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOTHING_MEASURED
    assert "(2 of 2 trials: refused)" in verdict_text(recommendation)


@pytest.mark.parametrize("kept", [2, 3, 4, 5, 8, 9, 10])
def test_an_unfinished_sweep_recommends_nothing(kept):
    recommendation = advise(sweep(at_most=kept))
    assert recommendation.case is Case.UNFINISHED
    assert "--resume" in verdict_text(recommendation)


def test_a_sweep_that_left_out_all_that_was_asked_for_is_finished():
    study = Study()
    study.results.left_out.append(LeftOut("queue/read_ahead_kb", "nothing was read"))
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOTHING_MEASURED
    assert "only the present settings were measured, as all else was left out" in (
        verdict_text(recommendation)
    )


def test_where_no_setting_ran_twice_the_noise_is_not_known():
    assert advise(Study(present_s=(20.0,)).candidate(DEAR, 20.0).results).analysis.noise == Noise(
        0.0, 0
    )


@pytest.mark.parametrize("results", [Results(CIRCUMSTANCES, {}), sweep(at_most=1)])
def test_without_a_run_of_the_present_settings_that_counts_nothing_is_compared(results):
    """The first run is watched for its price alone."""
    with pytest.raises(UsageError, match="present settings") as caught:
        advise(results)
    assert "--resume" in caught.value.hint


def two_prices():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB * 17 // 10, durable_s=31.0)
    return study.tried(CHEAP, 9.0, peak_dirty_bytes=GIB * 9 // 10, durable_s=33.0)


def test_a_limit_excludes_and_says_what_that_costs():
    recommendation = advise(two_prices().results, Limits(max_at_risk_bytes=GIB))
    assert recommendation.best.setting == CHEAP
    (excluded,) = recommendation.analysis.excluded
    assert excluded.setting == DEAR
    assert objection_text(excluded.why) == "1.70 GiB at risk, more than 1.00 GiB"
    assert note_texts(recommendation)[0].endswith(
        "dirty_ratio=80 dirty_background_ratio=5 took 20% of the present time: "
        "1.70 GiB at risk, more than 1.00 GiB."
    )


@pytest.mark.parametrize(("limit_s", "best"), [(32.0, DEAR), (30.0, None)])
def test_a_limit_of_the_time_to_durable(limit_s, best):
    recommendation = advise(two_prices().results, Limits(max_durable_s=limit_s))
    assert (recommendation.best.setting if recommendation.best else None) == best
    if best is None:
        assert recommendation.case is Case.NOT_WITHIN_LIMITS
        assert "durable after 31.0 s, later than 30.0 s" in verdict_text(recommendation)


def test_where_nothing_fits_the_limits_the_best_of_the_search_that_does_is_named():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=2 * GIB)
    study.candidate(CHEAP, 9.0, peak_dirty_bytes=GIB // 2)
    recommendation = advise(study.results, Limits(max_at_risk_bytes=GIB))
    assert recommendation.case is Case.NOT_WITHIN_LIMITS
    assert "dirty_ratio=40 dirty_background_ratio=5 was fastest, 9.00 s" in verdict_text(
        recommendation
    )


def test_a_time_to_durable_that_nobody_waited_for_is_within_no_limit():
    study = Study().tried(DEAR, 4.0)
    recommendation = advise(study.results, Limits(max_durable_s=60.0))
    assert "its time to durable was not measured" in verdict_text(recommendation)


def test_a_reason_says_what_changed_why_what_it_did_what_it_risks_and_when_to_undo_it():
    dirty, background = reason_texts(advise(sweep(backgrounds=(5, 8))))
    assert (dirty.name, dirty.value, dirty.before, dirty.action) == (
        "vm.dirty_ratio",
        "80",
        "20",
        "set",
    )
    assert "from 614 MiB of dirty pages on, 83% of their time; with it they" in dirty.mechanism
    assert "they wait from 1.70 GiB on, 3% of their time" in dirty.mechanism
    assert dirty.effect.startswith(
        "with all changes together the pull took 17.9% of the present time "
        "(95% interval 17.3% to 18.4%, 2 pairs); in the search, one run each"
    )
    assert "40: 8.75 s, 60: 3.85 s, 80: 3.35 s" in dirty.effect
    assert "kernel panic" in dirty.risk
    assert "1.70 GiB of memory" in dirty.undo
    assert background.effect.startswith("measured together with vm.dirty_ratio; ")
    assert "starts at 205 MiB of dirty pages instead of 410 MiB" in background.mechanism
    assert background.risk == "", "less is left in memory than before"


def test_a_value_that_stays_is_kept_and_not_undone():
    study = Study().tried(ratio(60, background=10), 4.0)
    _, background = reason_texts(advise(study.results))
    assert (background.action, background.before, background.undo) == ("keep", "", "")
    assert "not changed, since the combination is what was measured" in background.effect


def test_a_knob_of_the_disk_has_its_reason_and_says_what_outlives_a_restart():
    setting = replace(DEAR, device=(("queue/nr_requests", "512"),))
    reasons = reason_texts(advise(Study().credited(setting, 4.0).results))
    assert (reasons[-1].name, reasons[-1].value) == ("queue/nr_requests", "512")
    assert "a udev rule" in reasons[-1].undo


def test_a_knob_that_makes_no_difference_is_told_and_not_written():
    study = Study().tried(DEAR, 4.0)
    for _ in range(PAIRS):
        study.block({DEAR: 4.0, replace(DEAR, device=(("queue/nr_requests", "512"),)): 4.1})
    recommendation = advise(study.results)
    reason = reason_texts(recommendation)[-1]
    assert (reason.name, reason.value, reason.action) == ("queue/nr_requests", "512", "leave out")
    assert "with it the pull took 102.5% of the time without it" in reason.effect
    assert change_in(recommendation).disk is None


def test_a_sysctl_that_makes_no_difference_is_not_among_the_values():
    study = Study().tried(DEAR, 4.0)
    name = "vm.dirty_expire_centisecs"
    late = replace(DEAR, sysctls=(*DEAR.sysctls, (name, 6000)))
    for _ in range(PAIRS):
        study.block({DEAR: 4.0, late: 4.1})
    recommendation = advise(study.results)
    assert (reason_texts(recommendation)[-1].name, reason_texts(recommendation)[-1].action) == (
        name,
        "leave out",
    )
    assert name not in change_in(recommendation).sysctl_values


def test_a_mount_option_that_makes_no_difference_is_not_recommended():
    recommendation = advise(sweep(mount_options=("noatime",)))
    assert recommendation.best.setting.mount_options is None
    reason = reason_texts(recommendation)[-1]
    assert (reason.name, reason.value) == ("mount options", "noatime")
    assert reason.action == "leave out"
    assert "noatime: reading a file no longer writes" in reason.why
    assert "; with it the pull took 98.6% of the time without it (95% interval " in reason.why
    assert change_in(recommendation).mount is None


def test_a_mount_option_that_helped_in_one_pair_is_left_out():
    def seconds(setting, run):
        is_lucky = setting.mount_options == "noatime" and run == 1
        return by_ratio(setting, run) * (0.6 if is_lucky else 1.0)

    recommendation = advise(sweep(seconds, mount_options=("noatime",)))
    assert recommendation.best.setting.mount_options is None
    assert reason_texts(recommendation)[-1].action == "leave out"
    assert ", 4 pairs)" in reason_texts(recommendation)[-1].effect


def with_slow_atime(setting, run):
    return by_ratio(setting, run) * (1 if setting.mount_options == "noatime" else 2)


def test_a_mount_option_that_helps_is_recommended_with_the_policy_kept():
    recommendation = advise(sweep(with_slow_atime, mount_options=("noatime",)))
    assert recommendation.best.setting.mount_options == "noatime"
    assert reason_texts(recommendation)[-1].action == "set"
    mount = change_in(recommendation).mount
    assert (mount.device, mount.target, mount.fstype) == ("/dev/nvme1n1", "/data", "xfs")
    assert (mount.policy, mount.value) == (("nosuid",), ("noatime",))


def test_bytes_are_those_of_the_memory_that_was_measured_with_not_of_the_time_before_it():
    """When a sweep begins, its own workers and the compiler of its probes are not there yet."""
    results = sweep()
    before = advise(results)
    later = advise(replace(results, circumstances=circumstances(dirtyable_bytes=5 * GIB)))
    assert later.best.thresholds == before.best.thresholds
    assert later.forms == before.forms
