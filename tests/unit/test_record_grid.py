"""The recorder of the benchmarks' grids, on a bench whose memory moves."""

from __future__ import annotations

import pytest

from sysctl.results import CANDIDATE, PRESENT, Results
from tests.bench.grids import comparable
from tests.bench.record_grid import BACKGROUND, DIRTY, grid, measure_all, steps
from tests.unit.sweeps import CONTEXT, GIB, MadeUpBench
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

SETTINGS = grid((20, 40, 60, 80), (5, 10))
PLANNED = list(steps(PRESENT_SETTING, SETTINGS))


def record(is_moved):
    """All trials of a grid; `is_moved(number, setting)` says during which memory was."""
    taken = iter(range(1000))

    def changed(setting, run):
        return {"dirtyable_bytes": 3 * GIB if is_moved(next(taken), setting) else 4 * GIB}

    results = Results(CONTEXT, {})

    def keep(at, trial):
        results.trials[at : at + 1] = [trial]

    measure_all(MadeUpBench(changed=changed), results, PLANNED, keep)
    return results


@pytest.mark.parametrize(
    "moved",
    [range(0), range(1), range(3), range(5, 6), range(4, 12), range(20, 24), range(9, 99, 4)],
    ids=repr,
)
def test_all_that_is_recorded_is_of_the_same_memory(moved):
    results = record(lambda number, setting: number in moved)
    assert [trial.setting for trial in results.trials] == [step.setting for step in PLANNED]
    assert {trial.problem for trial in comparable(results).trials} == {""}
    assert len({trial.valid.dirtyable_bytes for trial in results.trials}) == 1


def test_what_stays_invalid_is_not_passed_off_as_valid():
    results = record(lambda number, setting: setting == SETTINGS[3])
    assert [t.setting for t in comparable(results).trials if t.problem] == [SETTINGS[3]]


def test_the_present_settings_are_measured_as_a_sweep_begins_and_twice_more():
    roles = [step.role for step in PLANNED]
    assert roles[:2] == [PRESENT, PRESENT]
    assert PLANNED[0].durable
    assert roles.count(PRESENT) == 4
    assert roles[-1] == PRESENT


def test_the_grids_have_as_many_settings_as_the_goals_want():
    assert len(grid(DIRTY, BACKGROUND)) == 19
    wide = grid(tuple(range(10, 90, 10)), (1, 2, 5, 10, 15, 20, 30, 40))
    assert len(wide) == len(set(wide)) == 53
    assert {step.role for step in steps(PRESENT_SETTING, wide)} == {PRESENT, CANDIDATE}
