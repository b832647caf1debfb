# SPDX-License-Identifier: Apache-2.0
"""The recommendation: which setting it names, or why it names none; from simulated results."""

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


def test_the_verdict_comes_from_the_pairs():
    recommendation = advise(sweep())
    assert recommendation.case is Case.CHANGE
    assert recommendation.best.setting == ratio(80, background=10)
    assert recommendation.speedup == pytest.approx(19 / 3.4, rel=0.02)
    assert recommendation.interval.count == 2
    assert "5.6× faster (95% interval 5.4× to 5.8×, 2 pairs)" in verdict_text(recommendation)


def test_the_cost_of_the_recommended_setting_was_observed_until_durable():
    recommendation = advise(sweep())
    for price in (recommendation.price, recommendation.present_price):
        assert (price.durable_s, price.is_durable_predicted) == (31.5, False)


def test_the_least_risky_of_equally_fast_settings_is_recommended():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB * 17 // 10)
    study.tried(CHEAP, 4.05, peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == CHEAP


def test_a_significantly_faster_setting_is_worth_its_price():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB * 17 // 10)
    study.tried(CHEAP, 5.0, peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == DEAR


def test_a_wide_interval_does_not_make_a_slower_setting_as_good():
    """The intervals allow that the cheap one is as fast, but it took a third longer each time."""
    study = Study().candidate(DEAR, 4.0).recheck(DEAR, [3.8, 4.2], peak_dirty_bytes=2 * GIB)
    study.candidate(CHEAP, 5.0).recheck(CHEAP, [5.0, 5.4], peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == DEAR


def test_peaks_that_differ_only_by_sampling_are_the_same_price():
    """The lower ceiling wins then, because a larger pull has less to lose."""
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB)
    study.tried(CHEAP, 4.0, peak_dirty_bytes=GIB * 103 // 100)
    assert advise(study.results).best.setting == CHEAP


def test_the_sooner_durable_of_settings_with_equal_risk_is_recommended():
    study = Study().tried(CHEAP, 4.0, durable_s=40.0)
    study.tried(DEAR, 4.0, durable_s=30.0)
    assert advise(study.results).best.setting == DEAR


def test_the_equally_good_setting_with_fewest_changes_is_recommended():
    """Fewer changes weigh most: one change is preferred to two with less data at risk."""
    one = ratio(80, background=10)
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB)
    study.tried(one, 4.0, peak_dirty_bytes=2 * GIB)
    assert advise(study.results).best.setting == one


@pytest.mark.parametrize(
    ("times_s", "words"),
    [
        ([18.0, 21.0, 20.5], "3 pairs), not distinguishable from the current settings."),
        ([30.0, 31.5, 30.2], "3 pairs), slower than the current settings."),
        ([17.0, 19.0, 18.3], "a gain that may be chance, since the pairs were looked at more"),
    ],
)
def test_no_change_without_a_significant_gain(times_s, words):
    study = Study(present_s=(20.0, 21.0)).candidate(DEAR, 15.0)
    recommendation = advise(study.recheck(DEAR, times_s, present_s=[20.0, 21.0, 20.0]).results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert recommendation.best is None
    assert verdict_text(recommendation).startswith(
        "No change recommended: the best of the settings"
    )
    assert words in verdict_text(recommendation)
    assert recommendation.speedup == 1


def test_a_small_significant_gain_is_not_worth_a_change():
    study = Study().candidate(DEAR, 15.0).recheck(DEAR, [19.5, 19.52, 19.5])
    recommendation = advise(study.results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert "a gain of less than 5%, which is not worth a change" in verdict_text(recommendation)


def test_no_change_when_the_best_is_slow_in_the_recheck():
    def seconds(setting, run):
        lucky = setting.values["vm.dirty_ratio"] == 80 and run == 1
        return 3.0 if lucky else 10.0 + 0.1 * run

    recommendation = advise(sweep(seconds))
    assert recommendation.best is None
    assert "measured again" in verdict_text(recommendation)


def test_no_change_when_the_search_found_nothing_to_recheck():
    recommendation = advise(sweep(lambda setting, run: 10.0 + 0.1 * run))
    assert recommendation.case is Case.NO_DIFFERENCE
    assert "tried took 10.1 s, the current ones took 10.2 s: the gain is too small" in verdict_text(
        recommendation
    )


def test_no_change_when_nothing_else_could_be_measured():
    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] != 20:
            failing("refused")
        return 10.0

    recommendation = advise(sweep(seconds))
    assert recommendation.case is Case.NOTHING_MEASURED
    assert "18 of 18 trials: refused" in verdict_text(recommendation)


def test_no_change_when_no_extra_could_be_measured():
    study = Study()
    for pair in range(2):
        study.add("present", PRESENT, 20.0, pair)
        study.add("recheck", replace(PRESENT, mount_options="noatime"), 0.0, pair, "refused")
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOTHING_MEASURED
    assert "2 of 2 trials: refused" in verdict_text(recommendation)


@pytest.mark.parametrize("kept", [2, 3, 4, 5, 8, 9, 10])
def test_an_unfinished_sweep_recommends_nothing(kept):
    recommendation = advise(sweep(at_most=kept))
    assert recommendation.case is Case.UNFINISHED
    assert "--resume" in verdict_text(recommendation)


def test_a_sweep_that_skipped_everything_requested_is_finished():
    study = Study()
    study.results.left_out.append(LeftOut("queue/read_ahead_kb", "nothing was read"))
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOTHING_MEASURED
    assert "no other setting was tried. All others were left out." in verdict_text(recommendation)


def test_the_noise_is_unknown_when_no_setting_ran_twice():
    assert advise(Study(present_s=(20.0,)).candidate(DEAR, 20.0).results).analysis.noise == Noise(
        0.0, 0
    )


@pytest.mark.parametrize("results", [Results(CIRCUMSTANCES, {}), sweep(at_most=1)])
def test_nothing_is_compared_without_a_valid_run_of_the_current_settings(results):
    """The first run is observed only for its price."""
    with pytest.raises(UsageError, match="current settings") as caught:
        advise(results)
    assert "--resume" in caught.value.hint


def two_prices():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=GIB * 17 // 10, durable_s=31.0)
    return study.tried(CHEAP, 9.0, peak_dirty_bytes=GIB * 9 // 10, durable_s=33.0)


def test_a_limit_excludes_settings_and_reports_what_that_costs():
    recommendation = advise(two_prices().results, Limits(max_at_risk_bytes=GIB))
    assert recommendation.best.setting == CHEAP
    (excluded,) = recommendation.analysis.excluded
    assert excluded.setting == DEAR
    assert objection_text(excluded.why) == "1.70 GiB at risk, more than 1.00 GiB"
    assert note_texts(recommendation)[0].endswith(
        "dirty_ratio=80 dirty_background_ratio=5 took 20% of the current time: "
        "1.70 GiB at risk, more than 1.00 GiB."
    )


@pytest.mark.parametrize(("limit_s", "best"), [(32.0, DEAR), (30.0, None)])
def test_a_limit_on_the_time_to_durable_excludes_settings(limit_s, best):
    recommendation = advise(two_prices().results, Limits(max_durable_s=limit_s))
    assert (recommendation.best.setting if recommendation.best else None) == best
    if best is None:
        assert recommendation.case is Case.NOT_WITHIN_LIMITS
        assert "durable after 31.0 s, later than 30.0 s" in verdict_text(recommendation)


def test_when_no_finalist_keeps_the_limits_the_best_candidate_that_does_is_named():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=2 * GIB)
    study.candidate(CHEAP, 9.0, peak_dirty_bytes=GIB // 2)
    recommendation = advise(study.results, Limits(max_at_risk_bytes=GIB))
    assert recommendation.case is Case.NOT_WITHIN_LIMITS
    assert "dirty_ratio=40 dirty_background_ratio=5 was the fastest, 9.00 s" in verdict_text(
        recommendation
    )


def test_an_unobserved_time_to_durable_keeps_no_limit():
    study = Study().tried(DEAR, 4.0)
    recommendation = advise(study.results, Limits(max_durable_s=60.0))
    assert "its time to durable was not measured" in verdict_text(recommendation)


def test_a_reason_has_the_change_the_cause_the_effect_the_risk_and_when_to_revert():
    dirty, background = reason_texts(advise(sweep(backgrounds=(5, 8))))
    assert (dirty.name, dirty.value, dirty.before, dirty.action) == (
        "vm.dirty_ratio",
        "80",
        "20",
        "set",
    )
    assert (
        "above 614 MiB of dirty pages, 83% of their time; with this value, above" in dirty.mechanism
    )
    assert "above 1.70 GiB, 3% of their time" in dirty.mechanism
    assert dirty.effect.startswith(
        "with all changes together the pull took 17.9% of the current time "
        "(95% interval 17.3% to 18.4%, 2 pairs); in the search, one run each"
    )
    assert "40: 8.75 s, 60: 3.85 s, 80: 3.35 s" in dirty.effect
    assert "kernel panic" in dirty.risk
    assert "1.70 GiB of memory" in dirty.undo
    assert background.effect.startswith("measured together with vm.dirty_ratio; ")
    assert "starts at 205 MiB of dirty pages instead of 410 MiB" in background.mechanism
    assert background.risk == "", "less is left in memory than before"


def test_an_unchanged_value_is_kept_and_not_reverted():
    study = Study().tried(ratio(60, background=10), 4.0)
    _, background = reason_texts(advise(study.results))
    assert (background.action, background.before, background.undo) == ("keep", "", "")
    assert "unchanged: this combination was measured" in background.effect


def test_a_disk_knob_has_its_reason_and_says_what_survives_a_restart():
    setting = replace(DEAR, device=(("queue/nr_requests", "512"),))
    reasons = reason_texts(advise(Study().credited(setting, 4.0).results))
    assert (reasons[-1].name, reasons[-1].value) == ("queue/nr_requests", "512")
    assert "a udev rule" in reasons[-1].undo


def test_a_knob_without_effect_is_reported_and_not_written():
    study = Study().tried(DEAR, 4.0)
    for _ in range(PAIRS):
        study.block({DEAR: 4.0, replace(DEAR, device=(("queue/nr_requests", "512"),)): 4.1})
    recommendation = advise(study.results)
    reason = reason_texts(recommendation)[-1]
    assert (reason.name, reason.value, reason.action) == ("queue/nr_requests", "512", "leave out")
    assert "with it the pull took 102.5% of the time without it" in reason.effect
    assert change_in(recommendation).disk is None


def test_a_sysctl_without_effect_is_not_among_the_values():
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


def test_a_mount_option_without_effect_is_not_recommended():
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


def test_bytes_are_computed_from_the_memory_during_the_measurements():
    """When a sweep begins, its workers and its probes' compiler do not use memory yet."""
    results = sweep()
    before = advise(results)
    later = advise(replace(results, circumstances=circumstances(dirtyable_bytes=5 * GIB)))
    assert later.best.thresholds == before.best.thresholds
    assert later.forms == before.forms
