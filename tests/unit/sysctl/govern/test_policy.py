# SPDX-License-Identifier: Apache-2.0
"""The governor on a simulated kernel: bounds, raises only for bursts, returns to rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysctl.govern.bounds import RaiseLimits, highest_raise, low_bound, rest_thresholds
from sysctl.govern.policy import Governor, Why
from sysctl.govern.samples import NS_PER_S
from sysctl.knobs.writeback import effective_thresholds
from tests.unit.dirty_pages import (
    BOOTED_NS,
    FLUSHER_WAKES_S,
    GIB,
    MIB,
    POLL_STEPS,
    REST,
    STEP_S,
    Burst,
    Host,
    Volume,
)

#: From the last moment in which a burst is not drained until the host must be at rest.
LATEST_REST_S = 3.0
#: A poll and a step: a time in the simulation is not known more exactly.
RESOLUTION_S = (POLL_STEPS + 1) * STEP_S

sources = st.integers(100, 1200).map(lambda rate: rate * MIB)
devices = st.integers(40, 250).map(lambda rate: rate * MIB)
memories = st.sampled_from((1, 2, 4)).map(lambda size: size * GIB)
queues = st.sampled_from((8 * MIB, 256 * MIB, 1e18))
rests = st.sampled_from(
    (
        REST,
        {"vm.dirty_ratio": 10, "vm.dirty_background_ratio": 5},
        {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 17},
        {"vm.dirty_bytes": 100 * MIB, "vm.dirty_background_bytes": 50 * MIB},
        {"vm.dirty_ratio": 15, "vm.dirty_background_bytes": 64 * MIB},
        {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 40},
    )
)


@st.composite
def scenes(draw, named=(True,)):
    """Return a host with one to three bursts, and the bound in bytes."""
    memory = draw(memories)
    bursts = [
        Burst(
            begins_s=draw(st.integers(0, 100)) / 10,
            size_bytes=memory * draw(st.integers(1, 90)) / 100,
            rate_bytes_per_s=draw(sources),
            volume=draw(st.integers(0, len(named) - 1)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    host = Host(
        memory,
        [Volume(draw(devices), each, draw(queues)) for each in named],
        bursts,
        dict(draw(rests)),
    )
    return host, memory * draw(st.integers(10, 95)) // 100


def _longest_s(host: Host) -> float:
    """Return a time after which every burst has arrived and is drained."""
    slowest = min(volume.rate_bytes_per_s for volume in host.volumes)
    size = sum(burst.size_bytes for burst in host.bursts)
    last = max(burst.begins_s for burst in host.bursts)
    return last + size / slowest + size / 100 / MIB + 10


def burst_of(mib: float, rate_mib: float = 400, begins_s: float = 1.0, volume: int = 0) -> Burst:
    return Burst(begins_s, mib * MIB, rate_mib * MIB, volume)


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_the_bound_holds_and_the_host_is_at_rest_outside_bursts(scene) -> None:
    host, bound_bytes = scene
    at_rest, rest = host.at, dict(host.values)
    host.run(_longest_s(host), Governor(RaiseLimits(bound_bytes), rest))
    most = max(bound_bytes, at_rest.dirty_bytes)
    step = sum(volume.rate_bytes_per_s for volume in host.volumes) * STEP_S * 3
    assert max(moment.held_bytes for moment in host.moments) <= most + step
    for moment in host.moments:
        assert moment.at.dirty_bytes <= most
        assert at_rest.background_bytes <= moment.at.background_bytes < moment.at.dirty_bytes
        assert moment.at.dirty_bytes >= at_rest.dirty_bytes
    assert host.values == rest
    assert len(host.returned_s) == len(set(host.bursts))
    _assert_raised_only_for_bursts(host, at_rest.background_bytes)


def _assert_raised_only_for_bursts(host: Host, background_bytes: int) -> None:
    """A moment is of a burst or its drain if data arrives or more than at rest is held."""
    latest_s = -LATEST_REST_S
    for moment in host.moments:
        is_arriving = any(
            burst.begins_s <= moment.time_s <= burst.begins_s + host.returned_s[burst]
            for burst in host.bursts
        )
        if is_arriving or moment.held_bytes > background_bytes + 4 * MIB:
            latest_s = moment.time_s
        if moment.is_raised:
            assert moment.time_s - latest_s <= LATEST_REST_S


@settings(max_examples=40, deadline=None)
@given(memories, sources, devices, queues, st.integers(5, 90), st.integers(25, 75), rests)
def test_a_burst_returns_nearly_as_fast_as_under_the_best_static_setting(
    memory, source, device, queue, size_percent, bound_percent, rest
) -> None:
    burst = Burst(1.0, memory * size_percent / 100, source)
    bound = memory * bound_percent // 100
    if bound < effective_thresholds(rest, memory).dirty_bytes * 1.05:
        return
    longest_s = burst.size_bytes / device + burst.size_bytes / source + 5

    def returned_s(values, governor=None):
        host = Host(memory, [Volume(device, queue_bytes=queue)], [burst], dict(values))
        host.run(longest_s, governor)
        return host.returned_s[burst]

    best_s = min(
        returned_s({"vm.dirty_bytes": bound, "vm.dirty_background_bytes": bound * share // 100})
        for share in (5, 10, 25, 50, 75, 90)
    )
    governed_s = returned_s(rest, Governor(RaiseLimits(bound), rest))
    assert governed_s <= best_s * 1.05 + 2 * RESOLUTION_S + STEP_S
    assert governed_s <= returned_s(rest) + RESOLUTION_S


@pytest.mark.parametrize("begins_s", [1.0, 1.2, 1.31, 1.44])
@pytest.mark.parametrize("rate_mib", [60, 300, 1200])
def test_a_burst_is_accounted_for_from_its_first_byte(rate_mib: int, begins_s: float) -> None:
    """Also if a look comes just after its begin, and the look before it was long ago."""
    host = Host(4 * GIB, [Volume(40 * MIB)], [burst_of(1500, rate_mib, begins_s)])
    accounts = [each.finished for each in host.run(120, Governor(RaiseLimits(2 * GIB), REST))]
    (account,) = [each for each in accounts if each]
    assert account.arrived_bytes == pytest.approx(1500 * MIB, rel=1e-6)


@pytest.mark.parametrize("request_mib", [1, 25, 100])
def test_nobody_waits_for_a_device_that_completes_little_or_nothing_at_first(request_mib) -> None:
    """blk-throttle takes all that the flusher has, and the first completion can be seconds away."""
    source = 900 * MIB
    burst = Burst(1.0, 1900 * MIB, source)
    volume = Volume(62.5 * MIB, queue_bytes=1e18, request_bytes=request_mib * MIB)
    host = Host(4 * GIB, [volume], [burst])
    host.run(10, Governor(RaiseLimits(2 * GIB), REST))
    assert host.returned_s[burst] <= burst.size_bytes / source + RESOLUTION_S


@pytest.mark.parametrize("pause_s", [0.3, 1.0, 3.0])
def test_a_burst_that_goes_on_after_a_pause_does_not_wait(pause_s: float) -> None:
    first = burst_of(1300, rate_mib=900)
    second = burst_of(450, rate_mib=900, begins_s=1 + 1300 / 900 + pause_s)
    volume = Volume(62.5 * MIB, queue_bytes=1e18, request_bytes=25 * MIB)
    host = Host(4 * GIB, [volume], [first, second])
    host.run(10, Governor(RaiseLimits(2 * GIB), REST))
    assert host.returned_s[second] <= 0.5 + RESOLUTION_S
    burst = [moment for moment in host.moments if moment.is_raised]
    assert all(moment.held_bytes <= moment.at.freerun_bytes for moment in burst)


@settings(max_examples=40, deadline=None)
@given(memories, sources, devices, queues, st.integers(5, 90), st.integers(25, 75), rests)
def test_the_device_writes_while_the_thresholds_are_raised(
    memory, source, device, queue, size_percent, bound_percent, rest
) -> None:
    """While data arrives there is no pause, and after that about as long as the flusher's timer.

    A device that is as fast as the source has pauses in which there is nothing to write.
    """
    assume(source > 1.5 * device)
    burst = Burst(1.0, memory * size_percent / 100, source)
    host = Host(memory, [Volume(device, queue_bytes=queue)], [burst], dict(rest))
    background = host.at.background_bytes
    seconds = burst.size_bytes / device + burst.size_bytes / source + 5
    host.run(seconds, Governor(RaiseLimits(memory * bound_percent // 100), rest))
    returned_s = 1.0 + host.returned_s[burst]
    idle_s = [
        moment.time_s
        for moment in host.moments
        if moment.is_raised and moment.held_bytes > background and not moment.writeback_bytes
    ]
    began_s = next((m.time_s for m in host.moments if m.held_bytes > background), 0.0)
    arriving = [each for each in idle_s if began_s + RESOLUTION_S < each < returned_s]
    assert len(arriving) * STEP_S <= RESOLUTION_S
    assert longest_s(idle_s) <= FLUSHER_WAKES_S + STEP_S


def longest_s(moments_s: list[float]) -> float:
    """Return how long the longest stretch of consecutive steps is (s)."""
    longest = length = 0
    before_s = None
    for time_s in moments_s:
        is_next = before_s is not None and time_s - before_s < 1.5 * STEP_S
        length = length + 1 if is_next else 1
        longest, before_s = max(longest, length), time_s
    return longest * STEP_S


@settings(max_examples=30, deadline=None)
@given(scenes(named=(False, True)))
def test_bursts_onto_other_volumes_raise_nothing(scene) -> None:
    host, bound_bytes = scene
    host.bursts = [replace(burst, volume=0) for burst in host.bursts]
    host.bursts.append(Burst(0.0, 40 * 60 * MIB, MIB, volume=1))  # a log on the named volume
    host.run(40, Governor(RaiseLimits(bound_bytes), dict(host.values)))
    assert not any(moment.is_raised for moment in host.moments)


def test_a_burst_onto_the_named_volume_is_raised_while_another_volume_is_throttled() -> None:
    other, ours = burst_of(6000, begins_s=0.0, volume=0), burst_of(600, begins_s=20.0, volume=1)
    volumes = [Volume(60 * MIB, is_named=False), Volume(60 * MIB)]
    host = Host(4 * GIB, volumes, [other, ours])
    host.run(40, Governor(RaiseLimits(2 * GIB), REST))
    raised_s = [moment.time_s for moment in host.moments if moment.is_raised]
    assert raised_s
    assert raised_s[0] > 20
    at_rest = Host(4 * GIB, [Volume(60 * MIB), Volume(60 * MIB)], [other, ours])
    at_rest.run(120)
    assert host.returned_s[ours] < at_rest.returned_s[ours] / 2


@settings(max_examples=10, deadline=None)
@given(scenes())
def test_a_dry_run_changes_nothing_and_reports_what_it_would_have_raised(scene) -> None:
    host, bound_bytes = scene
    rest = dict(host.values)
    at_rest = host.at
    decisions = _only_look(host, Governor(RaiseLimits(bound_bytes), rest, is_dry=True), rest)
    assert all(moment.at == at_rest for moment in host.moments)
    assert not any(decision.foreign for decision in decisions)
    is_raised = any(decision.raised for decision in decisions)
    assert is_raised == any(decision.finished for decision in decisions)


def _only_look(host: Host, governor: Governor, rest) -> list:
    decisions = []
    for number in range(round(_longest_s(host) / STEP_S)):
        if number % POLL_STEPS == 0:
            decisions.append(governor.step(host.sample()))
        host.run(STEP_S)
    return decisions


def test_the_saved_time_of_both_ways_is_the_true_one() -> None:
    """A burst of 1,920 MiB at 400 MiB/s: the account's figure against two simulated pulls."""

    def simulated(governor=None):
        host = Host(4 * GIB, [Volume(62.5 * MIB)], [burst_of(1920)])
        decisions = host.run(60, governor)
        return host.returned_s[host.bursts[0]], [d.finished for d in decisions if d.finished]

    resting_s, _ = simulated()
    governed_s, accounts = simulated(Governor(RaiseLimits(2 * GIB), REST))
    (account,) = accounts
    assert account.return_s == pytest.approx(governed_s, abs=2 * RESOLUTION_S)
    assert account.saved_s == pytest.approx(resting_s - governed_s, rel=0.05)
    assert account.arrived_bytes == pytest.approx(1920 * MIB, rel=0.001)
    host = Host(4 * GIB, [Volume(62.5 * MIB)], [burst_of(1920)])
    decisions = _only_look(host, Governor(RaiseLimits(2 * GIB), REST, is_dry=True), REST)
    (dry,) = [decision.finished for decision in decisions if decision.finished]
    assert dry.saved_s == pytest.approx(resting_s - governed_s, rel=0.05)


