# SPDX-License-Identifier: Apache-2.0
"""Which settings measured in pairs count, which is chosen, and what is reported of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profiler.report.conclusions import note_texts, verdict_text
from profiler.report.reasons import reason_texts
from sysctl.advice.advise import advise
from sysctl.advice.analysis import analyse
from sysctl.advice.conclusions import Case
from sysctl.evidence.price import Limits
from sysctl.knobs.setting import Setting
from sysctl.search.extras import PAIRS, ExtraPairs
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import GIB, PRESENT

CHEAP, DEAR = ratio(60), ratio(80)
WAITS = {"stall_share": 0.5}


def test_only_times_of_pairs_are_compared():
    """The host became slower after the search: earlier current runs do not count."""
    study = Study(present_s=(20.0,) * 8).candidate(CHEAP, 15.0)
    study.recheck(CHEAP, [30.0, 30.2, 29.9], present_s=[40.0, 40.3, 40.0])
    recommendation = advise(study.results)
    assert verdict_text(recommendation).endswith("30.0 s instead of 40.0 s")
    assert (recommendation.present.return_s.count, recommendation.best.return_s.count) == (3, 3)


def test_a_run_whose_counterpart_failed_does_not_count():
    study = Study().tried(CHEAP, 10.0)
    study.add("present", PRESENT, 0.0, pair=9, problem="made up").add(
        "recheck", CHEAP, 10.8, pair=9
    )
    assert advise(study.results).best.return_s.largest < 10.5


def test_every_figure_of_the_report_comes_from_the_same_runs():
    study = Study().candidate(PRESENT, 25.0).tried(CHEAP, 10.0)
    recommendation = advise(study.results)
    shown = {name: point for point in recommendation.trade_off.points for name in point.names}
    for name, side in (("current", recommendation.present), ("recommended", recommendation.best)):
        assert (shown[name].return_s, shown[name].runs) == (
            side.return_s.median,
            side.return_s.count,
        )


def test_a_candidate_equal_to_the_current_settings_is_not_one_of_their_runs():
    study = Study(present_s=(20.0, 20.1)).candidate(PRESENT, 25.0).candidate(CHEAP, 20.0)
    recommendation = advise(study.results)
    (point,) = [p for p in recommendation.trade_off.points if "current" in p.names]
    assert recommendation.present.return_s.count == point.runs == 2


def report_of(setting, study):
    (note,) = [text for text in note_texts(advise(study.results)) if str(setting) in text]
    return note


def test_a_gain_that_chance_may_explain_is_not_called_slower():
    study = Study().candidate(DEAR, 6.0).recheck(DEAR, [6.0, 6.1, 30.0, 30.1, 6.1, 29.0])
    study.tried(CHEAP, 10.4)
    assert advise(study.results).best.setting == CHEAP
    assert report_of(DEAR, study).endswith(
        "6 pairs), not distinguishable from the current settings."
    )


def test_a_small_significant_gain_is_not_called_indistinguishable():
    study = Study().tried(CHEAP, 10.0).candidate(DEAR, 15.0).recheck(DEAR, [19.3, 19.32, 19.31])
    words = "3 pairs), a gain of less than 5%, which is not worth a change."
    assert report_of(DEAR, study).endswith(words)


def test_a_gain_lost_to_repeated_looks_is_not_called_indistinguishable():
    study = Study().tried(CHEAP, 10.0)
    study.candidate(DEAR, 15.0).recheck(DEAR, [18.0, 16.5, 19.5], [20.0, 20.1, 19.9])
    interval = analyse(study.runs, Limits()).comparisons[DEAR].interval
    assert interval.high < 1
    words = "a gain that may be chance, since the pairs were looked at more than once."
    assert report_of(DEAR, study).endswith(words)


def test_a_setting_slower_than_the_current_ones_is_reported_as_slower():
    study = Study().tried(CHEAP, 10.0).tried(DEAR, 30.0)
    assert report_of(DEAR, study).endswith("3 pairs), slower than the current settings.")


def test_a_setting_slower_than_the_fastest_names_the_fastest():
    """The cheapest is recommended; another setting is slower than the fastest."""
    study = Study().tried(DEAR, 6.0, peak_dirty_bytes=2 * GIB)
    study.tried(CHEAP, 6.2, peak_dirty_bytes=GIB).tried(ratio(70), 6.6)
    assert advise(study.results).best.setting == CHEAP
    assert report_of(ratio(70), study).endswith(f"not as fast as {DEAR}.")


# --- as good as the fastest -----------------------------------------------------------------------


def chosen_of_two(dear_s, cheap_s):
    """Return which of two settings that ran in the same blocks is chosen; the second risks less."""
    study = Study()
    for dear, cheap in zip(dear_s, cheap_s):
        study.block({PRESENT: 20.0, DEAR: dear})
        study.results.trials[-1] = replace(
            study.results.trials[-1],
            observation=replace(study.results.trials[-1].valid, peak_dirty_bytes=2 * GIB),
        )
        study.add("recheck", CHEAP, cheap, study.results.trials[-1].pair)
    found = analyse(study.runs, Limits())
    assert {each.setting for each in found.within} == {CHEAP, DEAR}
    return found.preferred_first(found.within)[0].setting


@pytest.mark.parametrize(
    ("dear_s", "cheap_s", "is_as_good"),
    [
        ((4.0, 4.02, 3.98), (4.16, 4.18, 4.14), True),
        ((4.0, 4.02, 3.98), (4.24, 4.26, 4.22), False),
        ((4.0, 4.2, 3.8), (4.32, 4.10, 4.53), True),
        ((4.0, 4.2, 3.8), (4.45, 4.23, 4.67), False),
    ],
    ids=["4 %, certain", "6 %, certain", "8 %, in the noise", "11 %, in the noise"],
)
def test_five_percent_slower_is_as_good_and_ten_if_it_may_be_noise(dear_s, cheap_s, is_as_good):
    assert chosen_of_two(dear_s, cheap_s) == (CHEAP if is_as_good else DEAR)


def test_common_blocks_decide_and_not_the_ratios_to_the_current_settings():
    """The ratio to the current settings makes the second 20 % slower, because its host was."""
    study = Study()
    for factor in (1.0, 1.01, 0.99):
        study.block({PRESENT: 20.0, DEAR: 4.0 * factor}, peak_dirty_bytes=2 * GIB)
        study.block({PRESENT: 20.0, CHEAP: 4.8 * factor})
        study.block({DEAR: 4.0 * factor, CHEAP: 4.0 * factor}, peak_dirty_bytes=GIB)
    assert advise(study.results).best.setting == CHEAP


def test_without_a_common_block_the_ratios_to_the_current_settings_decide():
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=2 * GIB)
    assert advise(study.tried(CHEAP, 4.15).results).best.setting == CHEAP
    study = Study().tried(DEAR, 4.0, peak_dirty_bytes=2 * GIB)
    assert advise(study.tried(CHEAP, 4.3).results).best.setting == DEAR


# --- which finalists count ------------------------------------------------------------------------


def test_more_finalists_need_stronger_evidence():
    alone, together = Study(), Study()
    for time_s in (20.0, 21.0, 19.0):
        alone.block({PRESENT: time_s, CHEAP: 0.82 * time_s})
        others = {ratio(dirty): time_s for dirty in (70, 75, 80)}
        together.block({PRESENT: time_s, CHEAP: 0.82 * time_s, **others})
    assert advise(alone.results).best.setting == CHEAP
    assert advise(together.results).best is None


def test_a_setting_without_pairs_with_the_current_settings_is_not_a_finalist():
    """An extra, for example, is compared with the setting without it."""
    study = Study(present_s=()).recheck(CHEAP, [18.0, 17.6, 18.4], [20.0, 20.4, 19.6])
    for dirty in (70, 75, 80):
        study.block({CHEAP: 18.0, ratio(dirty): 18.0}).block({CHEAP: 18.0, ratio(dirty): 18.0})
    assert list(analyse(study.runs, Limits()).comparisons) == [CHEAP]


# --- extras ---------------------------------------------------------------------------------------

EXTRAS = [
    ({"mount_options": "noatime"}, "mount=noatime"),
    ({"device": (("queue/nr_requests", "512"),)}, "queue/nr_requests"),
    (
        {"sysctls": (*CHEAP.sysctls, ("vm.dirty_expire_centisecs", 500))},
        "vm.dirty_expire_centisecs",
    ),
]
extras = pytest.mark.parametrize(("changed", "name"), EXTRAS, ids=["mount", "disk", "sysctl"])


def compared_with_its_base(setting, saves, pairs=PAIRS):
    """Add a setting twice as fast as the current one, and pairs of it with its extra."""
    study = Study()
    for at in range(pairs):
        study.block({CHEAP: 10.0 / (1 - saves) * (1 + at / 500), setting: 10.0 * (1 + at / 500)})
    return study.tried(setting, 10.0)


@extras
def test_an_extra_that_helps_in_four_pairs_is_recommended(changed, name):
    setting = replace(CHEAP, **changed)
    recommendation = advise(compared_with_its_base(setting, saves=0.1).results)
    assert recommendation.best.setting == setting
    (effect,) = [
        r.effect for r in reason_texts(recommendation) if f"{r.name}" in name or r.value in name
    ]
    assert effect.startswith("with it the pull took 90.0% of the time without it (95% interval ")
    assert effect.endswith("4 pairs)")


@extras
def test_an_extra_gets_no_credit_for_the_gain_of_the_thresholds(changed, name):
    setting = replace(CHEAP, **changed)
    recommendation = advise(compared_with_its_base(setting, saves=0.03).results)
    assert recommendation.case is Case.NO_DIFFERENCE
    assert verdict_text(recommendation).endswith(
        f"3 pairs), but the pairs with and without {name} do not show a gain of 5%."
    )


@extras
def test_a_fast_extra_with_fewer_pairs_is_not_credited(changed, name):
    setting = replace(CHEAP, **changed)
    verdict = verdict_text(
        advise(compared_with_its_base(setting, saves=0.5, pairs=PAIRS - 1).results)
    )
    assert verdict.endswith(
        f"but it was compared without {name} in only 3 pairs, and 4 are needed."
    )


@extras
def test_an_extra_that_ran_only_in_the_search_is_not_credited(changed, name):
    setting = replace(CHEAP, **changed)
    study = Study().candidate(CHEAP, 10.0).tried(setting, 5.0)
    words = f"3 pairs), but it was not measured next to the same settings without {name}."
    assert verdict_text(advise(study.results)).endswith(words)


def test_a_report_with_a_change_says_why_an_extra_does_not_count():
    setting = replace(CHEAP, mount_options="noatime")
    study = compared_with_its_base(setting, saves=0.03).tried(CHEAP, 10.3)
    assert advise(study.results).best.setting == CHEAP
    assert "but the pairs with and without mount=noatime do not show" in report_of(setting, study)


def test_each_of_two_extras_must_be_credited():
    """Only the second one is credited: whether the first one helped is unknown."""
    first = replace(CHEAP, mount_options="noatime")
    both = replace(first, device=(("queue/nr_requests", "512"),))
    study = Study()
    for at in range(PAIRS):
        study.block({first: 12.0 + at / 100, both: 9.0 + at / 100})
    study.tried(both, 9.0)
    assert "but the pairs with and without" in verdict_text(advise(study.results))
    for at in range(PAIRS):
        study.block({CHEAP: 14.0 + at / 100, first: 12.0 + at / 100})
    assert advise(study.results).best.setting == both


def test_many_extras_compared_with_one_setting_need_stronger_evidence():
    setting = replace(CHEAP, mount_options="noatime")
    others = [replace(CHEAP, mount_options=f"logbsize={size}k") for size in (32, 64, 128, 256)]
    alone, beside = Study(), Study()
    for time_s in (10.0, 10.3, 9.7, 10.2):
        alone.block({CHEAP: time_s, setting: 0.92 * time_s})
        beside.block({CHEAP: time_s, setting: 0.92 * time_s, **dict.fromkeys(others, time_s)})
    assert ExtraPairs(alone.runs).credit(setting, CHEAP)
    assert not ExtraPairs(beside.runs).credit(setting, CHEAP)


@pytest.mark.parametrize("peak_dirty_bytes", [GIB // 4, GIB], ids=["below freerun", "above"])
def test_thresholds_are_not_a_cause_if_no_writer_waited(peak_dirty_bytes):
    study = Study(stall_share=0.0, peak_dirty_bytes=peak_dirty_bytes)
    study.tried(CHEAP, 18.0, stall_share=0.0)
    recommendation = advise(study.results)
    assert recommendation.case is Case.NOTHING_TO_GAIN
    assert recommendation.best is None
    assert "but its changes cannot be the reason" in report_of(CHEAP, study)


@pytest.mark.parametrize(("share", "is_one"), [(0.019, False), (0.021, True)])
def test_throttling_is_a_cause_from_two_percent_of_the_writers_time(share, is_one):
    study = Study(stall_share=share).tried(CHEAP, 18.0)
    assert (advise(study.results).best is not None) is is_one


def test_one_current_run_whose_writers_waited_is_enough_for_a_cause():
    study = Study(stall_share=0.0).add("present", PRESENT, 20.0, stall_share=0.3)
    assert advise(study.tried(CHEAP, 18.0).results).best.setting == CHEAP


def test_a_helpful_knob_gives_no_credit_to_thresholds_without_effect():
    setting = replace(CHEAP, mount_options="noatime")
    study = Study(stall_share=0.0).credited(setting, 16.0)
    assert advise(study.results).best is None
    assert "but its thresholds cannot be the reason" in report_of(setting, study)
    alone = Study(stall_share=0.0).credited(Setting((), "noatime"), 16.0)
    assert advise(alone.results).best.setting == Setting((), "noatime")


@pytest.mark.parametrize(
    ("times_s", "words"),
    [
        (
            [18.5, 18.7, 18.3, 19.0, 18.1, 18.9],
            "1.08× faster (95% interval 1.06× to 1.09×, 6 pairs",
        ),
        ([10.0, 10.1, 10.05], "1.99× faster (95% interval 1.97× to 2.01×, 3 pairs"),
        ([4.0, 4.04, 4.02], "5.0× faster (95% interval 4.9× to 5.0×, 3 pairs"),
        ([0.1, 0.1, 0.1], "more than 100× faster (95% interval more than 100× to more than 100×"),
    ],
)
def test_a_small_gain_has_enough_decimals_to_differ_from_none(times_s, words):
    study = Study().candidate(CHEAP, times_s[0]).recheck(CHEAP, times_s)
    assert verdict_text(advise(study.results)).startswith(words)


PERIODIC = "vm.dirty_writeback_centisecs"


@pytest.mark.parametrize(
    ("before", "after", "is_riskier"),
    [(500, 0, True), (500, 1500, True), (500, 100, False), (0, 500, False)],
)
def test_disabling_periodic_write_back_is_the_riskiest(before, after, is_riskier, monkeypatch):
    present = Setting((*PRESENT.sysctls, (PERIODIC, before)))
    monkeypatch.setattr("tests.unit.studies.PRESENT_SETTING", present)
    study = Study(()).add("present", present, 20.0).add("present", present, 20.1)
    setting = Setting((*PRESENT.sysctls, (PERIODIC, after)))
    reasons = reason_texts(advise(study.recheck(setting, [10.0, 10.1, 10.05, 10.02]).results))
    assert bool(reasons[-1].risk) is is_riskier
