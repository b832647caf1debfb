# SPDX-License-Identifier: Apache-2.0
"""What a sweep tries: the strategy, its candidates, the extras, and what is left out."""

from __future__ import annotations

import argparse

import pytest

from contracts.shared.errors import UsageError
from profiler.cli import argument_types as types
from profiler.study import space as module
from profiler.study.space import FINE_VALUES, GRID_VALUES, Place, Space, make_search
from sysctl.evidence.circumstances import Circumstances, Node, NodeClass
from sysctl.evidence.price import Limits
from sysctl.host.devices import Disk
from sysctl.host.host import Host
from sysctl.host.mount_table import parse_mountinfo
from sysctl.host.probe import DeviceVerdict, OptionVerdict
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError
from sysctl.search.edge import EdgeSearch, ladders_of
from sysctl.search.extras import MOUNT, Extra
from sysctl.search.grid import Grid
from sysctl.sweep.budget import Budget
from tests.unit.applied_hosts import FilesHost

GIB = 2**30
IN_FORCE = {
    "vm.dirty_ratio": 20,
    "vm.dirty_background_ratio": 10,
    "vm.dirty_expire_centisecs": 3000,
    "vm.dirty_writeback_centisecs": 500,
}


def where(**node):
    """The circumstances of a pull of 2 GiB with 4 GiB that can be dirty."""
    memory = {"available_bytes": 4 * GIB, "dirtyable_bytes": 4 * GIB, **node}
    return Circumstances(NodeClass("xfs", bytes=2 * GIB), Node(**memory))


@pytest.mark.parametrize(
    ("space", "strategy", "values"),
    [
        (Space(), "edge", {}),
        (Space(wide=True), "edge", {}),
        (Space(mount_options=("noatime",), wide=True), "edge", {}),
        (Space(strategy="bayes"), "bayes", FINE_VALUES),
        (Space(strategy="random"), "random", FINE_VALUES),
        (Space(strategy="grid"), "grid", GRID_VALUES),
        (Space({"vm.dirty_ratio": (40,)}), "grid", {"vm.dirty_ratio": (40,)}),
        (Space({"vm.dirty_ratio": (40,)}, wide=True), "grid", {"vm.dirty_ratio": (40,)}),
        (Space({"vm.dirty_ratio": (40,)}, strategy="random"), "random", {"vm.dirty_ratio": (40,)}),
        (Space({"vm.dirty_expire_centisecs": (100,)}), "grid", {}),
        (Space(mount_options=("noatime",)), "grid", {}),
        (Space(device={"queue/nr_requests": ("64",)}), "grid", {}),
    ],
    ids=str,
)
def test_the_edge_is_searched_where_no_thresholds_are_given_and_extras_are_no_candidates(
    space, strategy, values
):
    assert space.strategy_name == strategy
    assert space.swept_values == values


@pytest.mark.parametrize(
    "asked", [{"values": {"vm.dirty_ratio": (40,)}}, {"transfer": ("io_chunksize",)}]
)
def test_the_edge_search_takes_no_candidates(asked):
    with pytest.raises(UsageError, match="chooses thresholds itself") as error:
        Space(strategy="edge", **asked)
    assert "--strategy bayes, random or grid" in error.value.hint


def test_the_present_setting_names_what_may_be_changed():
    thresholds = {"vm.dirty_ratio", "vm.dirty_background_ratio"}
    assert set(Space().present(IN_FORCE).values) == thresholds
    assert set(Space({"vm.dirty_ratio": (40,)}).present(IN_FORCE).values) == thresholds
    expire = Space({"vm.dirty_expire_centisecs": (100,)})
    assert expire.present(IN_FORCE).values["vm.dirty_expire_centisecs"] == 3000
    assert set(Space(wide=True).present(IN_FORCE).values) == {*IN_FORCE}


# --- a search on a host of files ----------------------------------------------------------------

