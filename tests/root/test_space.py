"""What a wide sweep finds to try on a real volume of our own, leaving all as it was."""

from __future__ import annotations

import pytest
from sysctl.search.staged import MOUNT

from profiler.space import Place, Space, make_search
from sysctl.host.devices import present_values, read_attribute
from sysctl.host.host import Host
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
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
    return make_search(space, place, present, {"dirtyable_bytes": 2**30})


def test_a_wide_space_has_all_that_the_host_has_and_a_reason_for_what_it_refuses(place):
    search, left_out = search_of(Space(wide=True, strategy="grid"), place)
    tried = {variation.name for variation in search.variations}
    refused = {item.what.partition("=")[0] for item in left_out}
    assert {MOUNT, "vm.dirty_expire_centisecs", "queue/nr_requests"} <= tried
    there = present_values(SYSTEM, place.disk)
    assert {name for name in tried | refused if "/" in name} <= set(there)
    in_force = {(name, there[name]) for name in there}
    assert not in_force & {(v.name, v.value) for v in search.variations}
    assert all(item.why for item in left_out)


def test_every_variation_of_the_disk_can_be_put_in_force_and_taken_back(place):
    search, _ = search_of(Space(wide=True, strategy="grid"), place)
    of_disk = [v for v in search.variations if "/" in v.name]
    assert of_disk
    for variation in of_disk:
        with place.host.temporary():
            place.host.set_device(place.disk, {variation.name: variation.value})
            if variation.name.startswith("queue/"):
                assert read_attribute(SYSTEM, place.disk, variation.name) == variation.value


def test_values_that_this_disk_does_not_take_are_left_out_with_its_reason(place):
    device = {"queue/scheduler": ("nothing-such",), "queue/nr_requests": ("64", "10240")}
    search, left_out = search_of(Space(device=device), place)
    assert [str(setting) for setting in search.core.candidates] == ["queue/nr_requests=64"]
    assert [item.what for item in left_out] == [
        "queue/scheduler=nothing-such",
        "queue/nr_requests=10240",
    ]
    assert "offers the schedulers" in left_out[0].why
    assert "nr_requests" in left_out[1].why


def test_a_mount_in_use_is_left_out_of_a_wide_space_and_refused_by_name(place):
    with open(f"{place.destination}/file", "w"):
        search, left_out = search_of(Space(wide=True, strategy="grid"), place)
        assert MOUNT not in {variation.name for variation in search.variations}
        assert any(item.what == MOUNT and "in use" in item.why for item in left_out)
        with pytest.raises(HostError, match="in use"):
            search_of(Space(mount_options=("noatime",)), place)