def test_it_lowers_at_once_under_memory_pressure_and_raises_again_after_it() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(20_000, 120)])
    governor = Governor(RaiseLimits(2 * GIB), REST)
    host.run(12, governor)
    assert host.moments[-1].is_raised
    began_s = host.time_s
    whys = []
    for _ in range(20):  # a second in which half of the time some task waits for memory
        host.pressure_ns += NS_PER_S // 40
        whys += [decision.why for decision in host.run(POLL_STEPS * STEP_S, governor)]
    assert Why.PRESSURE in whys
    lowered_s = next(m.time_s for m in host.moments if m.time_s >= began_s and not m.is_raised)
    assert lowered_s - began_s <= 0.3
    host.run(3, governor)
    assert not host.moments[-1].is_raised
    host.run(10, governor)
    assert host.moments[-1].is_raised


def test_it_lowers_at_once_when_little_clean_memory_is_left() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(8000)])
    governor = Governor(RaiseLimits(3 * GIB), REST)
    host.run(4, governor)
    assert host.moments[-1].is_raised
    scarce = replace(host.sample(), available_bytes=round(host.held_bytes) + 50 * MIB)
    assert governor.step(scarce).why is Why.PRESSURE


def test_it_lowers_when_half_of_the_memory_goes_and_raises_less_after_it() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(20_000, 120)])
    governor = Governor(RaiseLimits(2 * GIB), REST)
    host.run(12, governor)
    assert host.at.dirty_bytes == 2 * GIB
    host.dirtyable_bytes = 2 * GIB
    decisions = host.run(0.05, governor)
    assert [decision.why for decision in decisions] == [Why.LESS_MEMORY]
    host.run(10, governor)
    assert host.moments[-1].is_raised
    assert host.at.dirty_bytes <= 0.75 * host.dirtyable_bytes


