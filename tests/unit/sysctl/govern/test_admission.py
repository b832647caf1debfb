# SPDX-License-Identifier: Apache-2.0
"""The governor with --admit, on a simulated kernel: only admitted bursts raise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysctl.govern.admitted import Attribution
from sysctl.govern.bounds import RaiseLimits
from sysctl.govern.groups import GroupMemory, LimitedMemory
from sysctl.govern.policy import Governor, Why
from sysctl.govern.samples import NS_PER_S
from sysctl.knobs.writeback import GroupUse
from tests.unit.dirty_pages import GIB, MIB, POLL_STEPS, REST, STEP_S, Burst, Host, Volume

PATH = "/system.slice/pull.service"
DEVICE = 60 * MIB


def pull(mib: float, rate_mib: float = 400, begins_s: float = 1.0) -> Burst:
    return Burst(begins_s, mib * MIB, rate_mib * MIB, writer=PATH)


def backup(mib: float, rate_mib: float = 400, begins_s: float = 1.0) -> Burst:
    return replace(pull(mib, rate_mib, begins_s), writer="backup", is_admitted=False)


def host_of(*bursts: Burst, groups: tuple[GroupMemory, ...] = ()) -> Host:
    return Host(4 * GIB, [Volume(DEVICE)], list(bursts), admits=True, groups=groups)


def governor_of() -> Governor:
    return Governor(RaiseLimits(2 * GIB), REST)


def finished(decisions) -> list:
    return [each.finished for each in decisions if each.finished]


def raised_s(host: Host) -> list[float]:
    return [moment.time_s for moment in host.moments if moment.is_raised]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(100, 4000), st.integers(20, 1200), st.integers(0, 15)), max_size=3
    )
)
def test_bursts_of_others_raise_nothing(others) -> None:
    """Beside an admitted program that writes a log all the time."""
    host = host_of(pull(60, rate_mib=1, begins_s=0), *(backup(*each) for each in others))
    host.run(40, governor_of())
    assert not raised_s(host)


@pytest.mark.parametrize("rate_mib", [100, 400, 1200])
def test_an_admitted_burst_is_as_fast_as_without_admission(rate_mib: int) -> None:
    burst = pull(1500, rate_mib)
    hosts = [host_of(burst), replace(host_of(burst), admits=False)]
    accounts = [finished(host.run(60, governor_of())) for host in hosts]
    assert hosts[0].returned_s == hosts[1].returned_s
    assert accounts[0] == accounts[1]
    assert accounts[0][0].writer == PATH


def test_a_burst_while_others_fill_memory_is_raised_and_no_longer_than_it_lasts() -> None:
    """Others' pages take room: the admitted writers would wait for them."""
    ours, others = pull(400, begins_s=20), backup(6000, 120, begins_s=0)
    host = host_of(ours, others)
    accounts = finished(host.run(90, governor_of()))
    times_s = raised_s(host)
    assert times_s[0] >= 20
    at_rest = host_of(ours, others)
    at_rest.run(120)
    assert host.returned_s[ours] < at_rest.returned_s[ours] / 2
    (account,) = accounts
    assert account.arrived_bytes == pytest.approx(400 * MIB, rel=0.01)
    drained_s = (host.at.dirty_bytes + 400 * MIB) / DEVICE  # what was there goes first
    assert times_s[-1] <= 20 + host.returned_s[ours] + drained_s + 1


def test_others_who_go_on_do_not_keep_the_thresholds_raised() -> None:
    ours, others = pull(800), backup(20_000, 200, begins_s=2)
    host = host_of(ours, others)
    host.run(100, governor_of())
    assert raised_s(host)
    assert raised_s(host)[-1] < 60
    assert others not in host.returned_s


def test_the_writer_is_named_without_admission() -> None:
    host = replace(host_of(replace(pull(1500), writer="s5cmd")), admits=False)
    (account,) = finished(host.run(60, governor_of()))
    assert account.writer == "s5cmd"


# --- a control group's memory -----------------------------------------------------------------


def limited(limit: int, used: int, file: int = 0, unwritten: int = 0, **more) -> GroupMemory:
    """Return a version 1 group, in MiB."""
    level = LimitedMemory(limit * MIB, used * MIB, file * MIB, unwritten * MIB)
    return GroupMemory(PATH, 1, (level,), unwritten * MIB, **more)


def raised_then(group: GroupMemory) -> list[Why]:
    """Let a burst be raised, give its group that memory, and return why it is then lowered."""
    host = host_of(pull(8000, 120), groups=(limited(8192, 100),))
    governor = governor_of()
    host.run(12, governor)
    assert host.moments[-1].is_raised
    host.groups = (group,)
    return [each.why for each in host.run(POLL_STEPS * STEP_S, governor)]


