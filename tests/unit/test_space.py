"""What a sweep tries, as far as no host is needed: defaults, the present setting, the budget."""

from __future__ import annotations

import argparse

import pytest

from profiler.cli import argument_types as types
from profiler.space import FINE_VALUES, GRID_VALUES, Space, always_tried
from sysctl.budget import Budget
from sysctl.knobs.vm import BY_NAME
from sysctl.setting import Setting

IN_FORCE = {
    "vm.dirty_ratio": 20,
    "vm.dirty_background_ratio": 10,
    "vm.dirty_expire_centisecs": 3000,
    "vm.dirty_writeback_centisecs": 500,
}


@pytest.mark.parametrize(
    ("space", "strategy", "values"),
    [
        (Space(), "model", FINE_VALUES),
        (Space(strategy="bayes"), "bayes", FINE_VALUES),
        (Space(strategy="grid"), "grid", GRID_VALUES),
        (Space({"vm.dirty_ratio": (40,)}), "grid", {"vm.dirty_ratio": (40,)}),
        (Space({"vm.dirty_ratio": (40,)}, strategy="random"), "random", {"vm.dirty_ratio": (40,)}),
        (Space(mount_options=("noatime",)), "grid", {}),
        (Space(device={"queue/nr_requests": ("64",)}), "grid", {}),
        (Space(wide=True), "model", FINE_VALUES),
    ],
)
def test_the_model_searches_where_no_values_are_given(space, strategy, values):
    assert space.strategy_name == strategy
    assert space.swept_values == values


def test_the_present_setting_names_what_may_be_changed():
    assert set(Space().present(IN_FORCE).values) == {*IN_FORCE}
    named = Space({"vm.dirty_ratio": (40,)}).present(IN_FORCE)
    assert set(named.values) == {"vm.dirty_ratio", "vm.dirty_background_ratio"}
    expire = Space({"vm.dirty_expire_centisecs": (100,)})
    assert expire.present(IN_FORCE).values["vm.dirty_expire_centisecs"] == 3000
    assert set(Space(wide=True).present(IN_FORCE).values) == {*IN_FORCE}


@pytest.mark.parametrize(
    ("space", "present", "expected"),
    [
        (Space(), {"vm.dirty_ratio": 40, "vm.dirty_background_ratio": 10}, True),
        (Space(), {"vm.dirty_bytes": 2**28, "vm.dirty_background_bytes": 2**27}, True),
        (Space(), {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}, False),
        (Space(mount_options=("noatime",)), {"vm.dirty_ratio": 40}, False),
    ],
)
def test_the_kernels_default_is_tried_where_thresholds_are_and_it_is_not_in_force(
    space, present, expected
):
    default = Setting((("vm.dirty_ratio", 20), ("vm.dirty_background_ratio", 10)))
    assert always_tried(space, Setting(tuple(present.items()))) == ((default,) if expected else ())
    assert {n: BY_NAME[n].kernel_default for n in default.values} == default.values


@pytest.mark.parametrize(
    ("text", "budget"),
    [("7", Budget(trials=7)), ("30", Budget(trials=30)), ("20min", Budget(time_s=1200.0))],
)
def test_a_budget_is_trials_or_minutes(text, budget):
    assert types.budget(text) == budget


@pytest.mark.parametrize(
    "text", ["", "0", "6", "0min", "-3", "20 min", "20s", "1.5min", "min", "٣"]
)
def test_what_is_no_budget_is_refused_with_a_sentence(text):
    with pytest.raises(argparse.ArgumentTypeError, match="trials"):
        types.budget(text)
