# SPDX-License-Identifier: Apache-2.0
"""Extras: what is tried besides the thresholds, which pairs credit it, and what cannot matter."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from profiler.report.conclusions import extras_text
from profiler.report.reasons import reason_texts
from sysctl.advice.advise import advise
from sysctl.evidence.comparison import MIN_GAIN, compare
from sysctl.evidence.results import PRESENT, RECHECK, TracePoint
from sysctl.knobs.writeback import Thresholds
from sysctl.search.extras import (
    MOUNT,
    PAIRS,
    Extra,
    ExtraPairs,
    in_one_mount,
    wide_extras,
    worth_trying,
)
from sysctl.search.relevance import skip_reason
from tests.unit.studies import Study, observed, ratio
from tests.unit.sweeps import GIB
from tests.unit.sweeps import PRESENT as NOW

BASE = ratio(60, 10)
BFQ, DEEP = Extra("queue/scheduler", "bfq"), Extra("queue/nr_requests", "256")
RARE, NOATIME = Extra("vm.dirty_writeback_centisecs", "100"), Extra(MOUNT, "noatime")
ALL = (BFQ, DEEP, RARE, NOATIME)


class Blocks(Study):
    """Blocks of runs, each of the settings with the times (s) given for them."""

    def of(self, times_s):
        """`times_s` by setting: the time of each block; None failed."""
        for times in zip(*times_s.values()):
            pair = next(self.pairs)
            for setting, time_s in zip(times_s, times):
                role = PRESENT if setting == NOW else RECHECK
                self.add(role, setting, time_s or 1.0, pair, "" if time_s else "disturbed")
        return self.runs


def times_with(parts, base=BASE, of_base=None, count=PAIRS):
    """Return times with extras as these parts of the base's 5 s, with little scatter."""
    scatter = [0.0, 0.01, -0.01, 0.005, 0.0, 0.01][:count]
    times = {base: [5.0 + each for each in of_base or scatter]}
    return times | {e.of(base): [5.0 * part - s for s in scatter] for e, part in parts.items()}


def paired(*arguments, **options):
    """Blocks of `times_with`."""
    return Blocks().of(times_with(*arguments, **options))


# --- one knob more ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (BFQ, "dirty_ratio=60 dirty_background_ratio=10 queue/scheduler=bfq"),
        (RARE, "dirty_ratio=60 dirty_background_ratio=10 dirty_writeback_centisecs=100"),
        (NOATIME, "dirty_ratio=60 dirty_background_ratio=10 mount=noatime"),
    ],
)
def test_an_extra_changes_one_knob_of_a_setting(extra, text):
    assert str(extra.of(BASE)) == text
    assert extra.is_in(extra.of(BASE)) and not extra.is_in(BASE)


def test_of_one_knob_an_extra_takes_the_place_of_another_value():
    other = Extra(DEEP.name, "64")
    both = other.of(BFQ.of(DEEP.of(BASE)))
    assert both.device == ((DEEP.name, "64"), (BFQ.name, "bfq"))


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        (NOW, []),
        (BASE, []),
        (DEEP.of(BASE), ["queue/nr_requests"]),
        (RARE.of(BASE), ["vm.dirty_writeback_centisecs"]),
        (NOATIME.of(BASE), ["noatime"]),
    ],
    ids=str,
)
def test_changes_of_a_setting_besides_the_thresholds_are_listed(setting, names):
    baseline = Study().runs.baseline
    assert baseline.changed_besides_thresholds(setting) == names
    assert baseline.change_count(setting) == len(names) + (1 if setting != NOW else 0)


# --- what is compared -------------------------------------------------------------------------


def test_at_first_every_extra_is_to_be_compared_with_the_base():
    found = ExtraPairs(Study().runs).judge(BASE, ALL)
    assert found.setting == BASE
    assert found.members == (BASE, *(extra.of(BASE) for extra in ALL))


