# SPDX-License-Identifier: Apache-2.0
"""The prediction's benchmark: what it judges, and that it judges out of sample."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from sysctl.evidence.prediction import Model, Prediction, fit
from sysctl.evidence.results import CANDIDATE, PRESENT, Results, Trial
from tests.bench import bench_prediction
from tests.bench.bench_prediction import errors_of, measured
from tests.bench.grids import present_only
from tests.unit.predictions import fitted, observed, results, setting
from tests.unit.sweeps import CIRCUMSTANCES, GIB
from tests.unit.sweeps import PRESENT as PRESENT_SETTING


def grid(*runs):
    """Present runs, and candidates each with (setting, return_s, stall_share)."""
    made = results()
    for each, return_s, stall_share in runs:
        seen = replace(observed(each), return_s=return_s, stall_share=stall_share)
        made.trials.append(Trial(CANDIDATE, each, "", seen))
    return made


def test_a_settings_time_is_the_median_of_its_runs_and_the_present_one_is_not_judged():
    made = grid(
        *((setting(40, 5), return_s, 0.3) for return_s in (9.0, 11.0, 10.0)),
        (setting(80, 40), 8.0, 0.019),
        (PRESENT_SETTING, 20.0, 0.8),
    )
    (throttled,) = measured(made, throttled=True)
    (free,) = measured(made, throttled=False)
    assert (throttled.setting, throttled.return_s) == (setting(40, 5), 10.0)
    assert throttled.durable_s is None
    assert (free.setting, free.return_s) == (setting(80, 40), 8.0)


@pytest.mark.parametrize("other", [{"mount_options": "noatime"}, {"transfer": (("x", 1),)}])
def test_settings_unknown_to_the_model_are_not_judged(other):
    made = grid((replace(setting(40, 5), **other), 9.0, 0.3))
    assert measured(made, throttled=True) == []


class FixedModel:
    """A model that always says 11 s, and keeps the memories that it was given."""

    def __init__(self):
        self.memories = []

    def predict(self, values, *, burst_bytes=None, dirtyable_bytes=None):
        self.memories.append(dirtyable_bytes)
        return Prediction(11.0, 33.0, 110, ())


def test_it_does_not_get_the_memory_of_a_trial():
    made = grid((setting(40, 5), 10.0, 0.3))
    odd = replace(made.trials[-1].observation, dirtyable_bytes=5 * GIB)
    made.trials[-1] = replace(made.trials[-1], observation=odd)
    spy = FixedModel()
    errors = errors_of(measured(made, throttled=True), cast(Model, spy))
    assert spy.memories == [None]
    assert errors.returned == (pytest.approx(10.0),)
    assert errors.durable == ()


def test_it_is_fitted_to_the_present_runs_alone(monkeypatch, capsys):
    roles = []

    def spy(known):
        roles.append({trial.role for trial in known.trials})
        return fit(known)

    monkeypatch.setattr(bench_prediction, "fit", spy)
    made = grid((setting(40, 5), 10.0, 0.3), (setting(80, 40), 99.0, 0.0))
    bench_prediction.print_errors("grids", {"mine": made})
    assert roles == [{PRESENT}]
    assert "1 throttled setting: median" in capsys.readouterr().out
    assert fitted(made).unthrottled_s() > 2 * fit(present_only(made)).unthrottled_s()


def test_results_that_cannot_be_predicted_are_named(capsys):
    made = results(runs=((False, True),))
    bench_prediction.print_errors("the files", {"mine.json": made})
    assert "- mine.json cannot be predicted: the runs of the current" in capsys.readouterr().out


def test_files_of_real_sweeps_are_judged_like_the_grids(tmp_path, monkeypatch, capsys):
    path = tmp_path / "results.json"
    grid((setting(40, 5), 10.0, 0.3)).save(path)
    monkeypatch.setattr("sys.argv", ["bench_prediction", str(path)])
    bench_prediction.main()
    shown = capsys.readouterr().out
    assert "Absolute errors of recorded grids" in shown
    assert "Absolute errors of the files that were named" in shown
    assert shown.count(str(path)) == 2


def test_an_empty_study_has_nothing_to_judge():
    empty = Results(CIRCUMSTANCES, {}, [], results().trials)
    assert measured(empty, throttled=True) == []