def test_a_burst_longer_than_allowed_is_throttled_as_at_rest() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(20_000, 120)])
    decisions = host.run(60, Governor(RaiseLimits(2 * GIB, 10 * NS_PER_S), REST))
    raised = [moment.time_s for moment in host.moments if moment.is_raised]
    assert raised[-1] - raised[0] <= 10 + RESOLUTION_S
    assert [d.finished.ended_by for d in decisions if d.finished] == ["longer than --max-raise"]


def log_for(seconds: float) -> Burst:
    """Return what a program writes all the time, on the volume of the bursts."""
    return Burst(0.0, 3 * MIB * seconds, 3 * MIB, writer="log")


def test_a_log_that_never_pauses_does_not_make_several_bursts_one() -> None:
    """What was written in the hour before a burst is no part of its account."""
    spike, burst = Burst(20.0, 8 * MIB, 40 * MIB), burst_of(1920, begins_s=60.0)
    host = Host(4 * GIB, [Volume(62.5 * MIB)], [log_for(120), spike, burst])
    decisions = host.run(110, Governor(RaiseLimits(2 * GIB), REST))
    (account,) = [decision.finished for decision in decisions if decision.finished]
    assert (account.began_ns - BOOTED_NS) / NS_PER_S == pytest.approx(60, abs=0.5)
    assert account.arrived_bytes == pytest.approx(1920 * MIB, rel=0.1)
    assert account.saved_s and account.saved_s > 10