def test_extras_that_the_base_has_are_not_compared():
    base = NOATIME.of(BASE)
    assert ExtraPairs(Study().runs).judge(base, (NOATIME,)).members == ()
    assert ExtraPairs(Study().runs).judge(base, ALL).members[1:] == tuple(
        extra.of(base) for extra in ALL[:3]
    )


def test_an_extra_that_two_pairs_show_no_faster_is_given_up_and_others_go_on():
    results = paired({BFQ: 1.01, DEEP: 0.98, NOATIME: 0.999}, count=2)
    members = ExtraPairs(results).judge(BASE, (BFQ, DEEP, NOATIME)).members
    assert members == (BASE, DEEP.of(BASE), NOATIME.of(BASE))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_fewer_than_four_pairs_credit_nothing(count):
    results = paired({BFQ: 0.5}, count=count)
    assert ExtraPairs(results).credit(BFQ.of(BASE), BASE) is None
    assert ExtraPairs(results).judge(BASE, (BFQ,)).members == (BASE, BFQ.of(BASE))


def test_an_extra_that_four_pairs_show_is_in_the_setting_and_the_comparing_ends():
    found = ExtraPairs(paired({BFQ: 0.9})).judge(BASE, (BFQ,))
    assert (found.setting, found.members) == (BFQ.of(BASE), ())


@pytest.mark.parametrize("part", [1.0, 0.96, 1 / (1 + MIN_GAIN) + 0.001])
def test_a_significant_gain_below_five_percent_is_not_credited(part):
    results = paired({BFQ: part})
    assert compare(results, BFQ.of(BASE), BASE).interval.high < 1 or part == 1.0
    found = ExtraPairs(results).judge(BASE, (BFQ,))
    assert (found.setting, found.members) == (BASE, ())


def test_a_gain_that_may_be_chance_is_not_credited():
    results = paired({BFQ: 0.9}, of_base=[1.5, -1.0, 1.0, -0.5])
    assert ExtraPairs(results).judge(BASE, (BFQ,)).setting == BASE


def test_the_error_is_shared_among_the_extras_compared():
    """What four pairs credit of one extra they do not of one among eight."""
    knobs = [Extra("queue/nr_requests", str(number)) for number in range(64, 71)]
    restless = [0.33, -0.2, 0.07, 0.13]
    alone = paired({BFQ: 0.91}, of_base=restless)
    among = paired({BFQ: 0.91, **dict.fromkeys(knobs, 1.0)}, of_base=restless)
    assert ExtraPairs(alone).credit(BFQ.of(BASE), BASE)
    assert ExtraPairs(among).credit(BFQ.of(BASE), BASE) is None


def test_of_several_the_best_stays_and_the_others_are_compared_with_it_in_force():
    found = ExtraPairs(paired({BFQ: 0.9, DEEP: 0.8, RARE: 0.85, NOATIME: 1.0})).judge(BASE, ALL)
    best = DEEP.of(BASE)
    assert found.setting == best
    assert found.members == (best, BFQ.of(best), RARE.of(best))


def test_two_that_help_together_are_both_in_the_setting():
    best = DEEP.of(BASE)
    study = Blocks()
    study.of(times_with({BFQ: 0.9, DEEP: 0.8}))
    study.of({best: [4.0, 4.01, 3.99, 4.0], BFQ.of(best): [3.6, 3.59, 3.61, 3.6]})
    both = ExtraPairs(study.runs).judge(BASE, (BFQ, DEEP))
    assert (both.setting, both.members) == (BFQ.of(best), ())
    assert ExtraPairs(study.runs).not_counted(BFQ.of(best)) is None
    assert ExtraPairs(study.runs).own_interval(BFQ.of(best), BFQ.name).estimate == pytest.approx(
        0.9, 0.01
    )
    assert ExtraPairs(study.runs).own_interval(BFQ.of(best), DEEP.name) is None


def test_two_that_do_the_same_are_not_both_in_the_setting():
    best = DEEP.of(BASE)
    study = Blocks()
    study.of(times_with({BFQ: 0.9, DEEP: 0.8}))
    study.of({best: [4.0, 4.01], BFQ.of(best): [4.01, 4.02]})
    assert ExtraPairs(study.runs).judge(BASE, (BFQ, DEEP)).setting == best


