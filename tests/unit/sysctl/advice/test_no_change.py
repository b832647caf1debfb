# SPDX-License-Identifier: Apache-2.0
"""The report without a recommended change: it claims what the evidence supports, and no more."""

from __future__ import annotations

import pytest

from profiler.report.conclusions import note_texts, verdict_text
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.evidence.price import Limits
from sysctl.evidence.results import Trial
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import GIB, PRESENT, circumstances

BETTER = ratio(60)


def test_current_runs_that_differ_much_are_noise_without_a_finalist_too():
    study = Study(present_s=(20.0, 30.0)).candidate(BETTER, 18.0).candidate(ratio(40), 19.0)
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOISE
    assert "the same settings vary by 29% (standard deviation)" in verdict_text(recommendation)


def test_contradicting_pairs_are_reported():
    study = Study().candidate(BETTER, 10.0).recheck(BETTER, [2.0, 300.0])
    verdict = verdict_text(advise(study.results))
    assert "from 2% to more than 1,000% of the current time, because the pairs" in verdict


@pytest.mark.parametrize(
    ("throttled_s", "case"), [(20.0, Case.OTHER_WAITS), (35.0, Case.NO_DIFFERENCE)]
)
def test_the_longest_wait_decides_the_verdict_on_small_objects(throttled_s, case):
    split_s = {"waiting for the device": 30.0, "dirty throttling": throttled_s}
    study = Study(stall_share=0.5, split_s=split_s, objects=40000, bytes=40000 * 10000)
    recommendation = advise(study.candidate(BETTER, 20.0).results)
    assert recommendation.case is case
    assert ("operations per second (IOPS)" in verdict_text(recommendation)) is (
        case is Case.OTHER_WAITS
    )


def test_a_sweep_whose_candidates_were_all_stopped_is_reported():
    study = Study()
    study.results.trials.append(Trial("candidate", BETTER, "", None, stopped_s=30.0))
    assert (
        "all settings tried were stopped because they could no longer win, the current ones took "
        "20.0 s to 20.1 s" in verdict_text(advise(study.results))
    )


def test_current_settings_beyond_the_limits_are_not_recommended():
    study = Study(peak_dirty_bytes=3 * GIB).candidate(ratio(10), 21.0, peak_dirty_bytes=GIB // 2)
    recommendation = advise(study.results, Limits(max_at_risk_bytes=GIB))
    assert recommendation.case is Case.PRESENT_BEYOND_LIMITS
    assert verdict_text(recommendation).endswith(
        "the current settings exceed them. Current settings: 3.00 GiB at risk, more than 1.00 GiB. "
        "To stay within your limits: dirty_ratio=10 dirty_background_ratio=5, 512 MiB at risk; it "
        "took 21.0 s (1 run), 105% of the current time."
    )
    assert note_texts(recommendation) == ()


def test_current_runs_of_pairs_count_if_all_others_are_invalid():
    study = Study(present_s=()).add("present", PRESENT, 0.0, problem="made up")
    study.recheck(ratio(10), [21.0, 21.0], peak_dirty_bytes=GIB // 2)
    verdict = verdict_text(advise(study.results, Limits(max_at_risk_bytes=GIB * 3 // 4)))
    assert verdict.endswith("it took 21.0 s (2 runs), 105% of the current time.")


def test_a_sweep_without_a_setting_that_keeps_the_limits_is_reported():
    study = Study(peak_dirty_bytes=3 * GIB).candidate(ratio(10), 21.0, peak_dirty_bytes=2 * GIB)
    limits = Limits(max_at_risk_bytes=GIB)
    remedy = "No other measured setting is within your limits: sweep with them."
    assert verdict_text(advise(study.results, limits)).endswith(remedy)
    study.results.circumstances = circumstances(workers=2, max_at_risk_bytes=GIB)
    assert verdict_text(advise(study.results, limits)).endswith("is within your limits.")


def test_how_to_keep_the_limits_is_reported_with_every_other_reason():
    study = Study(stall_share=0.0, peak_dirty_bytes=GIB)
    study.candidate(ratio(10), 20.0, peak_dirty_bytes=GIB // 4)
    recommendation = advise(study.results, Limits(max_at_risk_bytes=GIB // 2))
    assert recommendation.case is Case.NOTHING_TO_GAIN
    assert note_texts(recommendation)[0].startswith("To stay within your limits: dirty_ratio=10")
