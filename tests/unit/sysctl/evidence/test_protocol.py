# SPDX-License-Identifier: Apache-2.0
"""When a trial counts, when it is repeated and when it is stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contracts.shared.errors import WritewiseError
from profiler.pull.source import Location, PullPlan, RemoteObject
from profiler.study.bench import whole_pages_bytes
from sysctl.evidence.over_limit import OverLimit
from sysctl.evidence.protocol import (
    concluded,
    invalid_reason,
    stop_after_s,
    writeback_rate_bytes_per_s,
)
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE, Results, TracePoint, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.knobs.writeback import PAGE_BYTES
from sysctl.sweep.steps import Step as SweepStep
from sysctl.sweep.steps import StoppedEarly, run_trial
from tests.unit.studies import Study
from tests.unit.sweeps import CIRCUMSTANCES, GIB, MadeUpBench, failing, sweep
from tests.unit.sweeps import PRESENT as NOW

MIB = 2**20
CANDIDATE_SETTING = Setting((("vm.dirty_ratio", 60), ("vm.dirty_background_ratio", 5)))


def seen(rate=60 * MIB, seconds=6.0, held_bytes=GIB, **fields):
    """A pull whose disk wrote at `rate` all the time."""
    bench = MadeUpBench(lambda setting, run: seconds)
    bench.apply(NOW)
    times_s = [at / 20 for at in range(int(seconds * 20) + 1)]
    trace = tuple(TracePoint(at_s, held_bytes, int(rate * at_s)) for at_s in times_s)
    return replace(bench.measure(durable=False), **{"trace": trace, **fields})


def test_a_pull_like_the_present_one_counts():
    assert invalid_reason(seen(), CANDIDATE_SETTING, [seen()]) is None
    assert invalid_reason(seen(), NOW, []) is None


@pytest.mark.parametrize(
    ("factor", "is_invalid"), [(0.5, True), (0.74, True), (0.76, False), (1.5, False)]
)
def test_a_disk_out_of_credits_makes_a_trial_invalid(factor, is_invalid):
    reason = invalid_reason(seen(rate=factor * 60 * MIB), CANDIDATE_SETTING, [seen(), seen()])
    assert bool(reason) is is_invalid
    assert not reason or "out of credits" in reason
    assert not reason or "60.0 MiB/s under the current settings" in reason


@pytest.mark.parametrize(
    "course",
    [{"held_bytes": 64 * MIB}, {"seconds": 2.4}, {"trace": ()}],
    ids=["never above background", "too short", "no course"],
)
def test_a_rate_that_is_not_known_is_not_judged(course):
    slow = seen(**{"rate": MIB, **course})
    assert writeback_rate_bytes_per_s(slow) is None
    assert invalid_reason(slow, CANDIDATE_SETTING, [seen()]) is None


def test_the_time_before_write_back_does_not_lower_its_rate():
    calm = [TracePoint(at / 20, 0, 0) for at in range(100)]
    busy = [TracePoint(5 + at / 20, GIB, int(60 * MIB * at / 20)) for at in range(100)]
    rate = writeback_rate_bytes_per_s(replace(seen(), trace=(*calm, *busy)))
    assert rate == pytest.approx(60 * MIB, rel=0.01)


def test_a_knob_of_the_disk_may_be_why_it_writes_slower():
    setting = replace(CANDIDATE_SETTING, device=(("queue/nr_requests", "4"),))
    assert invalid_reason(seen(rate=20 * MIB), setting, [seen()]) is None


@pytest.mark.parametrize(("share", "is_invalid"), [(0.89, True), (0.91, False), (1.11, True)])
def test_memory_that_moved_makes_a_trial_invalid(share, is_invalid):
    reason = invalid_reason(
        seen(dirtyable_bytes=int(share * 4 * GIB)), CANDIDATE_SETTING, [seen(), seen()]
    )
    assert ("changed from 4.00 GiB" in (reason or "")) is is_invalid


def with_memory(*sizes_mib):
    """What a bench shows whose runs find so much dirtyable memory, one after the other."""
    sizes = iter(sizes_mib)
    bench = MadeUpBench(changed=lambda setting, run: {"dirtyable_bytes": next(sizes) * MIB})
    results = Results(CIRCUMSTANCES, {})
    for _ in sizes_mib:
        results.trials.append(run_trial(bench, SweepStep(PRESENT, NOW, False, 0), results))
    return [not trial.problem for trial in results.trials]


@pytest.mark.parametrize(
    ("sizes_mib", "counts"),
    [
        ((580, 866, 866, 866, 866), (True, False, False, True, True)),
        ((866, 866, 866, 580, 580, 580, 580), (True, True, True, False, False, True, True)),
        ((866, 866, 580, 866, 866, 580, 866), (True, True, False, True, True, False, True)),
        ((866, 580, 866, 866), (True, False, False, True)),
        ((866, 810, 866), (True, True, True)),
    ],
    ids=["first out of line", "changed for good", "single ones", "second", "within 10 %"],
)
def test_memory_that_changed_for_good_counts_at_the_third_attempt(sizes_mib, counts):
    assert with_memory(*sizes_mib) == list(counts)


def test_a_sweep_whose_first_run_was_out_of_line_goes_on():
    """A small node right after it was set up: less memory could be dirty than ever after."""
    first = iter([580 * MIB])
    bench = MadeUpBench(changed=lambda s, run: {"dirtyable_bytes": next(first, 866 * MIB)})
    results = sweep(bench=bench)
    assert sum(bool(trial.problem) for trial in results.trials) == 2
    assert results.trials[-1].role == PRICE, "to the end"


@pytest.mark.parametrize(("share", "is_invalid"), [(0.07, True), (0.05, False)])
def test_a_run_that_waited_for_a_cpu_for_more_of_its_time_than_usual_is_invalid(share, is_invalid):
    reason = invalid_reason(seen(), NOW, [seen()], cpu_waits=(share, 0.01, 0.0, 0.01))
    assert bool(reason) is is_invalid
    assert not reason or reason == (
        "other programs kept the CPUs busy: writers waited for a CPU for 7% of "
        "their time (usually 1% with these settings)"
    )


@pytest.mark.parametrize("cpu_waits", [(), (0.5,), (0.5, 0.48), (0.5, 0.0, 0.5)])
def test_writers_that_wait_for_a_cpu_in_every_run_make_none_invalid(cpu_waits):
    assert invalid_reason(seen(), NOW, [seen()], cpu_waits=cpu_waits) is None


def test_a_trial_is_compared_with_the_other_runs_of_its_setting():
    """Waits of other settings do not count."""
    waits = {NOW: iter((0.02, 0.20, 0.02)), CANDIDATE_SETTING: iter((0.20, 0.20))}

    def changed(setting, run):
        return {"split_s": {"waiting for a CPU": next(waits[setting]) * 5.0}}

    bench, results = MadeUpBench(lambda setting, run: 5.0, changed), Results(CIRCUMSTANCES, {})
    for setting in (NOW, NOW, CANDIDATE_SETTING, CANDIDATE_SETTING, NOW):
        results.trials.append(run_trial(bench, SweepStep(PRESENT, setting, False, 0), results))
    problems = [trial.problem.partition(":")[0] for trial in results.trials]
    assert problems == ["", "other programs kept the CPUs busy", "", "", ""]


@pytest.mark.parametrize(("share", "is_invalid"), [(0.06, True), (0.04, False)])
def test_stolen_time_makes_a_trial_invalid(share, is_invalid):
    reason = invalid_reason(seen(stolen_share=share), NOW, [])
    assert bool(reason) is is_invalid
    assert not reason or reason.startswith("the hypervisor stole 6% of the CPU time")


@pytest.mark.parametrize(
    ("before", "share", "is_invalid"),
    [
        ([0.0], 0.08, True),
        ([0.0, 0.08], 0.08, True),  # once is not usual
        ([0.08], 0.08, False),  # the second attempt on a host that always loses some
        ([0.08, 0.07, 0.09], 0.0, False),
        ([0.4, 0.4, 0.4], 0.4, True),  # no CPU credits left: the host's pull is another one
    ],
)
def test_stolen_time_that_is_usual_is_valid(before, share, is_invalid):
    earlier = [seen(stolen_share=each) for each in before]
    assert bool(invalid_reason(seen(stolen_share=share), NOW, [], earlier)) is is_invalid


def test_one_tick_of_stolen_time_in_a_short_pull_is_ignored():
    assert invalid_reason(replace(seen(stolen_share=0.14), return_s=0.05), NOW, []) is None


@pytest.mark.parametrize(("share", "is_invalid"), [(0.06, True), (0.04, False)])
def test_memory_that_the_balloon_moved_makes_a_trial_invalid(share, is_invalid):
    pulled = 40 * 48 * MIB
    reason = invalid_reason(seen(ballooned_bytes=int(share * pulled)), NOW, [])
    assert bool(reason) is is_invalid
    assert not reason or reason == "the hypervisor's balloon took or returned 115 MiB"


@pytest.mark.parametrize(("share", "is_invalid"), [(0.06, True), (0.04, False)])
def test_another_writer_makes_a_trial_invalid(share, is_invalid):
    pulled = 40 * 48 * MIB
    reason = invalid_reason(
        seen(others_dirtied_bytes=int(share * pulled)), CANDIDATE_SETTING, [seen()]
    )
    assert bool(reason) is is_invalid
    assert not reason or "115 MiB during the pull, 6% of its size" in reason


def test_the_usual_writes_of_a_host_do_not_count_as_another_writer():
    assert invalid_reason(seen(bytes=32 * MIB, others_dirtied_bytes=7 * MIB), NOW, []) is None
    assert invalid_reason(seen(bytes=32 * MIB, others_dirtied_bytes=9 * MIB), NOW, []) is not None


def test_the_pages_of_small_objects_do_not_count_as_another_writer():
    sizes = (0, 1, 4096, 5000)
    objects = tuple(RemoteObject("a", "a", size, "") for size in sizes)
    plan = PullPlan(Location("b", ""), objects)
    assert whole_pages_bytes(plan) == (0 + 1 + 1 + 2) * PAGE_BYTES


def test_an_invalid_trial_keeps_its_observation_for_the_reader_alone():
    bench = MadeUpBench(changed=lambda setting, run: {"others_dirtied_bytes": GIB})
    trial = run_trial(bench, SweepStep(PRESENT, NOW, False, 0), Results(CIRCUMSTANCES, {}))
    assert trial.observation.others_dirtied_bytes == GIB
    assert trial.valid is None
    assert "other programs dirtied 1.00 GiB" in trial.problem


def test_a_stopped_trial_is_neither_an_observation_nor_a_failure():
    step = SweepStep(CANDIDATE, CANDIDATE_SETTING, False, 0, stop_after_s=2.5)
    trial = run_trial(MadeUpBench(), step)
    assert (trial.observation, trial.problem, trial.stopped_s) == (None, "", 2.5)


def test_a_present_run_is_never_given_a_limit():
    limits = []

    class Recorded(MadeUpBench):
        def measure(self, *, durable, stop_after_s=None, observe_price=False):
            limits.append((self.applied[-1] == NOW, stop_after_s))
            return super().measure(durable=durable, stop_after_s=stop_after_s)

    sweep(bench=Recorded(), at_most=8)
    assert {limit for is_present, limit in limits if is_present} == {None}
    assert all(limit for is_present, limit in limits if not is_present)


def test_a_candidate_may_take_half_as_long_again_as_the_best():
    tried = {trial.setting for trial in Runs.of(sweep()).of_role(CANDIDATE)}
    assert stop_after_s(Runs(CIRCUMSTANCES, ()), tried) is None
    assert stop_after_s(Runs.of(sweep(at_most=2)), tried) == pytest.approx(1.5 * 19.1)
    assert stop_after_s(Runs.of(sweep(at_most=6)), tried) == pytest.approx(1.5 * 3.85)
    assert stop_after_s(Runs.of(sweep()), tried) == pytest.approx(1.5 * 3.35), (
        "the search's runs alone"
    )


def test_a_setting_that_cannot_win_stops_no_other():
    assert stop_after_s(Runs.of(sweep(at_most=6)), set()) == pytest.approx(1.5 * 19.1)


def test_runs_in_pairs_and_those_watched_for_a_price_stop_none():
    assert stop_after_s(Runs.of(sweep(at_most=1)), set()) is None
    study = Study(present_s=(20.0,)).price(CANDIDATE_SETTING, 5.0, durable_s=31.0)
    study.recheck(CANDIDATE_SETTING, [5.0], present_s=[10.0])
    assert stop_after_s(study.runs, {CANDIDATE_SETTING}) == pytest.approx(1.5 * 20.0)


def failed(times):
    trial = Trial(CANDIDATE, CANDIDATE_SETTING, "", None, "made up")
    return [trial] * times


def test_three_failures_conclude_a_run_and_a_fourth_begins_another():
    assert [len(concluded(failed(count))) for count in range(8)] == [0, 0, 0, 1, 1, 1, 2, 2]


def test_an_unexpected_error_of_the_bench_is_not_swallowed():
    def broken(setting, run):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_trial(MadeUpBench(broken), SweepStep(PRESENT, NOW, False, 0))
    with pytest.raises(StoppedEarly):
        bench = MadeUpBench()
        bench.apply(NOW)
        bench.measure(durable=False, stop_after_s=1.0)
    with pytest.raises(WritewiseError):
        failing("reason")


def limited(rate=125 * MIB, ops=500, at_limit_s=5.0, limit="volume_throughput", **fields):
    """A pull that was at this limit most of the time; no rate can be told from its course."""
    over = OverLimit(
        observed_s=6.0,
        at_limit_s=at_limit_s,
        at_limit_rate_bytes_per_s=rate if at_limit_s else None,
        at_limit_ops_per_s=ops if at_limit_s else None,
        rate_bytes_per_s=rate,
        **{f"{limit}_s": at_limit_s},
    )
    return seen(trace=(), over_limit=over, **fields)


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (0.16, "the volume throughput limit let only 20.0 MiB/s, but 125 MiB/s under"),
        (0.74, "out of credits"),
        (0.76, None),
        (1.0, None),
        (1.3, None),
        (1.4, "under the current settings, which may have been out of credits"),
        (6.25, "the EBS volume got 781 MiB/s, but 125 MiB/s"),
    ],
)
def test_another_rate_at_the_limit_is_another_credit_regime(factor, says):
    mine = limited(factor * 125 * MIB, factor * 500)
    reason = invalid_reason(mine, CANDIDATE_SETTING, [limited(), limited(), limited()])
    assert (reason is None) if says is None else says in reason


def test_the_limit_that_let_less_through_is_named():
    mine = limited(50 * MIB, 200, limit="instance_throughput")
    reason = invalid_reason(mine, CANDIDATE_SETTING, [limited()])
    assert reason.startswith("the instance throughput limit let only 50.0 MiB/s")


@pytest.mark.parametrize("at_limit_s", [0.0, 2.5, 6.0])
def test_a_setting_that_is_at_the_limit_for_longer_or_not_at_all_counts(at_limit_s):
    """The time over the limit is what settings change; the rate at it is not."""
    mine = limited(at_limit_s=at_limit_s)
    assert invalid_reason(mine, CANDIDATE_SETTING, [limited(at_limit_s=4.0)]) is None


def test_larger_writes_at_a_limit_of_iops_are_no_other_regime():
    present = limited(rate=20 * MIB, ops=300, limit="volume_iops")
    mine = limited(rate=75 * MIB, ops=300, limit="volume_iops")
    assert invalid_reason(mine, CANDIDATE_SETTING, [present]) is None
    unlimited = limited(rate=75 * MIB, at_limit_s=0.0)
    assert invalid_reason(unlimited, CANDIDATE_SETTING, [present]) is None


def test_smaller_writes_at_a_limit_of_throughput_are_no_other_regime():
    mine = limited(rate=125 * MIB, ops=4000)
    assert invalid_reason(mine, CANDIDATE_SETTING, [limited()]) is None


def test_a_run_beyond_the_limit_of_the_others_had_credits_that_they_had_not():
    mine = limited(rate=100 * MIB, at_limit_s=0.0)
    without = limited(rate=20 * MIB, ops=80)
    assert "out of credits" in invalid_reason(mine, CANDIDATE_SETTING, [without])
    assert invalid_reason(mine, CANDIDATE_SETTING, [limited(rate=90 * MIB)]) is None


@pytest.mark.parametrize(
    ("mine", "present"),
    [
        (limited(20 * MIB, 80, at_limit_s=1.9), [limited()]),
        (limited(20 * MIB, 80), [limited(at_limit_s=1.9)]),
        (limited(20 * MIB, 80), []),
        (limited(20 * MIB, 80), [seen(trace=())]),
        (seen(trace=(), over_limit_problem="it was unplugged"), [limited()]),
    ],
    ids=["too short", "others too short", "first run", "others unknown", "unknown"],
)
def test_without_two_rates_at_a_limit_nothing_is_concluded(mine, present):
    assert invalid_reason(mine, CANDIDATE_SETTING, present) is None


def test_a_single_present_run_without_credits_does_not_decide():
    present = [limited(), limited(20 * MIB, 80), limited()]
    assert invalid_reason(limited(), CANDIDATE_SETTING, present) is None