def test_of_two_values_of_a_knob_the_better_one_is_taken_alone():
    other = Extra(DEEP.name, "64")
    found = ExtraPairs(paired({DEEP: 0.9, other: 0.8})).judge(BASE, (DEEP, other))
    assert (found.setting, found.members) == (other.of(BASE), ())


@pytest.mark.parametrize(("base_s", "extra_s"), [(5.0, None), (None, 5.0)])
def test_an_extra_that_never_has_a_pair_is_given_up_after_two_blocks(base_s, extra_s):
    with_it = BFQ.of(BASE)
    results = Blocks().of({BASE: [base_s], with_it: [extra_s]})
    assert ExtraPairs(results).judge(BASE, (BFQ,)).members == (BASE, with_it)
    results = Blocks().of({BASE: [base_s] * 2, with_it: [extra_s] * 2})
    assert ExtraPairs(results).judge(BASE, (BFQ,)).members == ()


def test_an_extra_whose_runs_fail_again_and_again_is_given_up():
    with_it = BFQ.of(BASE)
    results = Blocks().of({BASE: [5.0] * 7, with_it: [4.9] + [None] * 6})
    assert ExtraPairs(results).judge(BASE, (BFQ,)).members == (BASE, with_it)
    results = Blocks().of({BASE: [5.0] * 8, with_it: [4.9] + [None] * 7})
    assert ExtraPairs(results).judge(BASE, (BFQ,)).members == ()


def test_extras_that_do_nothing_are_credited_as_seldom_as_the_error_says():
    """In 0.5 % of the sweeps at most: runs scatter by 5 %, so a mean gain of 5 % is no rarity."""
    dice = random.Random(1)
    credited = 0
    for _ in range(400):
        runs = [[5.0 * dice.lognormvariate(0, 0.05) for _ in range(PAIRS)] for _ in range(2)]
        results = Blocks().of({BASE: runs[0], BFQ.of(BASE): runs[1]})
        credited += ExtraPairs(results).credit(BFQ.of(BASE), BASE) is not None
    assert credited <= 6


# --- what is said of a setting with extras ----------------------------------------------------


def test_a_setting_without_extras_needs_no_credit():
    assert ExtraPairs(paired({BFQ: 1.0})).not_counted(BASE) is None


def test_why_an_extra_is_not_credited():
    pairs = ExtraPairs(paired({BFQ: 1.0, NOATIME: 0.9}))
    assert extras_text(pairs.not_counted(BFQ.of(BASE))) == (
        "the pairs with and without queue/scheduler do not show a gain of 5%"
    )
    assert pairs.not_counted(NOATIME.of(BASE)) is None
    alone = NOATIME.of(ratio(75, 10))
    assert extras_text(pairs.not_counted(alone)) == (
        "it was not measured next to the same settings without mount=noatime"
    )


def test_an_extra_on_top_of_one_that_is_not_credited_is_not_either():
    first, both = BFQ.of(BASE), DEEP.of(BFQ.of(BASE))
    study = Blocks()
    study.of({BASE: [5.0, 5.01, 4.99, 5.0], first: [5.0, 5.01, 4.99, 5.0]})
    study.of({first: [5.0, 5.01, 4.99, 5.0], both: [4.0, 4.01, 3.99, 4.0]})
    assert ExtraPairs(study.runs).credit(both, first)
    assert "do not show a gain" in extras_text(ExtraPairs(study.runs).not_counted(both))


@pytest.mark.parametrize(
    "other", [ratio(75, 10), replace(BASE, transfer=(("max_concurrency", 20),))], ids=str
)
def test_a_setting_that_differs_in_more_than_the_extra_is_not_its_base(other):
    study = Blocks()
    study.of({other: [5.0, 5.01, 4.99, 5.0], BFQ.of(BASE): [4.0, 4.01, 3.99, 4.0]})
    assert "was not measured next to" in extras_text(
        ExtraPairs(study.runs).not_counted(BFQ.of(BASE))
    )