def test_after_a_burst_that_was_too_long_the_next_one_is_raised_next_to_a_log() -> None:
    first, second = burst_of(2400, 120), burst_of(1200, begins_s=80.0)
    host = Host(4 * GIB, [Volume(60 * MIB)], [log_for(120), first, second])
    decisions = host.run(110, Governor(RaiseLimits(2 * GIB, 3 * NS_PER_S), REST))
    ended = [decision.finished.ended_by for decision in decisions if decision.finished]
    assert ended == ["longer than --max-raise"] * 2
    assert any(moment.is_raised and moment.time_s > 80 for moment in host.moments)


def test_it_lowers_when_the_volume_is_gone() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(8000)])
    governor = Governor(RaiseLimits(2 * GIB), REST)
    host.run(4, governor)
    decision = governor.step(replace(host.sample(), volumes=(None,)))
    assert decision.why is Why.GONE
    assert decision.raised is None
    assert governor.step(replace(host.sample(), volumes=(None,))).raised is None


@pytest.mark.parametrize("seconds", [0.5, 4])
def test_it_yields_to_another_program_at_rest_and_when_raised(seconds: float) -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(8000)])
    governor = Governor(RaiseLimits(2 * GIB), REST)
    host.run(seconds, governor)
    foreign = {**host.values, "vm.dirty_background_ratio": 7}
    foreign.pop("vm.dirty_background_bytes", None)
    decision = governor.step(replace(host.sample(), values=foreign))
    assert decision.why is Why.CHANGED
    assert decision.raised is None
    assert decision.foreign
    assert decision.foreign.found == {"vm.dirty_background_ratio": 7}
    assert decision.foreign.found != decision.foreign.expected


