"""Which of the settings measured again count, and what is said of those that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sysctl.advise import advise
from sysctl.cases import Case
from sysctl.setting import Setting
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import GIB, PRESENT

CHEAP, DEAR = ratio(60), ratio(80)
WAITS = {"stall_share": 0.5}


def test_the_times_compared_are_those_of_the_pairs():
    """A host that became slower after the search: its present runs before are no part of them."""
    study = Study(present_s=(20.0,) * 8).candidate(CHEAP, 15.0)
    study.recheck(CHEAP, [30.0, 30.2, 29.9], present_s=[40.0, 40.3, 40.0])
    recommendation = advise(study.results)
    assert recommendation.verdict.endswith("30.0 s instead of 40.0 s")
    assert (recommendation.present.return_s.count, recommendation.best.return_s.count) == (3, 3)


def test_a_run_whose_other_side_failed_is_no_part_of_them():
    study = Study().tried(CHEAP, 10.0)
    study.add("present", PRESENT, 0.0, pair=9, problem="made up").add(
        "recheck", CHEAP, 19.0, pair=9
    )
    assert advise(study.results).best.return_s.largest < 11


def test_every_figure_of_the_report_is_of_the_same_runs():
    study = Study().candidate(PRESENT, 25.0).tried(CHEAP, 10.0)
    recommendation = advise(study.results)
    shown = {name: point for point in recommendation.trade_off.points for name in point.names}
    for name, side in (("present", recommendation.present), ("recommended", recommendation.best)):
        assert (shown[name].return_s, shown[name].runs) == (
            side.return_s.median,
            side.return_s.count,
        )


def test_a_candidate_that_equals_the_present_settings_is_none_of_its_runs():
    study = Study(present_s=(20.0, 20.1)).candidate(PRESENT, 25.0).candidate(CHEAP, 20.0)
    recommendation = advise(study.results)
    (point,) = [p for p in recommendation.trade_off.points if "present" in p.names]
    assert recommendation.present.return_s.count == point.runs == 2


def said_of(setting, study):
    (note,) = [text for text in advise(study.results).notes if str(setting) in text]
    return note


def test_a_faster_one_that_chance_may_explain_is_not_called_slower():
    study = Study().candidate(DEAR, 6.0).recheck(DEAR, [6.0, 6.1, 6.05, 30.0, 6.1, 29.0])
    study.tried(CHEAP, 10.4)
    assert advise(study.results).best.setting == CHEAP
    assert said_of(DEAR, study).endswith("6 pairs), not distinguishable from the present settings.")


def test_one_that_is_slower_than_the_present_settings_is_said_to_be():
    study = Study().tried(CHEAP, 10.0).tried(DEAR, 30.0)
    assert said_of(DEAR, study).endswith("3 pairs), slower than the present settings.")


def test_one_that_is_as_fast_as_the_recommended_one_names_what_it_lost_to():
    """Within reach of the fastest by its estimate, but beyond doubt slower."""
    study = Study().tried(DEAR, 6.0, peak_dirty_bytes=2 * GIB)
    study.candidate(CHEAP, 6.2).recheck(CHEAP, [6.0, 6.25, 6.5], peak_dirty_bytes=GIB)
    study.candidate(ratio(70), 6.1).recheck(ratio(70), [6.150, 6.151, 6.152])
    assert advise(study.results).best.setting == CHEAP
    assert said_of(ratio(70), study).endswith(f"not as fast as {DEAR}.")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mount_options": "noatime"}, "its mount options made no difference"),
        ({"device": (("queue/nr_requests", "512"),)}, "queue/nr_requests made no difference"),
    ],
)
def test_a_part_that_made_no_difference_is_not_recommended_for_want_of_another(changed, words):
    setting = replace(CHEAP, **changed)
    study = (
        Study().candidate(CHEAP, 10.0).candidate(setting, 9.8).recheck(setting, [9.4, 9.45, 9.42])
    )
    recommendation = advise(study.results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert recommendation.verdict.endswith(f"3 pairs), but {words}.") or (
        f"but {words} at the same sysctls." in recommendation.verdict
    )


def test_beside_a_change_it_is_told_why_it_does_not_count():
    setting = replace(CHEAP, mount_options="noatime")
    study = Study().tried(CHEAP, 10.0).candidate(setting, 9.4).recheck(setting, [9.8, 9.85, 9.82])
    assert advise(study.results).best.setting == CHEAP
    assert "but its mount options made no difference" in said_of(setting, study)


@pytest.mark.parametrize("peak_dirty_bytes", [GIB // 4, GIB], ids=["below freerun", "above"])
def test_thresholds_are_no_cause_where_no_writer_waited(peak_dirty_bytes):
    study = Study(stall_share=0.0, peak_dirty_bytes=peak_dirty_bytes)
    study.tried(CHEAP, 18.0, stall_share=0.0)
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOTHING_TO_GAIN
    assert recommendation.best is None
    assert "but nothing that it changes took part" in said_of(CHEAP, study)


def test_one_present_run_whose_writers_waited_is_enough_for_a_cause():
    study = Study(stall_share=0.0).add("present", PRESENT, 20.0, stall_share=0.3)
    assert advise(study.tried(CHEAP, 18.0).results).best.setting == CHEAP


def test_another_knob_beside_thresholds_that_took_no_part_may_be_the_cause():
    setting = replace(CHEAP, mount_options="noatime")
    study = Study(stall_share=0.0).tried(setting, 18.0)
    assert advise(study.results).best.setting == setting


@pytest.mark.parametrize(
    ("times_s", "words"),
    [
        (
            [18.5, 18.7, 18.3, 19.9, 18.1, 18.9],
            "1.08× faster (95% interval 1.01× to 1.10×, 6 pairs",
        ),
        ([10.0, 10.1, 10.05], "1.99× faster (95% interval 1.97× to 2.01×, 3 pairs"),
        ([4.0, 4.04, 4.02], "5.0× faster (95% interval 4.9× to 5.0×, 3 pairs"),
        ([0.1, 0.1, 0.1], "more than 100× faster (95% interval more than 100× to more than 100×"),
    ],
)
def test_a_small_gain_has_the_decimals_that_tell_it_from_none(times_s, words):
    study = Study().candidate(CHEAP, times_s[0]).recheck(CHEAP, times_s)
    assert advise(study.results).verdict.startswith(words)


PERIODIC = "vm.dirty_writeback_centisecs"


@pytest.mark.parametrize(
    ("before", "after", "is_riskier"),
    [(500, 0, True), (500, 1500, True), (500, 100, False), (0, 500, False)],
)
def test_no_periodic_write_back_is_riskier_than_any(before, after, is_riskier, monkeypatch):
    present = Setting((*PRESENT.sysctls, (PERIODIC, before)))
    monkeypatch.setattr("tests.unit.studies.PRESENT_SETTING", present)
    study = Study(()).add("present", present, 20.0).add("present", present, 20.1)
    setting = Setting((*PRESENT.sysctls, (PERIODIC, after)))
    reasons = advise(study.tried(setting, 10.0).results).reasons
    assert bool(reasons[-1].risk) is is_riskier
