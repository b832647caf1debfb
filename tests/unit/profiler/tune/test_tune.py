"""The search for transfer settings, without a pull: trials, budgets, the recheck, the limit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from contracts.shared.errors import UsageError
from profiler.pull.clients import catalogue
from profiler.pull.clients.transfer_manager import TransferManagerClient
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings
from profiler.report.tuning import conclusion, plan_text
from profiler.tune.budget import Budget
from profiler.tune.limits import Load, connections, name_limit
from profiler.tune.outputs import tuning_document
from profiler.tune.recheck import PairedPulls
from profiler.tune.results import csv_text, rows
from profiler.tune.space import (
    ALL_AXES,
    POST_AXES,
    axes_named,
    client_at,
    client_axis,
    defaults_beyond,
    fitted,
    held_bytes,
    point_of,
    settings_at,
)
from profiler.tune.trial import NotTriedError, State, Trial
from profiler.tune.tuner import first_points
from sysctl.knobs.transfer import TRANSFER_CLIENT
from tests.unit.tunes import BYTES, LOAD, FakeBench, Listed, tuner

MIB = 2**20

DEFAULT = point_of(TransferSettings(), POST_AXES)


def at(max_concurrency: int) -> dict[str, int]:
    return {**DEFAULT, "max_concurrency": max_concurrency}


def by_concurrency(times: dict[int, float]):
    return lambda point, number: times[point["max_concurrency"]]


def run(times: dict[int, float], order: list[int], **options: object):
    bench = FakeBench(by_concurrency(times))
    strategy = Listed([at(concurrency) for concurrency in order])
    options.setdefault("budget", Budget(trials=len(order)))
    return tuner(bench, strategy, **options).run(), strategy, bench


# -- the space ---------------------------------------------------------------------------------


def test_the_post_s_point_lies_within_the_space() -> None:
    found = TransferSettings(339, 400619332, 15096201, 122)
    assert settings_at(point_of(found, POST_AXES), TransferSettings()) == found


def test_boto3_s_defaults_lie_within_the_space_and_come_first() -> None:
    assert settings_at(DEFAULT, TransferSettings()) == TransferSettings()
    present = TransferSettings(max_concurrency=50)
    assert first_points(present, POST_AXES) == [DEFAULT, point_of(present, POST_AXES)]
    assert first_points(TransferSettings(), POST_AXES) == [DEFAULT]


def test_axes_are_named_in_their_own_order() -> None:
    names = [axis.name for axis in axes_named(("use_threads", "max_concurrency"))]
    assert names == ["max_concurrency", "use_threads"]
    with pytest.raises(UsageError, match="'speed' cannot be tuned"):
        axes_named(("speed",))


def test_sizes_beyond_the_object_are_not_searched() -> None:
    highest = {axis.name: getattr(axis, "high", None) for axis in fitted(ALL_AXES, 10**8)}
    assert highest["multipart_chunksize"] == highest["io_chunksize"] == 10**8
    assert highest["multipart_threshold"] == 10**8 + 1  # with it the object has no parts
    assert highest["max_io_queue"] == 100_000


def test_the_defaults_and_the_present_settings_lie_on_the_axes_as_they_are() -> None:
    present = TransferSettings(5, 10 * 2**30, 1000, 1, 1)
    axes = fitted(ALL_AXES, 10, present)
    first = first_points(present, axes)
    assert [settings_at(point, present) for point in first] == [TransferSettings(), present]
    for axis in axes[:-1]:
        assert all(axis.low <= point[axis.name] <= axis.high for point in first)


def test_the_defaults_are_measured_whole_where_the_axes_have_them_not() -> None:
    """What is not searched is as given, which is not what boto3 has."""
    base, axes = TransferSettings(use_threads=False), POST_AXES
    apart = defaults_beyond(base, axes)
    assert settings_at(apart, base) == TransferSettings()
    assert first_points(base, axes) == [DEFAULT]
    assert defaults_beyond(base, ALL_AXES) is None
    strategy = Listed([DEFAULT, at(20)])
    bench = FakeBench(lambda point, number: 4.0 if "use_threads" in point else 2.0)
    tuned = tuner(bench, strategy, budget=Budget(trials=2), base=base, apart=apart).run()
    assert bench.pulled[:4] == [apart] * 3 + [DEFAULT]
    assert strategy.told == [2.0]
    assert tuned.recommended == base
    threads = [row["use_threads"] for row in rows(tuned)]
    assert threads == [True, False]


def test_what_waits_in_memory_is_bounded_by_the_object() -> None:
    assert held_bytes(TransferSettings(), BYTES) == 110 * 256 * 1024
    assert held_bytes(TransferSettings(max_io_queue=100_000), BYTES) == BYTES
    assert held_bytes(TransferSettings(use_threads=False), BYTES) == 256 * 1024


def test_the_client_is_a_category_with_the_default_first() -> None:
    axis = client_axis(("boto3",))
    default = TRANSFER_CLIENT
    assert catalogue.by_name(default).make is TransferManagerClient
    assert axis.values == (default, "boto3")
    point = point_of(TransferSettings(), (*POST_AXES, axis))
    assert point == {**DEFAULT, "client": default}
    other = {**at(20), "client": "boto3"}
    assert client_at(other) == "boto3"
    assert client_at(DEFAULT) == default
    assert settings_at(other, TransferSettings()) == TransferSettings(max_concurrency=20)


def test_a_client_that_is_not_here_is_refused_with_its_remedy(monkeypatch) -> None:
    with pytest.raises(UsageError, match="'speedy' is no pull client"):
        client_axis(("speedy",))
    absent = replace(catalogue.by_name("rclone"), version=lambda: None)
    monkeypatch.setattr(catalogue, "by_name", lambda name: absent)
    with pytest.raises(UsageError) as error:
        client_axis(("rclone",))
    assert "rclone is not installed" in error.value.message
    assert error.value.hint


# -- trials ------------------------------------------------------------------------------------


def test_a_trial_is_the_mean_of_its_pulls() -> None:
    times = iter([8.0, 9.0, 8.5, 5.0, 4.0, 6.0])
    bench = FakeBench(lambda point, number: next(times))
    tuning = tuner(bench, Listed([DEFAULT, at(20)]), budget=Budget(trials=2), pairs=0).run()
    assert [trial.mean_s for trial in tuning.trials] == [8.5, 5.0]
    assert tuning.best.rate_bytes_per_s == BYTES / 5.0


def test_a_slow_point_is_not_repeated_and_a_hopeless_one_is_stopped() -> None:
    tuning, strategy, bench = run({10: 4.0, 20: 7.0, 30: 600.0}, [10, 20, 30], pairs=0)
    assert [trial.state for trial in tuning.trials] == [
        State.COMPLETE,
        State.SLOWER,
        State.SLOWER,
    ]
    assert strategy.told == [4.0, 7.0, 10.0]  # 10 s is what was waited at most
    assert bench.now_s - 1000 == 3 * 0.5 + 3 * 4.0 + 7.0 + 10.0


def test_the_search_ends_with_its_time_and_a_trial_that_is_cut_tells_nothing() -> None:
    tuning, strategy, bench = run(
        {10: 4.0, 20: 3.0}, [10, 20, 20, 20], budget=Budget(seconds=20.0), pairs=0
    )
    assert [trial.state for trial in tuning.trials] == [State.COMPLETE, State.CUT]
    assert strategy.told == [4.0, None]
    assert bench.now_s - 1000 == 20.0
    assert tuning.ended == "its 20.0 s are over"
    assert tuning.best is tuning.default


@pytest.mark.parametrize("seconds", [0.1, 3.0, 9.0])
def test_a_budget_without_room_for_the_defaults_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="before boto3's defaults were measured once"):
        run({10: 4.0}, [10], budget=Budget(seconds=seconds))


def test_trials_and_patience_end_it_too() -> None:
    times = {10: 4.0, 20: 3.0, 30: 2.99, 40: 3.5}
    assert run(times, [10, 20], pairs=0)[0].ended == "no more than 2 trials were to be made"
    tuning, _, _ = run(times, [10, 20, 30, 40, 40], budget=Budget(patience=2), pairs=0)
    assert len(tuning.trials) == 4  # 2.99 s is no improvement on 3 s
    assert tuning.ended == "2 trials in a row brought nothing"


class FailingBench(FakeBench):
    def opened(self, point):
        if point["max_concurrency"] == 20:
            raise PullError("too much memory")
        return super().opened(point)


def test_a_point_that_fails_is_told_as_bad_and_the_search_goes_on() -> None:
    bench, strategy = FailingBench(lambda p, n: 4.0), Listed([DEFAULT, at(20), at(30)])
    tuning = tuner(bench, strategy, budget=Budget(trials=3), pairs=0).run()
    assert [trial.state for trial in tuning.trials][1] is State.FAILED
    assert tuning.trials[1].problem == "too much memory"
    assert strategy.told == [4.0, 10.0, 4.0]


def test_failures_in_a_row_end_the_search_with_their_reason() -> None:
    def seconds(point, number: int) -> float:
        if number >= 6:
            raise PullError("the credentials have expired")
        return 4.0

    def run_it(second_s: float):
        bench = FakeBench(lambda p, n: seconds(p, n) * (second_s if p != DEFAULT else 1.0))
        return tuner(bench, Listed([DEFAULT, *[at(20)] * 99]), budget=Budget(1e6)).run()

    tuning = run_it(1.2)
    assert len(tuning.trials) == 5
    assert tuning.ended == "its last 3 trials failed (the credentials have expired)"
    assert not tuning.has_verdict
    assert conclusion(tuning)[-1] == f"Nothing is recommended: {tuning.ended}"
    assert run_it(0.5).problem == "the recheck failed. the credentials have expired"


def test_points_that_need_too_much_memory_do_not_end_the_search() -> None:
    class SmallBench(FakeBench):
        def opened(self, point):
            if point != DEFAULT:
                raise NotTriedError("too much memory")
            return super().opened(point)

    points = [DEFAULT, *[at(20)] * 5]
    tuning = tuner(SmallBench(lambda p, n: 4.0), Listed(points), budget=Budget(trials=6)).run()
    assert [trial.state for trial in tuning.trials[1:]] == [State.NOT_TRIED] * 5
    assert tuning.has_verdict


def test_the_defaults_failing_is_an_error() -> None:
    with pytest.raises(PullError, match="too much memory"):
        tuner(FailingBench(lambda p, n: 4.0), Listed([at(20)])).run()


# -- the recheck -------------------------------------------------------------------------------


def test_the_best_is_recommended_when_pairs_confirm_it() -> None:
    tuning, _, bench = run({10: 8.3, 339: 4.9}, [10, 339])
    assert tuning.recommended == TransferSettings(max_concurrency=339)
    assert tuning.recheck is not None
    assert tuning.recheck.interval.estimate == pytest.approx(4.9 / 8.3)
    order = [point["max_concurrency"] for point in bench.pulled[6:]]
    assert order == [10, 339, 339, 10] * 3


def test_luck_is_not_recommended() -> None:
    """Fast in the search alone."""
    noise = itertools.cycle([1.0, 1.06, 0.97])

    def seconds(point, number: int) -> float:
        is_lucky = point["max_concurrency"] == 20 and number < 6
        return (3.0 if is_lucky else 4.0) * next(noise)

    bench = FakeBench(seconds)
    tuning = tuner(bench, Listed([DEFAULT, at(20)]), budget=Budget(trials=2)).run()
    assert tuning.best.point == at(20)
    assert tuning.recheck is not None
    assert tuning.recommended is None


def test_a_gain_too_small_to_be_worth_it_is_not_recommended() -> None:
    assert run({10: 4.0, 20: 3.9}, [10, 20])[0].recommended is None


def test_one_pair_alone_shows_nothing() -> None:
    assert run({10: 8.0, 20: 4.0}, [10, 20], pairs=1)[0].recommended is None


def test_nothing_is_rechecked_when_the_defaults_are_best() -> None:
    tuning, _, bench = run({10: 4.0, 20: 4.5}, [10, 20])
    assert tuning.recheck is None
    assert len(bench.pulled) == 6


@pytest.mark.parametrize(("limit_s", "pairs"), [(1.0, 2), (27.0, 2), (40.0, 3), (1000.0, 6)])
def test_the_recheck_begins_no_pair_that_its_time_does_not_allow(limit_s, pairs) -> None:
    bench = FakeBench(lambda point, number: 5.0 if point["max_concurrency"] == 20 else 8.0)
    made = PairedPulls(6, limit_s, bench.clock)
    made.run(bench, DEFAULT, at(20))
    checked = made.whole()
    assert checked is not None
    assert len(checked.best) == len(checked.default) == pairs and checked.wanted == 6
    told = conclusion(replace(run({10: 8.0, 20: 5.0}, [10, 20])[0], recheck=checked))[1]
    assert ("of the 6 wanted" in told) == (pairs < 6)


def test_noise_is_not_taken_for_a_limit() -> None:
    noise = itertools.cycle([1.0, 2.0, 0.7])
    bench = FakeBench(
        lambda point, number: 3.0 if number < 6 and point != DEFAULT else 4.0 * next(noise)
    )
    tuning = tuner(bench, Listed([DEFAULT, at(20)]), budget=Budget(trials=2)).run()
    assert tuning.recommended is None
    assert "differ too much to tell" in conclusion(tuning)[-1]


# -- a signal ----------------------------------------------------------------------------------


def interrupted_at(pull: int, signal: BaseException):
    """A tuning of two points, of three pulls each, that a signal ends in that pull."""

    def seconds(point, number: int) -> float:
        if number == pull:
            raise signal
        return 4.0 if point["max_concurrency"] == 20 else 8.0

    bench = FakeBench(seconds)
    return tuner(bench, Listed([DEFAULT, at(20)]), budget=Budget(trials=2)).run()


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), SystemExit(143)])
@pytest.mark.parametrize(("pull", "trials", "pairs"), [(4, 1, 0), (6, 2, 0), (9, 2, 1), (13, 2, 3)])
def test_a_signal_keeps_what_was_measured_and_nothing_is_recommended(
    signal: BaseException, pull: int, trials: int, pairs: int
) -> None:
    tuning = interrupted_at(pull, signal)
    assert tuning.ended_by is signal and tuning.recommended is None
    assert len(tuning.trials) == trials
    assert len(tuning.recheck.best if tuning.recheck else ()) == pairs
    assert any("Interrupted" in line for line in conclusion(tuning))
    assert len(csv_text(tuning).splitlines()) == 1 + trials
    assert tuning_document(tuning)["interrupted"]


def test_a_signal_before_the_first_trial_has_ended_leaves_nothing_to_keep() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_at(2, KeyboardInterrupt())


def test_how_long_it_may_take_is_said_before() -> None:
    made = tuner(FakeBench(lambda p, n: 1.0), budget=Budget(125.0))
    assert "search for at most 125 s" in plan_text(made) and "250 s in all" in plan_text(made)
    made.pairs = 0
    assert "without a recheck" in plan_text(made)


# -- the limit ---------------------------------------------------------------------------------


def limit(rates: dict[int, float], busy_share: float = 0.5, cpu_share: float = 0.5) -> str:
    times = {concurrency: BYTES / rate for concurrency, rate in rates.items()}
    bench = FakeBench(by_concurrency(times), busy_share=busy_share, cpu_share=cpu_share)
    strategy = Listed([at(concurrency) for concurrency in rates])
    tuned = tuner(bench, strategy, budget=Budget(1e6, trials=len(rates)), pairs=0).run()
    return tuned.limit


def test_the_limit_is_named() -> None:
    assert limit({10: 1e9, 20: 1e9}, busy_share=0.97) == (
        "the CPUs: 97% of their time were used while the defaults pulled"
    )
    aggregate = limit({10: 240 * 2**20, 100: 241 * 2**20, 300: 239 * 2**20})
    assert aggregate.startswith("an aggregate rate of 241 MiB/s: 10 and 300 connections")
    each = limit({20: 20 * 90 * 2**20, 10: 10 * 90 * 2**20, 40: 40 * 90 * 2**20})
    assert each == "the rate of a connection: 90.0 MiB/s each, with up to 40 connections"
    assert limit({10: 1e9, 11: 5e8}) == "not told by these trials"


def test_a_rate_that_the_defaults_do_not_reach_does_not_hold_them_back() -> None:
    assert limit({10: 7e8, 20: 1e9, 80: 1e9}) == "not told by these trials"


def test_a_worker_that_uses_its_core_up_holds_the_defaults_back() -> None:
    """On many CPUs the host is almost idle meanwhile, and any number of connections is as fast."""
    told = limit({10: 1e9, 20: 1e9, 80: 1e9}, busy_share=0.1, cpu_share=0.95)
    assert told.startswith("the CPU: a worker is one Python interpreter, and used 95% of a core")


@pytest.mark.parametrize(
    ("settings", "objects", "workers", "count"),
    [
        (TransferSettings(), {BYTES: 1}, 1, 10),
        (TransferSettings(339, 400619332), {BYTES: 1}, 1, 9),
        (TransferSettings(use_threads=False), {BYTES: 1}, 1, 1),
        (TransferSettings(), {BYTES: 4}, 2, 20),
        (TransferSettings(), {8 * MIB: 3}, 2, 3),
        (TransferSettings(200), {8 * MIB: 1000}, 2, 128),
        (TransferSettings(), {8 * MIB - 1: 1}, 1, 1),
        (TransferSettings(), {8 * MIB - 1: 1000}, 2, 20),
        (TransferSettings(200), {MIB: 1000}, 2, 128),
        (TransferSettings(use_threads=False), {MIB: 1000}, 2, 2),
        (TransferSettings(use_threads=False), {BYTES: 4}, 2, 2),
    ],
)
def test_connections_are_those_of_all_workers_that_have_something_to_fetch(
    settings: TransferSettings, objects: dict[int, int], workers: int, count: int
) -> None:
    assert connections(settings, Load(objects, workers)) == count


def test_a_limit_without_complete_trials_is_unknown() -> None:
    cut = Trial(0, DEFAULT, State.CUT, 1.0)
    assert name_limit(cut, [cut], TransferSettings(), LOAD) == "not told by these trials"


def test_trials_of_another_client_do_not_name_the_limit() -> None:
    """Its rate with the same connections would look like an aggregate rate, or none."""
    fast = {**at(40), "client": "boto3"}
    seconds = {10: 4.0, 20: 2.0, 40: 2.0}
    bench = FakeBench(lambda point, number: seconds[point["max_concurrency"]])
    points = [DEFAULT, at(20), fast]
    tuned = tuner(bench, Listed(points), budget=Budget(1e6, trials=3), pairs=0).run()
    assert tuned.limit.startswith("the rate of a connection")