DISK = Disk("loop0", "7:0", "1")
#: Of ext4, less noatime, which is in force.
UNASKED = (Extra(MOUNT, "lazytime,commit=30"),)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An ext4 volume with noatime; this kernel refuses `nobarrier`, this disk 9 requests."""
    system = FilesHost(tmp_path / "root")
    line = "40 22 7:0 / /data rw,noatime - ext4 /dev/loop0 rw"
    on_disk = {"queue/scheduler": "mq-deadline", "queue/nr_requests": "256"}
    monkeypatch.setattr(module, "check_sweepable", lambda *_: None)
    monkeypatch.setattr(module, "present_values", lambda *_: on_disk)
    monkeypatch.setattr(module, "lacking", lambda *_: "")
    monkeypatch.setattr(
        module,
        "judge_options",
        lambda _, fstype, words: [OptionVerdict(w, w != "nobarrier", "refused") for w in words],
    )
    monkeypatch.setattr(
        module,
        "judge_device_values",
        lambda _, disk, values: [
            DeviceVerdict(name, value, "refused" if value == "9" else "")
            for name, chosen in values.items()
            for value in chosen
        ],
    )
    host = Host(tmp_path / "state", "sweep", system)
    return Place(host, "/data", parse_mountinfo(line)[0], DISK)


def made(place, space, limits=None, circumstances=None):
    present = space.present(read_writeback(place.host.system))
    return make_search(space, place, present, limits or Limits(), circumstances or where())


def extras_of(place, space):
    return [(each.name, each.value) for each in made(place, space)[1]]


def test_the_default_space_has_the_ladders_and_the_mount_options_that_nobody_named(place):
    search, extras, left_out = made(place, Space())
    assert search == EdgeSearch(ladders_of(IN_FORCE, 4 * GIB, Limits(), 2 * GIB))
    assert extras == UNASKED
    assert left_out == []


@pytest.mark.parametrize("dirtyable_bytes", [4 * GIB, 3 * GIB])
def test_candidates_are_those_of_the_memory_in_the_results_and_not_of_the_moment(
    place, dirtyable_bytes
):
    """A sweep that is resumed must try the same as before."""
    limits = Limits(max_at_risk_bytes=GIB)
    circumstances = where(dirtyable_bytes=dirtyable_bytes)
    place.host.system.set_memory(8 * GIB)
    search, _, _ = made(place, Space(), limits, circumstances)
    assert search == EdgeSearch(ladders_of(IN_FORCE, dirtyable_bytes, limits, 2 * GIB))
    values = (350 * 2**20, GIB)
    grid, _, left_out = made(place, Space({"vm.dirty_bytes": values}), None, circumstances)
    is_below = dirtyable_bytes == 3 * GIB  # of which the background threshold is 307 MiB
    assert (len(grid.candidates), len(left_out)) == ((2, 0) if is_below else (1, 1))


@pytest.mark.parametrize(
    ("space", "extras"),
    [
        (Space({"vm.dirty_ratio": (40,)}), []),
        (Space(mount_options=("lazytime",)), [(MOUNT, "lazytime")]),
        (
            Space({"vm.dirty_ratio": (40,), "vm.dirty_expire_centisecs": (100, 3000)}),
            [("vm.dirty_expire_centisecs", "100")],
        ),
        (
            Space(device={"queue/nr_requests": ("64", "256", "9")}),
            [("queue/nr_requests", "64")],
        ),
        (
            Space(mount_options=("noatime", "defaults", "noatime,lazytime", "lazytime,nobarrier")),
            [(MOUNT, "defaults"), (MOUNT, "noatime,lazytime"), (MOUNT, "lazytime")],
        ),
    ],
    ids=str,
)
def test_only_named_values_not_in_force_are_extras(place, space, extras):
    found = made(place, space)[1]
    assert [(each.name, each.value) for each in found] == extras
    assert all(each.is_asked_for for each in found)


def test_without_thresholds_the_search_of_named_extras_has_no_candidates(place):
    search, _, left_out = made(place, Space(device={"queue/nr_requests": ("64", "9")}))
    assert search == Grid(())
    assert [item.what for item in left_out] == ["queue/nr_requests=9"]


def test_a_wide_space_has_every_other_knob_and_what_was_named_first(place):
    space = Space({"vm.dirty_expire_centisecs": (100,)}, wide=True)
    search, extras, _ = made(place, space)
    assert isinstance(search, EdgeSearch)
    assert extras[0] == Extra("vm.dirty_expire_centisecs", "100", is_asked_for=True)
    assert not any(each.is_asked_for for each in extras[1:])
    names = [each.name for each in extras[1:]]
    assert {"vm.dirty_writeback_centisecs", "queue/nr_requests", MOUNT} <= set(names)
    assert "vm.dirty_expire_centisecs" not in names, "no other value of what was named"
    assert ("queue/nr_requests", "256") not in [(each.name, each.value) for each in extras]


def test_of_two_knobs_that_set_the_same_limit_a_wide_space_leaves_the_named_one_alone(
    place, monkeypatch
):
    on_disk = {"bdi/max_ratio": "100", "bdi/max_bytes": "0", "bdi/strict_limit": "0"}
    monkeypatch.setattr(module, "present_values", lambda *_: on_disk)
    assert ("bdi/max_ratio", "50") in extras_of(place, Space(wide=True))
    named = Space(device={"bdi/max_bytes": ("1048576",)}, wide=True)
    of_disk = [extra for extra in extras_of(place, named) if extra[0].startswith("bdi/")]
    assert of_disk == [("bdi/max_bytes", "1048576"), ("bdi/strict_limit", "1")]


@pytest.mark.parametrize("wide", [True, False])
def test_a_mount_that_cannot_be_changed_is_an_error_only_with_named_options(
    place, monkeypatch, wide
):
    def refuse(*_):
        raise HostError("/data is in use")

    monkeypatch.setattr(module, "check_sweepable", refuse)
    _, extras, left_out = made(place, Space(wide=wide))
    assert MOUNT not in {each.name for each in extras}
    assert [item.why for item in left_out if item.what == MOUNT] == ["/data is in use"]
    with pytest.raises(HostError, match="in use"):
        made(place, Space(mount_options=("lazytime",), wide=wide))


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (Space({"vm.dirty_ratio": (20,)}), "these are the current settings"),
        (Space({"vm.dirty_ratio": (5,)}), "would use half of dirty"),
        (Space(device={"queue/nr_requests": ("256",)}), "these are the current settings"),
        (Space(mount_options=("noatime",)), "these are the current settings"),
        (Space(mount_options=("nobarrier",)), "mount option nobarrier: refused"),
    ],
    ids=str,
)
def test_the_reason_is_reported_if_there_is_nothing_to_try(place, space, reason):
    with pytest.raises(UsageError, match=f"there is nothing to try: .*{reason}"):
        made(place, space)


def test_where_no_threshold_is_within_the_limit_only_extras_that_were_asked_for_are_tried(place):
    limits = Limits(max_at_risk_bytes=2**20)
    with pytest.raises(UsageError, match=r"no vm\.dirty_ratio keeps at most 1\.00 MiB at risk"):
        made(place, Space(), limits)
    search, extras, _ = made(place, Space(wide=True), limits)
    assert search == EdgeSearch(())
    assert set(UNASKED[0].value.split(",")) <= {each.value for each in extras}


def test_settings_of_the_pull_are_combined_with_the_thresholds(place):
    transfers = [(("max_concurrency", number),) for number in (10, 20)]
    space = Space({"vm.dirty_ratio": (40, 60)}, transfer=("io_chunksize",), strategy="grid")
    present = space.present(IN_FORCE)
    search, extras, _ = make_search(space, place, present, Limits(), where(), transfers)
    assert isinstance(search, Grid)
    assert [(s.values["vm.dirty_ratio"], s.transfer) for s in search.candidates] == [
        (ratio, transfer) for ratio in (40, 60) for transfer in transfers
    ]
    assert extras == ()


# --- the budget ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("8", Budget(trials=8)),
        ("30", Budget(trials=30)),
        ("20min", Budget(time_s=1200.0)),
        ("125s", Budget(time_s=125.0)),
        ("12,20m", Budget(trials=12, time_s=1200.0)),
    ],
)
def test_a_budget_is_trials_or_time_or_both(text, budget):
    assert types.budget(text) == budget


@pytest.mark.parametrize("text", ["", "0", "7", "0min", "-3", "20 min", "7,20m", "1.5", "min", "٣"])
def test_an_invalid_budget_is_refused_with_one_sentence(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"trials|12, 20m or 12,20m"):
        types.budget(text)
