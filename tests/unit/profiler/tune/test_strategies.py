"""What holds for every strategy; those whose library is not installed are skipped by name."""

from __future__ import annotations

import math

import pytest

from contracts.shared.errors import RequirementError, UsageError
from profiler.pull.settings import TransferSettings
from profiler.tune import strategies
from profiler.tune.budget import Budget
from profiler.tune.space import ALL_AXES, Range, point_of
from profiler.tune.strategies import ALL, Kind, make_strategy, present_strategy
from tests.unit.tunes import BYTES, FakeBench, tuner

FIRST = [
    point_of(TransferSettings(), ALL_AXES),
    point_of(TransferSettings(100, 2**25, use_threads=False), ALL_AXES),
]


def seconds(point, number: int = 0) -> float:
    """Best at 64 connections, parts of 32 MiB and chunks of 1 MiB, where it takes 2 s."""
    best = {"max_concurrency": 64, "multipart_chunksize": 2**25, "io_chunksize": 2**20}
    return 2 + sum(abs(math.log(point[name] / value)) for name, value in best.items())


@pytest.fixture(params=ALL, ids=lambda kind: kind.name)
def name(request: pytest.FixtureRequest) -> str:
    kind: Kind = request.param
    if not kind.is_here:
        pytest.skip(f"{kind.needs} is not installed: pip install -e .[{kind.extra}]")
    return kind.name


class TestEveryStrategy:
    def test_begins_with_the_points_it_was_given(self, name: str) -> None:
        strategy = make_strategy(name, ALL_AXES, FIRST)
        for point in FIRST:
            asked = strategy.ask()
            assert asked == point
            strategy.tell(asked, 1.0)

    def test_stays_within_the_space(self, name: str) -> None:
        strategy = make_strategy(name, ALL_AXES, FIRST[:1], seed=3)
        for number in range(12):
            point = strategy.ask()
            assert set(point) == {axis.name for axis in ALL_AXES}
            for axis in ALL_AXES:
                value = point[axis.name]
                if isinstance(axis, Range):
                    assert type(value) is int
                    assert axis.low <= value <= axis.high
                else:
                    assert type(value) is bool
            strategy.tell(point, None if number % 3 == 2 else seconds(point))

    def test_proposes_the_same_for_the_same_seed_and_answers(self, name: str) -> None:
        assert self.proposed(name, 5) == self.proposed(name, 5)
        assert self.proposed(name, 5) != self.proposed(name, 6)

    def proposed(self, name: str, seed: int) -> list[object]:
        strategy, points = make_strategy(name, ALL_AXES, FIRST, seed), []
        for _ in range(8):
            points.append(strategy.ask())
            strategy.tell(points[-1], seconds(points[-1]))
        return points

    def test_finds_better_settings_than_the_defaults(self, name: str) -> None:
        tuning = tuner(FakeBench(seconds), name, budget=Budget(1e6, trials=20), pairs=2).run()
        assert tuning.default.mean_s == pytest.approx(seconds(tuning.default.point))
        assert tuning.best.mean_s < tuning.default.mean_s
        assert tuning.trials[0].pulls[0].bytes == BYTES


def test_an_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="'gp' is no strategy"):
        make_strategy("gp", ALL_AXES, FIRST)


def test_what_is_not_installed_is_said_with_the_extra(monkeypatch) -> None:
    monkeypatch.setattr(strategies.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RequirementError) as error:
        make_strategy("syne-tune", ALL_AXES, FIRST)
    assert "syne_tune, which is not installed" in error.value.message
    assert "`tools/setup syne-tune`" in error.value.hint
    assert present_strategy() == "random"