def test_runs_in_other_blocks_are_not_a_base():
    study = Blocks()
    study.of({NOW: [20.0] * 4, BFQ.of(BASE): [4.0, 4.01, 3.99, 4.0]})
    study.of({NOW: [20.0] * 4, BASE: [5.0, 5.01, 4.99, 5.0]})
    assert "was not measured next to" in extras_text(
        ExtraPairs(study.runs).not_counted(BFQ.of(BASE))
    )


def test_an_extra_of_the_present_settings_is_compared_with_them():
    with_it = NOATIME.of(NOW)
    results = Blocks().of({NOW: [20.0, 20.1, 19.9, 20.0], with_it: [18.0, 18.1, 17.9, 18.0]})
    assert ExtraPairs(results).judge(NOW, (NOATIME,)).setting == with_it
    assert ExtraPairs(results).own_interval(with_it, MOUNT).estimate == pytest.approx(0.9, rel=0.01)
    assert ExtraPairs(results).not_counted(with_it) is None


def test_the_reason_of_a_knob_of_the_disk_names_what_it_replaces_and_that_no_file_keeps_it():
    study = Study(context={"present_device": {"queue/nr_requests": "1023"}})
    found = advise(study.credited(DEEP.of(BASE), 4.0).results)
    (reason,) = [each for each in reason_texts(found) if each.name == DEEP.name]
    assert (reason.before, reason.value) == ("1023", "256")
    assert "80.0% of the time without it" in reason.effect and "4 pairs" in reason.effect
    assert "a restart reverts it" in reason.undo


# --- what is worth trying ---------------------------------------------------------------------

SPLIT = {"dirty throttling": 8.0, "waiting for the device": 0.0, "on CPU": 2.0}
CALM = {
    "stall_share": 0.001,
    "peak_dirty_bytes": GIB // 4,
    "thresholds": Thresholds(GIB // 2, GIB),
    "split_s": {"dirty throttling": 0.0, "on CPU": 2.0},
}


def run_of_base(**changes):
    """Present runs and one of the base, by two workers, of 5 s: writers have 10 s."""
    fields = {"stall_share": 0.5, "split_s": SPLIT, **changes}
    return Study().candidate(BASE, 5.0, **fields).runs


def asked(extra):
    return Extra(extra.name, extra.value, is_asked_for=True)


def test_named_extras_are_tried_and_others_only_if_writers_wait_for_something_else():
    kept, left_out = worth_trying(run_of_base(), BASE, [NOATIME, asked(BFQ)])
    assert kept == [asked(BFQ)]
    [reason] = left_out
    assert reason.what == MOUNT
    assert "waited for the device for 0.0% of their time" in reason.why
    assert "reasons other than dirty throttling for 0.0%" in reason.why


@pytest.mark.parametrize("cause", ["waiting for the device", "other sleeping"])
@pytest.mark.parametrize(("waited_s", "is_tried"), [(0.19, False), (0.2, True)])
def test_from_two_percent_of_the_writers_time_on_a_wait_makes_extras_worth_trying(
    cause, waited_s, is_tried
):
    results = run_of_base(split_s={**SPLIT, cause: waited_s})
    kept, left_out = worth_trying(results, BASE, [NOATIME, DEEP])
    assert kept == ([NOATIME, DEEP] if is_tried else [])
    assert [item.what for item in left_out] == ([] if is_tried else [MOUNT, DEEP.name])


def test_where_no_wait_is_known_extras_are_tried():
    assert worth_trying(run_of_base(split_s={}), BASE, [NOATIME]) == ([NOATIME], [])


def test_an_extra_without_influence_is_tried_only_if_named():
    results = run_of_base(**CALM, device_read_bytes=0)
    extras = [BFQ, DEEP, Extra("queue/read_ahead_kb", "64")]
    kept, left_out = worth_trying(results, BASE, extras)
    assert kept == []
    assert [item.what for item in left_out] == [each.name for each in extras]
    assert all(item.why for item in left_out)
    named = [asked(each) for each in extras]
    assert worth_trying(results, BASE, named) == (named, [])


def test_of_two_values_of_a_knob_the_reason_is_given_once():
    _, left_out = worth_trying(run_of_base(), BASE, [DEEP, Extra(DEEP.name, "64")])
    assert [item.what for item in left_out] == [DEEP.name]


def test_without_a_run_of_the_base_nothing_is_known_of_extras():
    assert worth_trying(Study().runs, BASE, [asked(BFQ), NOATIME]) == ([], [])


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("bdi/max_ratio", {}, ""),
        ("bdi/max_ratio", CALM, "throttling begins at 768"),
        ("bdi/max_bytes", CALM, "0.1% of their time"),
        ("bdi/strict_limit", CALM, "at most 256"),
        ("bdi/max_ratio", {**CALM, "peak_dirty_bytes": GIB}, ""),
        ("vm.dirty_expire_centisecs", CALM, ""),
        ("queue/scheduler", {}, ""),
        ("queue/scheduler", CALM, "waited for the device for 0.0%"),
        ("queue/nr_requests", {**CALM, "split_s": {"waiting for the device": 1.0}}, ""),
        ("queue/wbt_lat_usec", {**CALM, "split_s": {}}, ""),
        ("queue/read_ahead_kb", {}, ""),
        ("queue/read_ahead_kb", {"device_read_bytes": 4096}, "4.00 KiB was read"),
        ("queue/read_ahead_kb", {"device_read_bytes": GIB}, ""),
        (MOUNT, CALM, ""),
    ],
)
def test_only_extras_without_influence_are_left_out(name, changes, says):
    seen = observed(10.0, **{"stall_share": 0.5, "split_s": SPLIT, **changes})
    reason = skip_reason(Study().runs, name, seen)
    assert (says in reason) if says else reason is None


