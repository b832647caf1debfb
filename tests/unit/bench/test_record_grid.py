# SPDX-License-Identifier: Apache-2.0
"""The recorder of the benchmarks' grids: what it plans, a bench whose memory moves, its files."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from contracts.shared.errors import WritewiseError
from profiler.lab.lab import LabSpec
from profiler.pull.settings import TransferSettings
from sysctl.evidence.results import CANDIDATE, PRESENT, Results
from tests.bench import grid_plan, grids
from tests.bench.grid_plan import (
    SETTINGS,
    GridSpec,
    by_ratio,
    largest,
    output_path,
    parser,
    planned_by,
    product_of,
    recording_path,
    small_set,
    steps,
)
from tests.bench.grids import comparable
from tests.bench.record_grid import keep_trial, measure_all, record_each
from tests.unit import predictions
from tests.unit.sweeps import CIRCUMSTANCES, GIB, MadeUpBench
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

RECORDED = product_of((20, 40, 60, 80), (5, 10))
PLANNED = list(steps(PRESENT_SETTING, RECORDED, 3))


def record(is_moved):
    """All trials of a grid; `is_moved(number, setting)` says during which memory was."""
    taken = iter(range(1000))

    def changed(setting, run):
        return {"dirtyable_bytes": 3 * GIB if is_moved(next(taken), setting) else 4 * GIB}

    results = Results(CIRCUMSTANCES, {})

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


def test_a_trial_that_stays_invalid_is_not_recorded_as_valid():
    results = record(lambda number, setting: setting == RECORDED[3])
    invalid = [t.setting for t in comparable(results).trials if t.problem]
    assert invalid == [RECORDED[3]] * 3


def test_each_round_measures_each_setting_once_the_present_one_included():
    size = len(RECORDED)  # 20/10 is among them, and is the present setting
    rounds = [PLANNED[at : at + size] for at in range(0, len(PLANNED), size)]
    assert len(rounds) == 3
    for each in rounds:
        assert {step.setting for step in each} == {PRESENT_SETTING, *RECORDED}
        assert [step.setting for step in each if step.role == PRESENT] == [PRESENT_SETTING]
    orders = {tuple(step.setting for step in each) for each in rounds}
    assert len(orders) == 3, "drawn anew for each round"
    assert list(steps(PRESENT_SETTING, RECORDED, 3)) == PLANNED, "the same in every recording"


def test_the_first_round_waits_for_the_device_under_the_present_settings_and_some_others():
    first, rest = PLANNED[: len(RECORDED)], PLANNED[len(RECORDED) :]
    durable = Counter(step.role for step in first if step.durable)
    assert durable == {PRESENT: 1, CANDIDATE: 4}
    assert not any(step.durable for step in rest)


def test_every_pair_of_the_grids_is_one_that_the_kernel_takes():
    assert len(product_of((10, 20, 40, 60, 80), (2, 5, 10, 20, 40))) == 19
    wide = product_of(tuple(range(10, 90, 10)), (1, 2, 5, 10, 15, 20, 30, 40))
    assert len(wide) == len(set(wide)) == 53
    assert largest(wide) == by_ratio(80, 40)


def test_the_documented_set_covers_all_pairs_of_levels():
    specs = small_set()
    assert len(specs) == len({spec.name for spec in specs}) == 5
    axes = [
        [getattr(spec, name) for spec in specs]
        for name in ("connection_bytes_per_s", "objects", "memory_bytes", "fstype")
    ]
    for one, other in itertools.combinations(axes, 2):
        assert len(set(one)) == len(set(other)) == 2
        assert len(set(zip(one, other))) == 4
    assert specs[0].lab == LabSpec(), "the demo's"
    assert specs[0].transfer == TransferSettings(), "today's default"
    assert all(len({*spec.settings, PRESENT_SETTING}) == 8 and spec.runs == 3 for spec in specs)


def parsed(*words):
    ((spec, output),) = planned_by(parser().parse_args(["one", *words]))
    return spec, output


def test_one_grid_is_recorded_as_asked():
    spec, output = parsed(
        *("--connection-rate", "12500kB", "--connections", "4", "--objects", "16"),
        *("--memory", "3GiB", "--fstype", "ext4", "--runs", "2"),
        *("--dirty", "20,40", "--background", "5", "--output", "mine.json.gz"),
    )
    assert spec.lab.connection_bytes_per_s == 12_500_000
    assert (spec.lab.object_count, spec.lab.memory_bytes) == (16, 3 * GIB)
    assert (spec.lab.fstype, spec.transfer.max_concurrency, spec.runs) == ("ext4", 4, 2)
    assert spec.settings == (by_ratio(20, 5), by_ratio(40, 5))
    assert output.name == "mine.json.gz"


def test_without_options_it_is_the_demos_lab_kept_with_the_others(monkeypatch, tmp_path):
    monkeypatch.setattr(grid_plan, "FOLDER", tmp_path)
    spec, output = parsed()
    assert (spec.lab, spec.settings) == (LabSpec(), SETTINGS)
    assert output == tmp_path / "grid-4096-40-xfs-10x90MB.json.xz"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dirty", "20"), "name both --dirty and --background"),
        (("--dirty", "5", "--background", "10"), "no valid setting"),
        (("--output", "mine.txt"), "must end in .json"),
        (("--output", "tests/unit/data/results-version-2.json"), "is there already"),
    ],
)
def test_an_impossible_grid_is_refused_before_anything_is_made(words, says, capsys):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".json", ".json.xz", ".json.gz"])
def test_recordings_are_read_back_with_any_compression(tmp_path, monkeypatch, ending):
    output = output_path(GridSpec(connection_bytes_per_s=12_500_000), tmp_path, ending)
    plain, results = recording_path(output), predictions.results(predictions.setting(40, 5))
    candidate = results.trials.pop()
    keep_trial(results, plain, False, 0.0, len(results.trials), candidate)
    monkeypatch.setattr(grids, "FOLDER", tmp_path)
    assert json.loads(plain.read_text())["trials"][2]["observation"]["trace"] == []
    assert grids.all_files() == [], "not one that is still recorded"
    grids.pack(plain, output)
    assert grids.all_files() == [output]
    assert not plain.exists()
    assert [path.name for path in tmp_path.iterdir()] == [output.name]
    assert grids.read(output).trials == results.trials


def planned(folder):
    return [(spec, output_path(spec, folder)) for spec in small_set()[:3]]


def test_a_grid_that_fails_does_not_stop_the_others(tmp_path, capsys):
    def record_one(spec, output):
        if spec == small_set()[0]:
            raise WritewiseError("no loop device")
        output.write_text("")
        return ["others wrote", "memory moved"] if spec == small_set()[1] else []

    problems = record_each(planned(tmp_path), record_one)
    assert problems == [
        f"{small_set()[0].name}: no loop device",
        f"{small_set()[1].name}: 2 trials still invalid, the first since others wrote",
    ]
    assert "8 settings × 3" in capsys.readouterr().out


def test_an_existing_grid_is_not_recorded_again(tmp_path, capsys):
    (_, first), (second, _), (third, _) = planned(tmp_path)
    first.write_text("recorded")
    recorded = []
    assert record_each(planned(tmp_path), lambda spec, output: recorded.append(spec) or []) == []
    assert recorded == [second, third]
    assert first.read_text() == "recorded"
    assert "is there already" in capsys.readouterr().out
