"""The prediction: simulation against measured figures, the fit, what is extrapolated, the CLI."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import UsageError
from profiler.cli.main import main
from sysctl.prediction import simulation
from sysctl.prediction.fit import fit
from sysctl.prediction.model import Model
from sysctl.prediction.simulation import Burst, simulate
from sysctl.results import PRESENT, Results, Trial
from sysctl.writeback import Thresholds
from tests.unit.predictions import BURST, DEVICE, MB, observed, results, setting, true_course
from tests.unit.sweeps import CONTEXT, GIB

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
    course = simulate(burst(10 * 2**40), Thresholds(2**37, 2**38), DEVICE)
    written_s = (10 * 2**40 - course.held_bytes) / DEVICE
    assert course.return_s == pytest.approx(course.flush_start_s + written_s, rel=1e-6)


def any_number(least, most):
    """As many small as large ones: by their order of magnitude."""
    spread = st.floats(math.log(least), math.log(most))
    return spread.map(lambda exponent: min(max(math.exp(exponent), least), most))


sizes, rates = any_number(1, 2**63), any_number(1, 10**15)
thresholds_of_all_sizes = st.one_of(
    st.builds(Thresholds, sizes.map(int), sizes.map(int)),
    st.builds(lambda dirty: Thresholds(dirty - 1, dirty), sizes.map(int)),
    st.builds(Thresholds, st.just(0), st.integers(0, 4096)),
)
#: Far beyond what any command asks for, in every combination.
anything = {
    "size": sizes,
    "source": rates,
    "flushed_part": st.floats(0.01, 1.0),
    "device": rates,
    "at": thresholds_of_all_sizes,
    "tail": st.one_of(st.just(0.0), sizes),
    "writers": st.integers(1, 10**6),
    "part": st.floats(1e-6, 1.0),
    "age_s": st.one_of(st.just(math.inf), st.floats(0, 1e9)),
}


@settings(deadline=None)
@given(**anything)
def test_whatever_is_simulated_ends_and_stays_within_what_is_possible(
    size, source, flushed_part, device, at, tail, writers, part, age_s
):
    flushed = source * flushed_part
    whole = Burst(size, 0.0, source, flushed, tail, writers, part)
    course = simulate(whole, at, device, age_s)
    free_s = (size + min(tail, size)) / flushed
    assert size / source * 0.999 <= course.return_s <= (free_s + size / device) * 1.001 + 0.02
    assert math.isfinite(course.return_s)
    assert course.return_s > 0
    assert 0 <= course.held_bytes <= course.peak_bytes
    assert course.peak_bytes <= min(size, max(1, at.dirty_bytes)) * (1 + 1e-9) + size * 1e-15


@settings(deadline=None)
@given(**anything)
def test_whatever_is_simulated_takes_a_bounded_number_of_steps(
    size, source, flushed_part, device, at, tail, writers, part, age_s
):
    """14,000 of 1.5 µs each: counted, as a clock would measure what else the host does."""
    steps = 0

    class Counting(simulation._Run):
        def _advance(self, step_s, rate):
            nonlocal steps
            steps += 1
            super()._advance(step_s, rate)

    whole = Burst(size, 0.0, source, source * flushed_part, tail, writers, part)
    Counting(whole, at, device, age_s).course()
    assert 0 < steps <= 14_003


@settings(deadline=None)
@given(size=sizes, source=rates, device=rates, at=thresholds_of_all_sizes)
def test_a_burst_takes_as_long_as_the_slower_of_source_and_device(size, source, device, at):
    """But for what is held at the end, and for what the device had not begun to write."""
    course = simulate(burst(size, rate=source), at, device)
    held = min(size, max(1, at.dirty_bytes))
    slowest = max(size / source, (size - held) / device)
    unflushed_s = min(size, at.background_bytes, held) / source
    assert slowest * 0.999 <= course.return_s
    assert course.return_s <= max(size / source, size / device) * 1.001 + unflushed_s + 0.02


@settings(deadline=None)
@given(
    size=any_number(MB, 2**50),
    source=any_number(10 * MB, 10**10),
    device=any_number(10 * MB, 10**10),
    dirty=any_number(MB, 2**46),
    part=st.floats(0.0, 0.95),
    more=st.floats(1.0, 100.0),
)
def test_more_data_takes_longer_and_a_faster_device_or_more_memory_does_not(
    size, source, device, dirty, part, more
):
    """But for where in a control interval of 0.2 s it ends."""

    def return_s(size=size, device=device, dirty=dirty):
        at = Thresholds(int(dirty * part), int(dirty))
        return simulate(burst(size, rate=source), at, device).return_s

    least_s = return_s() * 0.98 - 0.2
    assert return_s(size=size * more) >= least_s
    assert return_s(device=device / more) >= least_s
    assert return_s(dirty=dirty / more) >= least_s


def test_the_fit_finds_the_rates_of_a_made_up_host():
    model = fit(results())
    assert model.source_bytes_per_s == pytest.approx(BURST.source_bytes_per_s, rel=0.02)
    assert model.flushed_bytes_per_s == pytest.approx(BURST.flushed_bytes_per_s, rel=0.05)
    assert model.device_bytes_per_s == pytest.approx(DEVICE, rel=0.02)
    assert model.burst.start_s == pytest.approx(BURST.start_s, abs=0.02)
    assert model.burst.writers == 2
    assert model.burst.tail_bytes == pytest.approx(25 * MB)


def test_the_fit_has_the_writers_that_were_seen():
    made = results()
    for trial in made.trials:
        object.__setattr__(trial, "observation", replace(trial.observation, writers=20))
    burst = fit(made).burst
    assert burst.writers == 20
    assert burst.tail_bytes == pytest.approx(25 * MB)  # what the workers' last objects are


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


def test_the_source_is_seen_where_little_of_a_large_burst_is_free():
    """Freerun is at 644 MB, 1.6 % of the burst."""
    large = replace(observed(setting(20, 10)), bytes=40_000 * MB)
    model = fit(
        Results({**CONTEXT, "workers": 2}, {}, [], [Trial(PRESENT, setting(20, 10), "", large)])
    )
    assert model.source_bytes_per_s == pytest.approx(BURST.source_bytes_per_s, rel=0.02)
    assert model.flushed_bytes_per_s == pytest.approx(BURST.flushed_bytes_per_s, rel=0.05)
    assert model.burst.start_s == pytest.approx(BURST.start_s, abs=0.02)


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


def test_no_more_is_dirty_than_can_be():
    """vm.dirty_bytes takes any size, also one that no memory has."""
    model = fit(results())
    above = {"vm.dirty_bytes": 2**62, "vm.dirty_background_bytes": 2**61}
    told = model.predict(above, burst_bytes=100 * GIB)
    assert told.peak_dirty_bytes <= 4 * GIB
    assert "the dirty threshold is above the memory that can be dirtied" in told.extrapolates
    assert "above the memory" not in model.predict(setting(100, 10).values).extrapolates


@pytest.mark.parametrize(
    ("part", "says"),
    [(3, "3"), (2.5, "2.5"), (0.2, "0.2"), (0.0004, "0.0004"), (2000, "2,000")],
)
def test_how_far_it_extrapolates_is_told_by_a_factor(part, says):
    told = fit(results()).predict({}, burst_bytes=int(2000 * MB * part)).extrapolates
    assert f"the burst is {says} times what was measured" in told


def test_a_threshold_that_is_not_named_stays_as_in_the_present_settings():
    model = fit(results())
    assert model.predict({"vm.dirty_ratio": 40}) == model.predict(setting(40, 10).values)
    in_bytes = {"vm.dirty_bytes": 4 * GIB * 40 // 100}
    assert model.predict(in_bytes) == model.predict(setting(40, 10).values)


def best_s(model, device, memory):
    """Under the best of many thresholds."""
    pairs = [(d, b) for d in (90, 100) for b in (*range(0, d, 15), d - 1)]
    ats = (Thresholds(int(memory * b / 100), int(memory * d / 100)) for d, b in pairs)
    return min(simulate(model.burst, at, device, 32.5).return_s for at in ats)


@pytest.mark.parametrize(("source", "device"), [(230, 62), (1000, 250), (100, 60)])
@pytest.mark.parametrize("size_gib", [4.5, 8, 40])
def test_what_would_help_is_enough_and_no_more_than_that(source, device, size_gib):
    """Beside it, by the same simulation: S·(1 - M/N), which balances the bytes, is not enough."""
    rate, size, memory = source * MIB, int(size_gib * GIB), 4 * GIB
    model = Model(
        present=setting(20, 10).values,
        burst=burst(size, rate=rate, writers=16, rate_limit_part=0.1),
        dirtyable_bytes=memory,
        device_bytes_per_s=device * MIB,
        seen_bytes=GIB,
    )
    assert model.unthrottled_s() == pytest.approx(size / rate)
    in_time_s = 1.02 * size / rate
    needed, needed_memory = model.rate_needed_bytes_per_s(), model.memory_needed_bytes()
    if needed is None:
        assert needed_memory is None
        assert best_s(model, device * MIB, memory) <= in_time_s * 1.001
        return
    assert best_s(model, needed, memory) <= in_time_s < best_s(model, needed * 0.96, memory)
    assert best_s(model, device * MIB, needed_memory) <= in_time_s * 1.005
    assert best_s(model, device * MIB, needed_memory * 0.96) > in_time_s


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


def test_the_memory_of_the_host_itself_tells_what_is_told_without_it(tmp_path, capsys):
    """The first reading of what can be dirtied was more than the runs began with."""
    path, study = tmp_path / "results.json", results()
    study.context.update(available_bytes=5 * GIB, dirtyable_bytes=6 * GIB)
    study.save(path)
    documents = []
    for memory in ([], ["--memory", "5GiB"], ["--memory", "10GiB"]):
        assert main(["predict", str(path), "--json", *memory]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    without, with_its_own, with_twice = documents
    assert with_its_own == {**without, "settings": with_its_own["settings"]}
    for one, other in zip(without["settings"], with_its_own["settings"]):
        assert one == other
    assert "memory is" not in with_twice["settings"][0]["extrapolates"]


ONE_TO_100 = ",".join(map(str, range(1, 101)))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--burst", "0B"], "--burst 0B is out of range\n  → use 1B to 1PiB"),
        (["--burst", "2PiB"], "--burst 2PiB is out of range\n  → use 1B to 1PiB"),
        (["--memory", "0B"], "--memory 0B is out of range\n  → use 1MiB to 64TiB"),
        (["--memory", "1PiB"], "--memory 1PiB is out of range\n  → use 1MiB to 64TiB"),
        (["--dirty-ratio", "5"], "there is no valid setting"),
        (
            ["--dirty-ratio", ONE_TO_100, "--dirty-background-ratio", ONE_TO_100],
            "these are 10,000 settings, at most 1000 are predicted\n  → name fewer values",
        ),
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