@pytest.mark.parametrize(
    ("trace", "return_s", "reason"),
    [
        (
            ((1.0, 0), (2.5, GIB)),
            20.0,
            "write-back began after 2.50 s, at the background threshold",
        ),
        (((1.0, 0), (7.0, GIB)), 20.0, ""),
        (((1.0, 0), (4.0, 0)), 4.5, "no page was 5.00 s old before the pull returned"),
        ((), 9.0, ""),
    ],
)
def test_periodic_write_back_is_tried_where_it_may_come_first(trace, return_s, reason):
    points = tuple(TracePoint(time_s, held, 0) for time_s, held in trace)
    seen = observed(return_s, trace=points)
    said = skip_reason(Study().runs, "vm.dirty_expire_centisecs", seen)
    assert said.startswith(reason) if reason else said is None


# --- every other knob -------------------------------------------------------------------------


def test_the_default_space_tries_mount_options_as_one():
    every = wide_extras({"vm.dirty_expire_centisecs": 3000}, {}, "xfs", ("noatime",))
    assert in_one_mount(every)[-1] == Extra(MOUNT, "lazytime,logbsize=256k")
    assert [each for each in in_one_mount(every) if each.name != MOUNT] == [
        each for each in every if each.name != MOUNT
    ]
    assert in_one_mount(every[:1]) == every[:1]


def test_a_wide_sweep_tries_every_value_not_in_force():
    present = {"vm.dirty_expire_centisecs": 3000, "vm.dirty_writeback_centisecs": 500}
    disk = {"queue/scheduler": "none", "queue/nr_requests": "128"}
    every = wide_extras(present, disk, "xfs", ("noatime",))
    assert [f"{each.name}={each.value}" for each in every] == [
        "vm.dirty_expire_centisecs=500",
        "vm.dirty_writeback_centisecs=100",
        "queue/scheduler=mq-deadline",
        "queue/nr_requests=64",
        "queue/nr_requests=256",
        "mount options=lazytime",
        "mount options=logbsize=256k",
    ]
    assert not any(each.is_asked_for for each in every)
