# SPDX-License-Identifier: Apache-2.0
"""Prices, limits, both forms of a threshold, and the points of the trade-off."""

from __future__ import annotations

import dataclasses

import pytest

from profiler.report.price import objection_text
from profiler.report.tradeoff import missing_texts
from sysctl.advice.analysis import analyse
from sysctl.advice.tradeoff import trade_off
from sysctl.change.forms import forms_of
from sysctl.evidence.comparison import paired_sides
from sysctl.evidence.price import Limits, Price, cheapest, price_of
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import Thresholds, effective_thresholds
from tests.unit.studies import BURST, MIB, Study, course, ratio
from tests.unit.sweeps import GIB, PRESENT


def test_bytes_at_risk_are_the_most_that_any_run_showed():
    study = Study().candidate(ratio(80), 4.0, peak_dirty_bytes=GIB)
    study.candidate(ratio(80), 4.0, peak_dirty_bytes=GIB + MIB, durable_s=30.0)
    price = price_of(study.runs, ratio(80))
    assert (price.at_risk_bytes, price.is_measured) == (GIB + MIB, True)
    assert price.durable_s == 30.0
    assert price.ceiling_bytes == 80 * 4 * GIB // 100


def test_the_run_observed_until_durable_gives_the_price():
    study = Study().tried(ratio(80), 4.0, peak_dirty_bytes=GIB)
    assert price_of(study.runs, ratio(80)).durable_s is None
    study.price(ratio(80), 4.0, durable_s=31.0, peak_dirty_bytes=GIB + MIB)
    price = price_of(study.runs, ratio(80))
    assert (price.at_risk_bytes, price.durable_s) == (GIB + MIB, 31.0)


def test_an_invalid_run_gives_no_price():
    study = Study().tried(ratio(80), 4.0, peak_dirty_bytes=GIB)
    study.price(ratio(80), 4.0, durable_s=31.0, peak_dirty_bytes=2 * GIB)
    study.results.trials[-1] = dataclasses.replace(study.results.trials[-1], problem="made up")
    price = price_of(study.runs, ratio(80))
    assert (price.at_risk_bytes, price.durable_s) == (GIB, None)


@pytest.mark.parametrize(
    ("setting", "count"),
    [
        (PRESENT, 0),
        (ratio(80, background=10), 1),
        (ratio(80), 2),
        (ratio(80, mount_options="noatime,lazytime"), 4),
        (Setting(ratio(80).sysctls, "noatime", (("queue/scheduler", "none"),)), 4),
        (Setting((*ratio(80).sysctls, ("vm.dirty_expire_centisecs", 500))), 3),
        (Setting((("vm.dirty_bytes", GIB), ("vm.dirty_background_ratio", 10))), 1),
    ],
    ids=["none", "one threshold", "both", "two words", "a knob", "another sysctl", "other form"],
)
def test_the_changes_that_a_person_would_make_are_counted(setting, count):
    assert price_of(Study().runs, setting).change_count == count


