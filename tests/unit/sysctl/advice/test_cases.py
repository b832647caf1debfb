# SPDX-License-Identifier: Apache-2.0
"""The cases in which a change of settings does not help, each from simulated figures."""

from __future__ import annotations

import pytest

from profiler.report.conclusions import note_texts, span_text, verdict_text
from sysctl.advice.advise import advise
from sysctl.advice.conclusions import Case
from sysctl.evidence.results import LeftOut
from sysctl.evidence.statistics import summarize
from tests.unit.studies import BURST, MIB, Study, course, ratio
from tests.unit.sweeps import GIB

BETTER = ratio(80)


def test_a_device_faster_than_the_source_leaves_nothing_to_gain():
    study = Study(
        stall_share=0.0,
        peak_dirty_bytes=200 * MIB,
        durable_s=20.6,
        split_s={"on CPU": 1.2, "dirty throttling": 0.0},
    )
    recommendation = advise(study.candidate(BETTER, 20.0).results)
    assert recommendation.case is Case.NOTHING_TO_GAIN
    assert verdict_text(recommendation) == (
        "No change recommended: writers never waited: the source delivered 96.0 MiB/s, at most "
        "200 MiB were not yet on the device at any time, and the kernel slows writers down only "
        "from 614 MiB. No write-back setting can help. All data was on the device 20.6 s after the "
        "start: it is as fast as the source."
    )


def test_without_probes_no_waits_are_reported():
    study = Study(stall_share=None, peak_dirty_bytes=200 * MIB)
    verdict = verdict_text(advise(study.results))
    assert "never waited" not in verdict and "dirty throttling" not in verdict


def test_the_time_lost_to_throttling_bounds_the_gain():
    study = Study(stall_share=0.012, peak_dirty_bytes=GIB, durable_s=31.0)
    verdict = verdict_text(advise(study.results))
    assert "writers slept 1.2% of their time in dirty throttling" in verdict
    assert "too little for a write-back setting to save 5% of 20.0 s" in verdict
    assert "as fast as the source" not in verdict


def test_small_files_on_a_volume_with_few_iops_wait_for_the_device():
    study = Study(
        stall_share=0.001,
        bytes=4000 * 16 * 1024,
        objects=4000,
        peak_dirty_bytes=30 * MIB,
        split_s={"waiting for the device": 24.8, "other sleeping": 6.0, "dirty throttling": 0.04},
    )
    recommendation = advise(study.candidate(BETTER, 20.0).results)
    assert recommendation.case is Case.OTHER_WAITS
    assert "writers waited 62% of their time for the device and 0.1%" in verdict_text(
        recommendation
    )
    assert "The 4,000 objects have 16.0 KiB each, and 200 of them arrived per second" in (
        verdict_text(recommendation)
    )
    assert "operations per second (IOPS)" in verdict_text(recommendation)


@pytest.mark.parametrize(("writers", "waited"), [(0, "62%"), (4, "31%"), (2, "62%")])
def test_waits_are_shares_of_the_time_of_all_writer_threads(writers, waited):
    split_s = {"waiting for the device": 24.8, "other sleeping": 0.0, "dirty throttling": 0.04}
    study = Study(stall_share=0.001, writers=writers, split_s=split_s)
    assert f"writers waited {waited} of their time for the device" in verdict_text(
        advise(study.results)
    )


def test_small_files_whose_time_is_outside_write_calls_are_reported_too():
    study = Study(stall_share=0.0, bytes=4000 * 16 * 1024, objects=4000, peak_dirty_bytes=MIB)
    assert "operations per second (IOPS)" in verdict_text(advise(study.results))


def test_throttled_writers_of_small_files_wait_for_write_back():
    study = Study(stall_share=0.7, bytes=4000 * 16 * 1024, objects=4000)
    assert "IOPS" not in verdict_text(advise(study.tried(BETTER, 19.9).results))


SOURCE, DEVICE = 600 * MIB, 60 * MIB


def beyond_memory(burst_bytes):
    """A pull at 600 MiB/s to a device of 60 MiB/s, from a host of 4 GiB."""
    return Study(
        present_s=(burst_bytes / DEVICE, burst_bytes / DEVICE),
        bytes=burst_bytes,
        durable_s=burst_bytes / DEVICE + 10,
        stall_share=1 - DEVICE / SOURCE,
        trace=course(0.05, SOURCE, DEVICE, 614 * MIB, 20.0),
    )


