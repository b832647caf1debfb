"""The prediction: simulation against measured figures, the fit, what is extrapolated, the CLI."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import UsageError
from profiler.cli.main import main
from sysctl.prediction.fit import fit
from sysctl.prediction.simulation import Burst, simulate
from sysctl.results import PRESENT, Results
from sysctl.writeback import Thresholds
from tests.unit.predictions import BURST, DEVICE, MB, observed, results, setting, true_course
from tests.unit.sweeps import GIB

MIB = 2**20


def burst(size_bytes, rate=500 * MB, **others):
    return Burst(size_bytes, 0.0, rate, rate, **others)


def test_a_burst_below_freerun_takes_the_time_of_its_source():
    course = simulate(burst(1000 * MB), Thresholds(400 * MB, 2000 * MB), DEVICE)
    assert course.return_s == pytest.approx(2.0)
    assert course.flush_start_s == pytest.approx(0.8, abs=0.02)
    assert course.held_bytes == pytest.approx((1000 - 1.2 * 65) * MB, rel=0.01)
    assert course.throttled_s == 0


def test_nothing_is_written_below_background():
    course = simulate(burst(300 * MB), Thresholds(400 * MB, 2000 * MB), DEVICE)
    assert (course.flush_start_s, course.held_bytes) == (None, pytest.approx(300 * MB))


def test_a_source_slower_than_the_device_is_never_throttled():
    course = simulate(burst(1000 * MB, rate=50 * MB), Thresholds(10 * MB, 20 * MB), DEVICE)
    assert course.return_s == pytest.approx(20.0)
    assert course.peak_bytes < 12 * MB


@pytest.mark.parametrize(
    ("dirty", "background", "measured_s"), [(6, 3, 5.0), (4, 2, 10.8), (2, 1, 18.2)]
)
def test_throttled_bursts_return_as_they_were_measured(dirty, background, measured_s):
    """1,500 MiB by one writer, 60 MiB/s, 236 MiB per cent: measured on Linux 6.18 with XFS."""
    thresholds = Thresholds(background * 236 * MIB, dirty * 236 * MIB)
    course = simulate(burst(1500 * MIB, rate=2600 * MB), thresholds, 60 * MIB)
    assert course.return_s == pytest.approx(measured_s, rel=0.12)


def test_the_plateau_is_between_freerun_and_the_limit():
    thresholds = Thresholds(400 * MB, 800 * MB)
    course = simulate(burst(4000 * MB), thresholds, DEVICE)
    assert thresholds.freerun_bytes < course.held_bytes < thresholds.dirty_bytes
    assert course.return_s == pytest.approx((4000 * MB - course.held_bytes) / DEVICE, rel=0.03)


def test_old_pages_are_written_below_background_too():
    slow, thresholds = burst(4000 * MB, rate=80 * MB), Thresholds(10**12, 2 * 10**12)
    assert simulate(slow, thresholds, DEVICE).flush_start_s is None
    course = simulate(slow, thresholds, DEVICE, 30.0)
    assert course.flush_start_s == pytest.approx(30.0, abs=0.02)
    assert course.peak_bytes == pytest.approx((2400 + 20 * 15) * MB, rel=0.01)


def test_days_of_pulling_are_predicted_in_a_moment():
    began_s = time.process_time()
    course = simulate(burst(10 * 2**40), Thresholds(2**37, 2**38), DEVICE)
    assert time.process_time() - began_s < 2
    assert course.return_s == pytest.approx((10 * 2**40 - course.held_bytes) / DEVICE, rel=0.01)


@settings(deadline=None)
@given(
    size=st.integers(1, 10**11),
    source=st.integers(10**6, 10**10),
    device=st.integers(10**6, 10**10),
    dirty=st.integers(1, 10**11),
    background=st.integers(0, 10**11),
    writers=st.integers(1, 64),
)
def test_no_burst_is_faster_than_its_source_or_leaves_the_bounds(
    size, source, device, dirty, background, writers
):
    thresholds = Thresholds(min(background, dirty // 2), dirty)
    course = simulate(burst(size, rate=source, writers=writers), thresholds, device)
    assert course.return_s >= size / source * 0.999 - 1e-6
    assert math.isfinite(course.return_s)
    assert 0 <= course.held_bytes <= course.peak_bytes + 1 <= size + 2
    assert course.peak_bytes <= dirty + source * 0.011 + device


def test_the_fit_finds_the_rates_of_a_made_up_host():
    model = fit(results())
    assert model.source_bytes_per_s == pytest.approx(BURST.source_bytes_per_s, rel=0.02)
    assert model.flushed_bytes_per_s == pytest.approx(BURST.flushed_bytes_per_s, rel=0.05)
    assert model.device_bytes_per_s == pytest.approx(DEVICE, rel=0.02)
    assert model.burst.start_s == pytest.approx(BURST.start_s, abs=0.02)
    assert model.burst.writers == 2
    assert model.burst.tail_bytes == pytest.approx(25 * MB)


@pytest.mark.parametrize("pair", [(10, 2), (20, 10), (30, 20), (40, 5), (60, 10), (80, 40)])
def test_settings_that_were_not_measured_are_predicted(pair):
    values = setting(*pair).values
    told, true = fit(results()).predict(values), true_course(values)
    assert told.return_s == pytest.approx(true.return_s, rel=0.05)
    assert told.peak_dirty_bytes == pytest.approx(true.peak_bytes, rel=0.05)
    assert told.durable_s == pytest.approx(true.return_s + true.held_bytes / DEVICE, rel=0.03)


def test_other_memory_and_another_burst_are_predicted():
    told = fit(results()).predict(
        setting(20, 10).values, burst_bytes=3000 * MB, dirtyable_bytes=8 * GIB
    )
    true = true_course(
        setting(20, 10).values, replace(BURST, size_bytes=3000 * MB), dirtyable_bytes=8 * GIB
    )
    assert told.return_s == pytest.approx(true.return_s, rel=0.05)


def test_a_run_without_a_course_will_do_where_it_waited_for_the_device():
    model = fit(results(runs=((True, False),)))
    assert model.device_bytes_per_s == pytest.approx(DEVICE, rel=0.05)


def test_without_a_course_and_a_wait_for_the_device_there_is_no_model():
    with pytest.raises(UsageError, match="how fast the device writes"):
        fit(results(runs=((False, False),)))
    with pytest.raises(UsageError, match="no valid run of the present settings"):
        fit(Results({}, {}))


def test_what_is_far_from_the_measured_is_said():
    model = fit(results())
    present = setting(20, 10).values
    assert model.predict(present).extrapolates == ""
    far = model.predict(present, dirtyable_bytes=12 * GIB, burst_bytes=500 * MB).extrapolates
    assert far.startswith("memory is 3 times what was measured; the burst is 0.2 times")
    assert "seen without waits up to" in model.predict(setting(80, 40).values).extrapolates
    seen = fit(results(present=setting(80, 40)))
    assert seen.predict(setting(60, 40).values).extrapolates == ""


def test_a_threshold_that_is_not_named_stays_as_in_the_present_settings():
    model = fit(results())
    assert model.predict({"vm.dirty_ratio": 40}) == model.predict(setting(40, 10).values)
    in_bytes = {"vm.dirty_bytes": 4 * GIB * 40 // 100}
    assert model.predict(in_bytes) == model.predict(setting(40, 10).values)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "results.json"
    results(setting(60, 10)).save(path)
    return str(path)


def test_the_command_shows_measured_beside_predicted(saved, capsys):
    assert main(["predict", saved]) == 0
    shown = capsys.readouterr().out
    assert "dirty_ratio=60" in shown
    assert "present, kernel default" in shown
    assert "case study" in shown
    assert "measured" in shown
    assert "62.0 MiB/s" in shown


def test_the_command_answers_for_another_instance(saved, capsys):
    asked = ["--memory", "16GiB", "--burst", "3GiB", "--dirty-ratio", "20,40", "--json"]
    assert main(["predict", saved, *asked]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dirtyable_bytes"] == 16 * GIB
    assert document["burst_bytes"] == 3 * GIB
    first, second = document["settings"][0], document["settings"][-1]
    assert first["label"] == "present"
    assert second["sysctls"] == {"vm.dirty_ratio": 40}
    assert "memory is 4 times what was measured" in second["extrapolates"]
    assert second["return_seconds"] <= first["return_seconds"]
    assert first["measured_return_seconds"] is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--burst", "0B"], "--burst must be more than 0"),
        (["--dirty-ratio", "5"], "there is no valid setting"),
        (["--dirty-ratio", "200"], "out of range"),
        (["--dirty-ratio", "20", "--dirty-bytes", "1000000"], "set the same threshold"),
    ],
)
def test_the_command_refuses_what_cannot_be(saved, capsys, asked, says):
    assert main(["predict", saved, *asked]) == 2
    assert says in capsys.readouterr().err


def test_present_runs_alone_will_do():
    assert fit(results()) == fit(results(setting(60, 10)))
    assert observed(setting(20, 10)).trace[0].held_bytes == 7 * MB
    assert {trial.role for trial in results().trials} == {PRESENT}