@pytest.mark.parametrize(("dirty", "bound"), [(80, BURST), (10, 10 * 4 * GIB // 100)])
def test_an_unmeasured_setting_has_the_bound_as_bytes_at_risk(dirty, bound):
    price = price_of(Study().runs, ratio(dirty))
    assert (price.at_risk_bytes, price.is_measured) == (bound, False)


def price(**changes):
    return dataclasses.replace(Price(GIB, True, 2 * GIB, 30.0, 0), **changes)


@pytest.mark.parametrize(
    ("worse", "is_worse"),
    [
        ({"at_risk_bytes": GIB * 11 // 10}, True),
        ({"at_risk_bytes": GIB * 104 // 100}, False),
        ({"durable_s": 40.0}, True),
        ({"durable_s": 31.0}, False),
        ({"durable_s": None}, False),
        ({"change_count": 1}, True),
        ({"ceiling_bytes": 2 * GIB + 1}, True),
    ],
)
def test_one_criterion_after_the_other_decides(worse, is_worse):
    settings = [ratio(60), ratio(80)]
    prices = dict(zip(settings, (price(**worse), price())))
    assert cheapest(prices) == (settings[1:] if is_worse else settings)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"change_count": 1}, {"change_count": 2}),
        ({"at_risk_bytes": GIB}, {"at_risk_bytes": 2 * GIB}),
        ({"durable_s": 30.0}, {"durable_s": 60.0}),
        ({"ceiling_bytes": GIB}, {"ceiling_bytes": 2 * GIB}),
    ],
)
def test_a_weightier_criterion_outweighs_all_that_follow(better, worse):
    last = {
        "change_count": 2,
        "at_risk_bytes": 2 * GIB,
        "durable_s": 60.0,
        "ceiling_bytes": 2 * GIB,
    }
    names = list(last)
    after = names[names.index(*better) + 1 :]
    one = price(**better, **{name: last[name] for name in after})
    other = price(**worse, **{name: last[name] / 2 for name in after})
    assert cheapest({ratio(60): one, ratio(80): other}) == [ratio(60)]


def test_without_limits_nothing_is_objected_to():
    assert Limits().objection(price(durable_s=None)) is None
    assert Limits(GIB, 30.0).objection(price()) is None


def test_a_bound_is_reported_as_one():
    objection = Limits(max_at_risk_bytes=GIB // 2).objection(price(is_measured=False))
    assert objection_text(objection) == "up to 1.00 GiB at risk, more than 512 MiB"


def test_sizes_that_look_equal_are_shown_in_bytes():
    objection = Limits(max_at_risk_bytes=GIB).objection(price(at_risk_bytes=GIB + 1))
    assert objection_text(objection) == "1,073,741,825 bytes at risk, more than 1,073,741,824 bytes"


def test_ratios_become_whole_pages():
    values = {"vm.dirty_ratio": 30, "vm.dirty_background_ratio": 20}
    ratios, sizes = forms_of(values, effective_thresholds(values, 10**10), 10**10)
    assert (ratios.values, ratios.is_measured) == (values, True)
    assert not sizes.is_measured
    assert {name: value % 4096 for name, value in sizes.values.items()} == {
        "vm.dirty_bytes": 0,
        "vm.dirty_background_bytes": 0,
    }
    assert 0 <= sizes.values["vm.dirty_bytes"] - 3 * 10**9 < 4096


def test_bytes_become_the_nearest_percentages_if_there_are_any():
    values = {"vm.dirty_bytes": 3 * GIB, "vm.dirty_background_bytes": GIB}
    ratios, sizes = forms_of(values, Thresholds(GIB, 3 * GIB), 10 * GIB)
    assert ratios.values == {"vm.dirty_ratio": 30, "vm.dirty_background_ratio": 10}
    assert (sizes.values, sizes.is_measured) == (values, True)
    none, _ = forms_of(values, Thresholds(GIB, 3 * GIB), 500 * GIB)
    assert none.values == {}
    assert none.note == "no whole percentage is near 3.00 GiB: 1% is 5.00 GiB on this host"


def compared(study, recommended=None):
    """The trade-off of a study, with the sides of its comparison."""
    analysis = analyse(study.runs, Limits())
    if recommended:
        return trade_off(analysis, *paired_sides(study.runs, recommended))
    return trade_off(analysis, analysis.present)


@pytest.mark.parametrize(
    ("dirty", "background", "size"),
    [
        (400 * MIB, 16 * MIB, "16.0 MiB"),
        (41 * MIB, 20 * MIB, "20.0 MiB"),
        (1024 * MIB, 100 * MIB, "100 MiB"),
        (9 * GIB, GIB, "9.00 GiB"),
    ],
)
def test_each_threshold_must_have_a_percentage_that_means_the_same(dirty, background, size):
    values = {"vm.dirty_bytes": dirty, "vm.dirty_background_bytes": background}
    ratios, _ = forms_of(values, Thresholds(background, dirty), 4 * GIB)
    assert ratios.values == {}
    assert ratios.note.startswith(f"no whole percentage is near {size}:")


def test_two_thresholds_that_round_to_one_percentage_have_none():
    values = {"vm.dirty_bytes": 1030 * MIB, "vm.dirty_background_bytes": 1000 * MIB}
    ratios, _ = forms_of(values, Thresholds(1000 * MIB, 1030 * MIB), 100 * 1000 * MIB)
    assert ratios.values == {}
    assert "both are the same whole percentage" in ratios.note


def test_where_a_setting_mixes_the_forms_each_form_is_whole():
    values = {"vm.dirty_ratio": 60, "vm.dirty_background_bytes": 205 * MIB}
    thresholds = effective_thresholds(values, 4 * GIB)
    ratios, sizes = forms_of(values, thresholds, 4 * GIB)
    assert ratios.values == {"vm.dirty_ratio": 60, "vm.dirty_background_ratio": 5}
    assert set(sizes.values) == {"vm.dirty_bytes", "vm.dirty_background_bytes"}
    assert sizes.values["vm.dirty_background_bytes"] == 205 * MIB
    assert not ratios.is_measured
    assert not sizes.is_measured


def names_of(points):
    return {name: point for point in points for name in point.names}


def test_well_known_settings_that_were_measured_are_marked():
    study = Study().tried(ratio(80), 4.0).candidate(ratio(30, background=20), 12.0)
    points = names_of(compared(study, ratio(80)).points)
    assert points["current"] is points["kernel default"], "the current ones are 20/10"
    assert points["case study 30/20"].setting == ratio(30, background=20)
    assert points["case study 30/20"].runs == 1
    assert points["recommended"].setting == ratio(80)
    assert points["recommended"].runs == 3, "the recheck alone, as in the comparison"


def predictable():
    trace = course(0.05, 600 * MIB, 60 * MIB, 614 * MIB, 15.0)
    return Study(durable_s=31.0, trace=trace)


def test_well_known_settings_not_measured_are_predicted_and_marked():
    found = compared(predictable().tried(ratio(80), 4.0), ratio(80))
    point = names_of(found.points)["case study 30/20"]
    assert found.missing == ()
    assert not point.is_measured
    assert 4.0 < point.return_s < 20.0
    assert point.at_risk_bytes <= 30 * 4 * GIB // 100


def test_what_cannot_be_predicted_is_missing_with_the_reason():
    found = compared(Study())
    assert "case study 30/20" not in names_of(found.points)
    (missing,) = missing_texts(found)
    assert missing.startswith("case study 30/20: neither measured nor predicted, ")


def test_only_settings_that_no_other_beats_are_on_the_front():
    study = Study().candidate(ratio(40), 9.0, peak_dirty_bytes=GIB // 2)
    study.candidate(ratio(60), 10.0, peak_dirty_bytes=GIB)
    study.candidate(ratio(80), 4.0, peak_dirty_bytes=2 * GIB)
    telling = [point.setting for point in compared(study).telling]
    assert telling == [ratio(40), PRESENT, ratio(80)]


def test_a_well_known_setting_with_a_knob_of_the_disk_is_another_one():
    knob = (("queue/scheduler", "none"),)
    defaults, case_study = Setting(PRESENT.sysctls, None, knob), ratio(30, background=20)
    study = Study().candidate(Setting(case_study.sysctls, None, knob), 15.0).tried(defaults, 10.0)
    points = names_of(compared(study, defaults).points)
    assert points["recommended"].names == ("recommended",)
    assert "case study 30/20" not in points


def test_the_points_of_another_mount_are_not_the_well_known_settings():
    words = Setting(PRESENT.sysctls, "noatime")
    points = compared(Study().candidate(words, 19.0)).points
    assert [point.names for point in points if point.setting == words] == [()]