def test_a_gap_in_the_samples_is_no_burst() -> None:
    """The program was stopped for an hour; the volume wrote a log meanwhile."""
    host = Host(4 * GIB, [Volume(60 * MIB)], [])
    governor = Governor(RaiseLimits(2 * GIB), REST)
    host.run(1, governor)
    last = host.sample()
    (volume,) = last.volumes
    assert volume
    grown = replace(volume, dirtied_bytes=volume.dirtied_bytes + GIB)
    later = replace(last, time_ns=last.time_ns + 3600 * NS_PER_S, volumes=(grown,))
    assert governor.step(later).raised is None


def test_nothing_is_raised_if_the_bound_is_below_the_hosts_own_threshold() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(3000)])
    assert low_bound(RaiseLimits(500 * MIB), host.sample()) == (host.at.dirty_bytes, 500 * MIB)
    assert low_bound(RaiseLimits(GIB), host.sample()) is None
    host.run(60, Governor(RaiseLimits(500 * MIB), REST))
    assert not any(moment.is_raised for moment in host.moments)


def test_a_background_ratio_of_zero_is_never_zero_bytes() -> None:
    """The kernel takes 0 as a ratio only; as bytes it is EINVAL, which would end the governor."""
    rest = {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 0}
    sample = Host(4 * GIB, [Volume(60 * MIB)], [], rest).sample()
    raised = highest_raise(RaiseLimits(2 * GIB), sample, rest_thresholds(sample, rest), rest)
    assert raised
    assert raised.lowest_background is None
    assert min(raised.backgrounds) > 0


def test_the_default_bound_is_a_quarter_of_what_is_available() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(3000)])
    host.run(4, Governor(RaiseLimits(), REST))
    assert host.at.dirty_bytes == GIB


def test_a_burst_in_progress_has_an_account_when_the_governor_ends() -> None:
    host = Host(4 * GIB, [Volume(60 * MIB)], [burst_of(3000)])
    governor = Governor(RaiseLimits(2 * GIB), REST)
    assert governor.end() is None
    host.run(4, governor)
    account = governor.end()
    assert account
    assert account.ended_by == "the governor ended"
    assert governor.end() is None
