# SPDX-License-Identifier: Apache-2.0
"""What a wide sweep finds to try on a real test volume, without changing anything."""

from __future__ import annotations

import pytest

from profiler.study.space import Place, Space, make_search
from sysctl.evidence.circumstances import Circumstances, Node, NodeClass
from sysctl.evidence.price import Limits
from sysctl.host.devices import present_values, read_attribute
from sysctl.host.host import Host
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.search.edge import EdgeSearch
from sysctl.search.extras import MOUNT, Extra
from sysctl.search.grid import Grid
from tests.root.labs import lab_volume

SYSTEM = System()


@pytest.fixture
def place(tmp_path):
    with lab_volume(tmp_path / "state") as (mount, disk):
        with Host.exclusive("sweep", "test") as host:
            yield Place(host, mount.target, mount, disk)
            assert host.pending() == []
        assert mount_at(SYSTEM.mounts(), mount.target) == mount
        assert [m for m in SYSTEM.mounts() if "/state/probe-" in m.target] == []


def search_of(space, place):
    present = space.present(read_writeback(SYSTEM))
    circumstances = Circumstances(NodeClass("xfs", bytes=2**29), Node(2**30, 2**30))
    return make_search(space, place, present, Limits(), circumstances)


def test_a_wide_space_has_all_that_the_host_has_and_a_reason_for_what_it_refuses(place):
    search, extras, left_out = search_of(Space(wide=True), place)
    assert isinstance(search, EdgeSearch)
    tried = {extra.name for extra in extras}
    refused = {item.what.partition("=")[0] for item in left_out}
    assert {MOUNT, "vm.dirty_expire_centisecs", "queue/nr_requests"} <= tried
    there = present_values(SYSTEM, place.disk)
    assert {name for name in tried | refused if "/" in name} <= set(there)
    assert not set(there.items()) & {(extra.name, extra.value) for extra in extras}
    assert all(item.why for item in left_out)


def test_every_extra_of_the_disk_can_be_put_in_force_and_taken_back(place):
    _, extras, _ = search_of(Space(wide=True), place)
    of_disk = [extra for extra in extras if "/" in extra.name]
    assert of_disk
    for extra in of_disk:
        with place.host.temporary():
            place.host.set_device(place.disk, {extra.name: extra.value})
            if extra.name.startswith("queue/"):
                assert read_attribute(SYSTEM, place.disk, extra.name) == extra.value


def test_values_that_this_disk_does_not_take_are_left_out_with_its_reason(place):
    device = {"queue/scheduler": ("nothing-such",), "queue/nr_requests": ("64", "10240")}
    search, extras, left_out = search_of(Space(device=device), place)
    assert search == Grid(())
    assert extras == (Extra("queue/nr_requests", "64", is_asked_for=True),)
    assert [item.what for item in left_out] == [
        "queue/scheduler=nothing-such",
        "queue/nr_requests=10240",
    ]
    assert "offers the schedulers" in left_out[0].why
    assert "nr_requests" in left_out[1].why


def test_what_is_in_force_already_is_no_extra(place):
    present = present_values(SYSTEM, place.disk)["queue/nr_requests"]
    space = Space(device={"queue/nr_requests": ("64", present)}, mount_options=("noatime",))
    _, extras, _ = search_of(space, place)
    assert [extra.value for extra in extras] == ["64", "noatime"]


def test_a_mount_in_use_is_left_out_of_a_wide_space_and_refused_by_name(place):
    with open(f"{place.destination}/file", "w"):
        _, extras, left_out = search_of(Space(wide=True), place)
        assert MOUNT not in {extra.name for extra in extras}
        assert any(item.what == MOUNT and "in use" in item.why for item in left_out)
        with pytest.raises(HostError, match="in use"):
            search_of(Space(mount_options=("noatime",)), place)
