"""A knob beside the thresholds counts only where its setting was faster than without it."""

from __future__ import annotations

import pytest
from sysctl.choice import finalists
from sysctl.knobs_tried import changed_knobs, is_worth_its_knobs, knob_ratios

from sysctl.evidence import Comparison, Verdict
from sysctl.explain import explain_device
from sysctl.price import price_of
from sysctl.results import CANDIDATE, PRESENT, Observation, Results, Trial
from sysctl.setting import Setting
from sysctl.statistics import Interval
from sysctl.writeback import Thresholds
from tests.unit.sweeps import CONTEXT

GIB = 2**30
NOW = Setting(
    (
        ("vm.dirty_ratio", 20),
        ("vm.dirty_background_ratio", 10),
        ("vm.dirty_writeback_centisecs", 500),
    )
)
BEST = Setting((("vm.dirty_ratio", 60), ("vm.dirty_background_ratio", 10)))
DEEP = Setting(BEST.sysctls, None, (("queue/nr_requests", "64"),))
OFTEN = Setting((*BEST.sysctls, ("vm.dirty_writeback_centisecs", 100)))
PRESENT_OFTEN = Setting((*NOW.sysctls[:2], ("vm.dirty_writeback_centisecs", 100)))


def trial(setting, seconds, role=CANDIDATE):
    seen = Observation(seconds, None, 0.5, GIB, Thresholds(GIB // 2, GIB), GIB, 2 * GIB, 40)
    return Trial(role, setting, "now", seen)


def results_of(**seconds):
    """Present 19.0 and 19.2 s, the best 4.0 s, and others by name."""
    others = {"deep": DEEP, "often": OFTEN, "present_often": PRESENT_OFTEN}
    tried = [trial(others[name], time_s) for name, time_s in seconds.items()]
    present = [trial(NOW, 19.0, PRESENT), trial(NOW, 19.2, PRESENT)]
    return Results(dict(CONTEXT), {}, trials=[*present, trial(BEST, 4.0), *tried])


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        (NOW, []),
        (BEST, []),
        (DEEP, ["queue/nr_requests"]),
        (OFTEN, ["vm.dirty_writeback_centisecs"]),
    ],
)
def test_what_a_setting_changes_beside_the_thresholds(setting, names):
    results = results_of()
    assert changed_knobs(results, setting) == names
    assert price_of(results, setting).changed_options == len(names)


@pytest.mark.parametrize(("time_s", "is_worth"), [(4.2, False), (3.9, False), (3.7, True)])
def test_a_knob_that_does_not_help_is_no_finalist(time_s, is_worth):
    assert knob_ratios(results_of(deep=time_s), DEEP) == [time_s / 4.0]
    for name, setting in (("deep", DEEP), ("often", OFTEN)):
        results = results_of(**{name: time_s})
        assert is_worth_its_knobs(results, setting) is is_worth
        assert (setting in finalists(results)) is is_worth
    assert BEST in finalists(results)


def test_a_knob_varied_around_the_present_settings_is_compared_with_them():
    assert knob_ratios(results_of(present_often=9.6), PRESENT_OFTEN) == [pytest.approx(9.6 / 19.1)]


def test_a_knob_that_was_not_tried_without_is_not_judged():
    alone = Setting((("vm.dirty_ratio", 40),), None, (("queue/nr_requests", "64"),))
    results = results_of()
    results.trials.append(trial(alone, 5.0))
    assert knob_ratios(results, alone) == []
    assert is_worth_its_knobs(results, alone)


def test_the_reason_of_a_knob_of_the_disk_names_what_it_replaces_and_that_no_file_keeps_it():
    results = results_of(deep=3.0)
    results.context["present_device"] = {"queue/nr_requests": "1023"}
    faster = Comparison(Interval(0.16, 0.15, 0.17, 2), 0.01, Verdict.FASTER)
    (reason,) = explain_device(results, DEEP, faster)
    assert (reason.before, reason.value) == ("1023", "64")
    assert "a restart undoes it" in reason.undo
