# SPDX-License-Identifier: Apache-2.0
"""Settings for a while: all of them or none, and what cannot be set is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.shared.errors import UsageError
from sysctl.apply.temporary import TemporaryLimits, check_in_force, perform, plan, settings_of
from sysctl.change.recommendation import DiskAdvice, KnobAdvice, MountAdvice
from sysctl.host.holding import holding
from sysctl.host.system import HostError
from tests.unit.sysctl.apply.test_apply import CHANGE, SYSCTLS
from tests.unit.sysctl.host.test_holding import ProcessesHost

NONE = TemporaryLimits()
GIB = 2**30
SCHEDULER = KnobAdvice("queue/scheduler", "none", "", "")


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return ProcessesHost(tmp_path / "root")


def test_values_are_planned_with_what_they_replace(system):
    planned = plan(system, {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 10}, NONE)
    assert planned.before == {"vm.dirty_ratio": "20"} and planned.during == {"vm.dirty_ratio": "80"}
    of_bytes = plan(system, {"vm.dirty_bytes": 2 * GIB}, NONE)
    assert of_bytes.before == {"vm.dirty_bytes": "vm.dirty_ratio = 20"}


@pytest.mark.parametrize(
    "values",
    [
        {"vm.dirty_ratio": 10},
        {"vm.dirty_ratio": 5},
        {"vm.dirty_background_ratio": 20},
        {"vm.dirty_bytes": 2**20},
        {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 80},
    ],
)
def test_a_background_that_is_not_below_is_refused(system, values):
    with pytest.raises(UsageError, match="background must be below dirty"):
        plan(system, values, NONE)


def test_more_at_risk_than_allowed_is_refused(system):
    limits = TemporaryLimits(max_at_risk_bytes=GIB)  # of 4 GiB
    assert plan(system, {"vm.dirty_ratio": 24}, limits).sysctls == {"vm.dirty_ratio": 24}
    with pytest.raises(HostError, match=r"up to 3.20 GiB would be at risk .*more than 1.00 GiB"):
        plan(system, {"vm.dirty_ratio": 80}, limits)
    with pytest.raises(HostError, match=r"up to 2.40 GiB would be at risk"):
        plan(system, SYSCTLS, limits)
    check_in_force(system, limits)
    system.write("/proc/sys/vm/dirty_ratio", "80")
    with pytest.raises(HostError, match=r"would be at risk"):
        check_in_force(system, limits)


def test_a_recommendation_is_set_and_restored_whole(system):
    system.start(1, ticks=5)
    before, planned = system.state(), []

    def change(host):
        planned.append(plan(system, CHANGE, NONE))
        perform(host, planned[0])

    with holding(settings_of(CHANGE), "`job`", change, system) as hold:
        during = system.state()
        assert (during["dirty_ratio"], during["dirty_background_ratio"]) == (60, 5)
        assert during["scheduler"].startswith("[none]")
        assert "noatime" in during["mounts"][0].options
    assert system.state() == before and system.invalid == []
    assert len(hold.restored) == 3
    assert set(planned[0].during) == {
        *("vm.dirty_ratio", "vm.dirty_background_ratio"),
        *("queue/scheduler", "mount /data"),
    }


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            replace(CHANGE, mount=replace(CHANGE.mount, target="/gone")),
            "mount options noatime: nothing is mounted on /gone",
        ),
        (
            replace(
                SYSCTLS,
                disk=DiskAdvice(
                    "/gone", "/dev/x", (KnobAdvice("queue/scheduler", "none", "", ""),)
                ),
            ),
            "queue/scheduler: nothing is mounted on /gone",
        ),
        (
            replace(
                SYSCTLS,
                mount=MountAdvice("/data", "/dev/loop0", "ext4", ("data=writeback",), (), (), ""),
            ),
            "a remount of /data cannot set data=writeback",
        ),
    ],
)
def test_what_cannot_be_set_and_undone_is_refused_by_name(system, change, named):
    before = system.state()
    with pytest.raises(HostError, match=named):
        plan(system, change, NONE)
    assert system.state() == before


def test_what_was_not_measured_on_such_a_host_must_be_accepted(system):
    system.set_memory(2**34)
    with pytest.raises(UsageError) as refused:
        plan(system, SYSCTLS, NONE)
    assert "--yes-unmeasured" in refused.value.hint
    accepted = plan(system, SYSCTLS, TemporaryLimits(unmeasured=True))
    assert "vm.dirty_bytes" in accepted.sysctls
    same = plan(system, SYSCTLS, TemporaryLimits(unmeasured=True, as_ratio=True))
    assert same.sysctls["vm.dirty_ratio"] == 60


def test_transfer_settings_are_named_as_those_of_the_pull(system):
    change = replace(SYSCTLS, transfer={"max_concurrency": 20})
    (note,) = plan(system, change, NONE).notes
    assert "for the pull itself: --client transfer-manager --transfer max_concurrency=20" in note


def test_runs_share_settings_that_were_asked_for_in_the_same_way():
    values = SYSCTLS.sysctl_values
    assert (
        settings_of(SYSCTLS)
        == settings_of(values)
        == {
            "vm.dirty_ratio": "60",
            "vm.dirty_background_ratio": "5",
        }
    )
    assert settings_of(CHANGE) == {
        **settings_of(values),
        "queue/scheduler (/data)": "none",
        "mount /data": "noatime",
    }