def test_a_burst_far_beyond_memory_gets_the_volume_that_it_needs():
    burst = 40 * GIB
    study = beyond_memory(burst)
    present_s = burst / DEVICE
    study.candidate(BETTER, present_s * 0.93, bytes=burst)
    times_s = [present_s * factor for factor in (0.98, 1.0, 1.01)]
    study.recheck(BETTER, times_s, present_s=[present_s] * 3, bytes=burst)
    recommendation = advise(study.results)
    assert recommendation.case is Case.BEYOND_MEMORY
    assert "the pull of 40.0 GiB does not fit this host's memory" in verdict_text(recommendation)
    assert "while 4.00 GiB can be dirty and the device writes" in verdict_text(recommendation)
    assert rate_in(verdict_text(recommendation), "a volume that writes ") == pytest.approx(
        544, rel=0.01
    )
    assert "to return after 6" in verdict_text(recommendation)
    assert "an instance on which 37.9 GiB can" in verdict_text(recommendation)
    assert "(both predicted, with the best thresholds)" in verdict_text(recommendation)


def test_a_burst_slightly_larger_than_memory_is_beyond_it_too():
    """4.5 GiB into 4 GiB, device at a tenth of the source: writers slow down before it is full.

    Without a background threshold writers are slowed from 2 GiB on, to between once and twice the
    device's rate. With the largest one (4.5 - 4) GiB must be written in the 1.0 s after 4 GiB.
    """
    burst = int(4.5 * GIB)
    study, present_s = beyond_memory(burst), burst / DEVICE
    study.candidate(BETTER, present_s).recheck(BETTER, [present_s] * 3, [present_s] * 3)
    verdict = verdict_text(advise(study.results))
    assert "the pull of 4.50 GiB does not fit this host's memory" in verdict
    assert rate_in(verdict, "a volume that writes ") == pytest.approx(287, rel=0.01)


def rate_in(sentence, before):
    """Return the MiB/s that follow these words."""
    return float(sentence.partition(before)[2].split(" MiB/s")[0])


def test_a_change_with_a_small_gain_reports_what_would_help_more():
    burst = 12 * GIB
    present_s = burst / DEVICE
    study = beyond_memory(burst).candidate(BETTER, present_s * 0.7, bytes=burst)
    study.recheck(BETTER, [present_s * 0.7] * 3, present_s=[present_s] * 3, bytes=burst)
    recommendation = advise(study.results)
    assert recommendation.case is Case.CHANGE
    assert (
        "No thresholds gain more: the pull of 12.0 GiB does not fit"
        in note_texts(recommendation)[0]
    )


def test_a_burst_beyond_memory_is_reported_when_no_higher_threshold_is_left():
    study = beyond_memory(40 * GIB)
    study.results.left_out.append(LeftOut("mount options", "writers did not wait for the device"))
    assert advise(study.results).case is Case.BEYOND_MEMORY


def test_a_burst_that_fits_is_not_beyond_memory():
    study = beyond_memory(BURST).tried(BETTER, 4.0)
    recommendation = advise(study.results)
    assert recommendation.case is Case.CHANGE
    assert note_texts(recommendation) == ()


OTHERS = "others dirtied 212 MiB meanwhile, 11 % of the pull"


def test_invalid_trials_indicate_a_noisy_neighbour():
    study = Study().candidate(BETTER, 19.0)
    for _ in range(3):
        study.add("candidate", ratio(60), 0.0, problem=OTHERS)
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOISE
    assert f"3 of 6 trials were invalid (3 times: {OTHERS})" in verdict_text(recommendation)
    assert "larger --budget" in verdict_text(recommendation)


def test_a_single_invalid_trial_is_not_noise():
    study = Study().candidate(BETTER, 19.0)
    study.add("candidate", ratio(60), 0.0, problem=OTHERS)
    assert advise(study.results).case is not Case.NOISE


def test_current_runs_that_differ_much_are_noise():
    study = Study(present_s=(15.0, 30.0)).candidate(BETTER, 14.0)
    study.recheck(BETTER, [18.0, 24.0, 20.0], present_s=[16.0, 28.0, 22.0])
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOISE
    assert "times under the same settings vary by 22% (standard deviation)" in (
        verdict_text(recommendation)
    )


def test_a_wide_interval_around_1_is_noise_and_a_narrow_one_is_no_difference():
    wide = Study().candidate(BETTER, 10.0).recheck(BETTER, [10.0, 21.0, 26.0])
    narrow = Study().candidate(BETTER, 10.0).recheck(BETTER, [19.8, 20.1, 20.2])
    assert advise(wide.results).case is Case.NOISE
    assert "after 3 pairs even the best-known setting" in verdict_text(advise(wide.results))
    assert advise(narrow.results).case is Case.NO_DIFFERENCE


@pytest.mark.parametrize(
    ("times_s", "text"), [((19.0,), "19.0 s"), ((20.3, 19.0, 20.0), "19.0 s to 20.3 s")]
)
def test_one_run_is_shown_as_a_time_and_several_as_a_range(times_s, text):
    assert span_text(summarize(times_s)) == text


def test_a_gain_beyond_the_noise_is_recommended():
    study = Study(present_s=(15.0, 30.0)).candidate(BETTER, 4.0)
    study.recheck(BETTER, [4.0, 4.4, 4.1], present_s=[16.0, 28.0, 22.0])
    assert advise(study.results).case is Case.CHANGE