def test_a_group_near_its_limit_lowers_at_once() -> None:
    assert raised_then(limited(1000, 990, file=500, unwritten=480)) == [Why.PRESSURE]


def test_a_group_full_of_clean_pages_is_not_near_its_limit() -> None:
    assert raised_then(limited(1000, 1000, file=800, unwritten=400)) == [Why.BURST]


def test_a_group_above_that_is_near_its_limit_counts() -> None:
    above = limited(4000, 3990).levels[0]
    roomy = limited(1000, 100)
    assert raised_then(replace(roomy, levels=(above, *roomy.levels))) == [Why.PRESSURE]


def test_a_groups_own_memory_pressure_lowers() -> None:
    host = host_of(pull(8000, 120), groups=(limited(8192, 100, some_ns=0, full_ns=0),))
    governor = governor_of()
    host.run(12, governor)
    assert host.moments[-1].is_raised
    whys = []
    for number in range(1, 8):
        pressure = number * NS_PER_S // 40
        host.groups = (limited(8192, 100, some_ns=pressure, full_ns=0),)
        whys += [each.why for each in host.run(POLL_STEPS * STEP_S, governor)]
    assert Why.PRESSURE in whys


def test_a_group_made_anew_has_no_pressure_of_the_one_before() -> None:
    host = host_of(pull(8000, 120), groups=(limited(8192, 100, some_ns=0, full_ns=0),))
    governor = governor_of()
    host.run(12, governor)
    host.groups = (replace(limited(8192, 100, some_ns=5 * NS_PER_S, full_ns=0), identity=2),)
    whys = {each.why for each in host.run(1, governor)}
    assert whys == {Why.BURST}


def test_nothing_is_raised_for_a_burst_that_its_groups_limit_throttles() -> None:
    """2 GiB of 4 GiB at risk is half of 200 MiB for a group of that size: less than arrives."""
    use = GroupUse(file_bytes=190 * MIB, dirty_bytes=100 * MIB, headroom_bytes=10 * MIB)
    group = limited(200, 190, file=190, unwritten=100, use=use)
    host = host_of(pull(3000, 120), groups=(group,))
    decisions = host.run(20, governor_of())
    assert not raised_s(host)
    told = [each.unhelped for each in decisions if each.unhelped]
    assert [each.path for each in told] == [PATH]


def test_a_throttled_burst_that_pauses_for_seconds_is_reported_once() -> None:
    """Its writers wait for their own limit."""
    use = GroupUse(file_bytes=190 * MIB, dirty_bytes=100 * MIB, headroom_bytes=10 * MIB)
    group = limited(200, 190, file=190, unwritten=100, use=use)
    pauses = pull(1000, 120), pull(400, 120, begins_s=12.5)
    host = host_of(*pauses, pull(400, 120, begins_s=40), groups=(group,))
    decisions = host.run(60, governor_of())
    first, second = [each.unhelped.began_ns for each in decisions if each.unhelped]
    assert (second - first) / NS_PER_S == pytest.approx(39, abs=0.2)


def test_a_burst_of_another_writer_is_raised_although_that_group_is_throttled() -> None:
    use = GroupUse(file_bytes=190 * MIB, dirty_bytes=100 * MIB, headroom_bytes=10 * MIB)
    group = limited(200, 190, file=190, unwritten=100, use=use)
    host = host_of(replace(pull(3000, 120), writer="s5cmd"), groups=(group,))
    decisions = host.run(20, governor_of())
    assert raised_s(host)
    assert not any(each.unhelped for each in decisions)


# --- how much is of admitted writers ----------------------------------------------------------


def test_what_is_admitted_is_at_most_what_arrived() -> None:
    attribution = Attribution()
    assert attribution.add(100, 40) == 40
    assert attribution.add(0, 500) == 100  # counters that were read one after the other
    assert attribution.add(0, 0) == 100
    assert attribution.add(100, 0) == 100


@given(st.lists(st.integers(0, 1000)), st.integers(0, 50))
def test_two_counters_that_are_read_apart_add_up(sizes, late) -> None:
    """The process's counter is read a moment later than the volume's."""
    attribution = Attribution()
    seen = dirtied = 0
    for size in sizes:
        seen += size
        ahead = seen + min(late, size)
        attribution.add(size, ahead - dirtied)
        dirtied = ahead
    assert 0 <= seen - attribution.total_bytes <= 50
