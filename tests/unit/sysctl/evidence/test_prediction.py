# SPDX-License-Identifier: Apache-2.0
"""The prediction: its formula against measurements, the fit, the extrapolation and the CLI."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.shared.errors import UsageError
from profiler.cli.main import main
from profiler.report.prediction import extrapolated_text
from sysctl.evidence.prediction import IN_TIME, Model, waiting_bytes
from sysctl.evidence.results import CANDIDATE, PRESENT, Results, TracePoint, Trial
from sysctl.knobs.writeback import effective_thresholds
from tests.unit.predictions import (
    BURST,
    DEVICE,
    MB,
    SOURCE,
    START_S,
    fitted,
    observed,
    results,
    setting,
    true_course,
)
from tests.unit.sweeps import GIB, circumstances

MIB = 2**20
AMPLE = 2**62


def model(size_bytes, memory=AMPLE, source=500 * MB, device=DEVICE, present=None):
    """A pull on a host of these rates; far more memory than it needs by default."""
    return Model(
        present=present or setting(20, 10).values,
        burst_bytes=size_bytes,
        dirtyable_bytes=memory,
        source_bytes_per_s=source,
        device_bytes_per_s=device,
        seen_bytes=size_bytes,
    )


def in_bytes(background, dirty):
    """Thresholds as sysctls."""
    return {"vm.dirty_bytes": int(dirty), "vm.dirty_background_bytes": int(background)}


def test_a_burst_below_freerun_takes_the_time_of_its_source():
    predicted = model(1000 * MB).predict(in_bytes(400 * MB, 2000 * MB))
    assert predicted.return_s == pytest.approx(2.0)
    assert predicted.durable_s == pytest.approx(0.8 + 1000 / 65)
    assert predicted.peak_dirty_bytes == pytest.approx((1000 - 1.2 * 65) * MB)


def test_nothing_is_written_below_background():
    predicted = model(300 * MB).predict(in_bytes(400 * MB, 2000 * MB))
    assert predicted.return_s == pytest.approx(0.6)
    assert predicted.durable_s == pytest.approx(0.6 + 300 / 65), "the wait for the device begins it"
    assert predicted.peak_dirty_bytes == 300 * MB


def test_a_source_slower_than_the_device_is_never_throttled():
    predicted = model(1000 * MB, source=50 * MB).predict(in_bytes(10 * MB, 20 * MB))
    assert predicted.return_s == pytest.approx(20.0)
    assert predicted.durable_s == pytest.approx(20.0)
    assert predicted.peak_dirty_bytes == 10 * MB


@pytest.mark.parametrize(
    ("dirty", "background", "measured_s"), [(6, 3, 5.0), (4, 2, 10.8), (2, 1, 18.2)]
)
def test_throttled_bursts_return_as_they_were_measured(dirty, background, measured_s):
    """1,500 MiB by one writer, 60 MiB/s, 236 MiB per cent: measured on Linux 6.18 with XFS."""
    known = model(1500 * MIB, memory=23_600 * MIB, source=2600 * MB, device=60 * MIB)
    predicted = known.predict(setting(dirty, background).values)
    assert predicted.return_s == pytest.approx(measured_s, rel=0.08)


def test_while_writers_are_throttled_dirty_bytes_stay_at_the_set_point():
    """Half way from freerun, 600 MB, to the limit, 800 MB; by hand."""
    predicted = model(4000 * MB).predict(in_bytes(400 * MB, 800 * MB))
    assert predicted.return_s == pytest.approx(0.8 + (4000 - 700) / 65)
    assert 700 * MB < predicted.peak_dirty_bytes < 800 * MB


def test_a_background_threshold_that_is_not_below_the_other_counts_as_half_of_it():
    known = model(4000 * MB)
    swapped = known.predict(in_bytes(800 * MB, 800 * MB))
    assert swapped == known.predict(in_bytes(400 * MB, 800 * MB))


def test_old_pages_are_written_below_background_too():
    """By default they are written after 32.5 s: 30 s, and half of a period of 5 s."""
    slow, ample = model(4000 * MB, source=80 * MB), in_bytes(10**12, 2 * 10**12)
    assert slow.predict(ample).durable_s == pytest.approx(32.5 + 4000 / 65)
    never = {**ample, "vm.dirty_writeback_centisecs": 0}
    assert slow.predict(never).durable_s == pytest.approx(50 + 4000 / 65)
    assert slow.predict(never).peak_dirty_bytes == 4000 * MB
    assert slow.predict(ample).peak_dirty_bytes == pytest.approx(4000 * MB - 17.5 * DEVICE)


def any_number(least, most):
    """As many small as large ones: by their order of magnitude."""
    spread = st.floats(math.log(least), math.log(most))
    return spread.map(lambda exponent: min(max(math.exp(exponent), least), most))


sizes, rates = any_number(1, 2**62).map(int), any_number(1e3, 1e12)


@settings(deadline=None)
@given(
    size=sizes,
    memory=sizes,
    source=rates,
    device=rates,
    dirty=sizes,
    background=sizes,
    age=st.integers(0, 10**6),
)
def test_every_prediction_is_possible(size, memory, source, device, dirty, background, age):
    values = {**in_bytes(background, dirty), "vm.dirty_expire_centisecs": age}
    predicted = model(size, memory, source, device).predict(values)
    exact = 1 + 1e-9
    assert size / source <= predicted.return_s <= predicted.durable_s * exact
    assert predicted.durable_s <= (size / source + size / device) * exact
    assert size / device <= predicted.durable_s * exact
    assert 0 <= predicted.peak_dirty_bytes <= min(size, dirty, memory) * exact + 1


@settings(deadline=None)
@given(
    size=any_number(MB, 2**50).map(int),
    source=any_number(10 * MB, 10**10),
    device=any_number(10 * MB, 10**10),
    memory=any_number(MB, 2**46).map(int),
    dirty=st.integers(2, 100),
    part=st.floats(0.0, 0.95),
    more=st.floats(1.0, 100.0),
)
def test_more_data_takes_longer_and_a_faster_device_or_more_memory_does_not(
    size, source, device, memory, dirty, part, more
):
    def return_s(size=size, device=device, memory=memory):
        at = setting(dirty, int(dirty * part)).values
        return model(size, memory, source, device).predict(at).return_s

    least_s = return_s() * (1 - 1e-6)
    assert return_s(size=int(size * more)) >= least_s
    assert return_s(device=device / more) >= least_s
    assert return_s(memory=int(memory / more)) >= least_s


def test_the_fit_finds_the_rates_of_a_made_up_host():
    known = fitted(results())
    assert known.source_bytes_per_s == pytest.approx(SOURCE, rel=0.01)
    assert known.device_bytes_per_s == pytest.approx(DEVICE, rel=0.01)
    assert known.burst_bytes == BURST


def of_trials(*runs, role=PRESENT):
    return Results(circumstances(workers=2), {}, [], [Trial(role, *run) for run in runs])


@pytest.mark.parametrize(("writers", "stall_share"), [(2, 0.9), (20, 0.3), (20, 0.05)])
def test_the_sources_rate_is_seen_in_a_short_part_whatever_the_stall_share(writers, stall_share):
    """The demo: 1.4 GB/s, freerun after 0.45 s, and a point each 0.1 s; most threads idle."""
    source = 1400 * MB
    seen = observed(setting(20, 10), durable=True, source=source)
    seen = replace(seen, writers=writers, stall_share=stall_share, trace=seen.trace[::2])
    free = [point for point in seen.trace if point.held_bytes <= seen.thresholds.freerun_bytes]
    assert len(free) == 5
    known = fitted(of_trials((setting(20, 10), "", seen)))
    assert known.source_bytes_per_s == pytest.approx(source, rel=0.02)
    assert known.unthrottled_s() == pytest.approx(BURST / source, rel=0.02)


@pytest.mark.parametrize("step", [4, 100])
def test_where_too_little_shows_the_sources_rate_none_is_made_up(step):
    """Points each 0.2 s, two of them before writers wait: what arrived by one is its start."""
    seen = observed(setting(20, 10), durable=True, source=1400 * MB)
    seen = replace(seen, trace=seen.trace[::step])
    with pytest.raises(UsageError, match="do not show how fast the source is") as raised:
        fitted(of_trials((setting(20, 10), "", seen)))
    assert "sweep with --dirty-ratio 80" in raised.value.hint


def test_points_that_are_too_near_each_other_do_not_show_the_sources_rate():
    seen = observed(setting(20, 10), durable=True)
    near = tuple(TracePoint(p.time_s / 100, p.held_bytes, p.written_bytes) for p in seen.trace)
    with pytest.raises(UsageError, match="do not show how fast the source is"):
        fitted(of_trials((setting(20, 10), "", replace(seen, trace=near))))


def test_the_start_of_the_connections_is_not_the_sources_rate():
    """Half a second of nothing, as where each connection waits for a first byte."""
    seen = observed(setting(20, 10), durable=True)
    late = [TracePoint(p.time_s + 0.5, p.held_bytes, p.written_bytes) for p in seen.trace]
    trace = (*(TracePoint(n / 10, seen.trace[0].held_bytes, 0) for n in range(5)), *late)
    known = fitted(of_trials((setting(20, 10), "", replace(seen, trace=trace))))
    assert known.source_bytes_per_s == pytest.approx(SOURCE, rel=0.01)


def test_the_source_is_seen_where_little_of_a_large_burst_is_free():
    """Freerun is at 644 MB, 1.6 % of the burst."""
    seen = replace(observed(setting(20, 10), durable=True), bytes=40_000 * MB)
    known = fitted(of_trials((setting(20, 10), "", seen)))
    assert known.source_bytes_per_s == pytest.approx(SOURCE, rel=0.01)


def test_runs_in_which_writers_hardly_waited_are_the_best_evidence_of_the_source():
    """Also a candidate's, also where the present runs have a course; their median."""
    known = results()
    for return_s in (9.0, 10.0, 12.0):
        seen = replace(observed(setting(80, 40)), return_s=return_s, stall_share=0.019)
        known.trials.append(Trial(CANDIDATE, setting(80, 40), "", seen))
    assert fitted(known).unthrottled_s() == pytest.approx(10.0)
    assert fitted(known).seen_bytes > 2 * fitted(results()).seen_bytes


def test_runs_that_waited_failed_or_pulled_otherwise_are_no_evidence_of_the_source():
    expected = fitted(results())
    calm = replace(observed(setting(80, 40)), return_s=30.0, stall_share=0.0)
    other = replace(setting(80, 40), transfer=(("max_concurrency", 2),))
    for trial in (
        Trial(CANDIDATE, setting(80, 40), "", replace(calm, stall_share=0.02)),
        Trial(CANDIDATE, setting(80, 40), "", calm, problem="others wrote"),
        Trial(CANDIDATE, setting(80, 40), "", None, stopped_s=9.0),
        Trial(CANDIDATE, other, "", calm),
    ):
        known = results()
        known.trials.append(trial)
        assert fitted(known) == expected


def test_the_device_is_not_credited_with_the_time_before_it_began_to_write():
    """Its threshold is above the burst: it begins at the wait for it, which the return is."""
    known = fitted(results(present=setting(80, 60), runs=((True, False),)))
    assert known.device_bytes_per_s == pytest.approx(DEVICE, rel=0.01)
    assert known.unthrottled_s() == pytest.approx(START_S + BURST / SOURCE, abs=0.02)


@pytest.mark.parametrize(
    ("pair", "return_rel", "peak_rel"),
    [
        ((10, 2), 0.02, 0.07),
        ((20, 10), 0.02, 0.07),
        ((30, 20), 0.04, 0.07),
        ((40, 5), 0.12, 0.23),  # the burst ends before it has settled: the weak point
        ((40, 20), 0.12, 0.07),
        ((60, 10), 0.06, 0.01),
        ((80, 40), 0.01, 0.01),
    ],
)
def test_settings_that_were_not_measured_are_predicted(pair, return_rel, peak_rel):
    values = setting(*pair).values
    predicted, true = fitted(results()).predict(values), true_course(values)
    assert predicted.return_s == pytest.approx(true.return_s, rel=return_rel)
    assert predicted.peak_dirty_bytes == pytest.approx(true.peak_bytes, rel=peak_rel)
    assert predicted.durable_s == pytest.approx(true.return_s + true.held_bytes / DEVICE, rel=0.01)


def test_other_memory_and_another_burst_are_predicted():
    size, memory = 3000 * MB, 8 * GIB
    predicted = fitted(results()).predict(
        setting(20, 10).values, burst_bytes=size, dirtyable_bytes=memory
    )
    true = true_course(setting(20, 10).values, burst_bytes=size, dirtyable_bytes=memory)
    assert predicted.return_s == pytest.approx(true.return_s, rel=0.05)


def test_without_a_wait_for_the_device_or_a_valid_run_there_is_no_model():
    with pytest.raises(UsageError, match="how fast the device writes"):
        fitted(results(runs=((False, True),)))
    with pytest.raises(UsageError, match="no valid run of the current settings"):
        fitted(Results(circumstances(), {}))


def test_a_prediction_far_from_the_measurements_is_reported():
    known = fitted(results())
    present = setting(20, 10).values
    assert known.predict(present).extrapolates == ()
    far = known.predict(present, dirtyable_bytes=12 * GIB, burst_bytes=500 * MB).extrapolates
    assert extrapolated_text(far).startswith(
        "memory is 3 times what was measured; the burst is 0.2 times"
    )
    beyond = known.predict(setting(80, 40).values).extrapolates
    assert "seen without waits up to" in extrapolated_text(beyond)
    seen = fitted(results(present=setting(80, 40)))
    assert seen.predict(setting(60, 40).values).extrapolates == ()


def test_no_more_than_the_dirtyable_memory_is_dirty():
    """vm.dirty_bytes takes any size, also one that no memory has."""
    known = fitted(results())
    above = {"vm.dirty_bytes": 2**62, "vm.dirty_background_bytes": 2**61}
    predicted = known.predict(above, burst_bytes=100 * GIB)
    assert predicted.peak_dirty_bytes <= 4 * GIB
    assert "the dirty threshold is above the memory that can be dirtied" in extrapolated_text(
        predicted.extrapolates
    )
    within = known.predict(setting(100, 10).values).extrapolates
    assert "above the memory" not in extrapolated_text(within)


@pytest.mark.parametrize(
    ("part", "says"),
    [(3, "3"), (2.5, "2.5"), (0.2, "0.2"), (0.0004, "0.0004"), (2000, "2,000")],
)
def test_the_extrapolation_is_reported_as_a_factor(part, says):
    predicted = fitted(results()).predict({}, burst_bytes=int(2000 * MB * part)).extrapolates
    assert f"the burst is {says} times what was measured" in extrapolated_text(predicted)


def test_a_threshold_that_is_not_named_stays_as_in_the_current_settings():
    known = fitted(results())
    assert known.predict({"vm.dirty_ratio": 40}) == known.predict(setting(40, 10).values)
    as_bytes = {"vm.dirty_bytes": 4 * GIB * 40 // 100}
    assert known.predict(as_bytes) == known.predict(setting(40, 10).values)


def best_s(known, device, memory):
    """Under the best of many thresholds, as the line itself predicts them."""
    known = replace(known, device_bytes_per_s=device, dirtyable_bytes=round(memory))
    pairs = [(d, b) for d in (90, 100) for b in (*range(0, d, 15), d - 1)]
    by_ratio = [setting(*pair).values for pair in pairs]
    all_of_it = [in_bytes(1, memory), in_bytes(memory - 4096, memory)]
    return min(known.predict(values).return_s for values in (*by_ratio, *all_of_it))


@pytest.mark.parametrize(("source", "device"), [(230, 62), (1000, 250), (1000, 10), (100, 60)])
@pytest.mark.parametrize("size_gib", [3.5, 4.5, 8, 40, 400])
def test_the_reported_help_is_just_enough(source, device, size_gib):
    memory = 4 * GIB
    known = model(int(size_gib * GIB), memory, source * MIB, device * MIB)
    in_time_s = (1 + IN_TIME) * known.unthrottled_s()
    needed, needed_memory = known.rate_needed_bytes_per_s(), known.memory_needed_bytes()
    if needed is None:
        assert needed_memory is None
        assert best_s(known, device * MIB, memory) <= in_time_s * 1.001
        return
    assert best_s(known, needed, memory) <= in_time_s * 1.001
    assert best_s(known, needed * 0.98, memory) > in_time_s
    assert best_s(known, device * MIB, needed_memory) <= in_time_s * 1.001
    assert best_s(known, device * MIB, needed_memory * 0.98) > in_time_s


def test_both_kinds_of_best_background_threshold_occur():
    """A late one where the source is much faster than the device, else none."""
    for source, is_late in ((100, False), (2000, True)):
        known = model(8 * GIB, 4 * GIB, source * MIB, 60 * MIB)
        memory = round(known.memory_needed_bytes())
        enough = replace(known, dirtyable_bytes=memory)
        took_s = [
            enough.predict(in_bytes(background, memory)).return_s
            for background in (1, memory - 4096)
        ]
        in_time_s = (1 + IN_TIME) * known.unthrottled_s() * 1.001
        assert [took <= in_time_s for took in took_s] == [not is_late, is_late]


def test_old_pages_count_in_what_would_help():
    """200 s until memory is full, but write-back begins after 32.5 s."""
    known = model(400 * GIB, 200 * GIB, 1000 * MIB, 200 * MIB)
    never = replace(known, present={**known.present, "vm.dirty_writeback_centisecs": 0})
    assert known.memory_needed_bytes() < never.memory_needed_bytes() * 0.95
    assert known.rate_needed_bytes_per_s() < never.rate_needed_bytes_per_s() * 0.95


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "results.json"
    results(setting(60, 10)).save(path)
    return str(path)


def test_the_command_shows_measured_next_to_predicted_times(saved, capsys):
    assert main(["predict", saved]) == 0
    shown = capsys.readouterr().out
    assert "dirty_ratio=60" in shown
    assert "current, kernel default" in shown
    assert "case study" in shown
    assert "measured" in shown
    assert "the device wrote 61.9 MiB/s" in shown


def test_the_command_answers_for_another_instance(saved, capsys):
    asked = ["--memory", "16GiB", "--burst", "3GiB", "--dirty-ratio", "20,40", "--json"]
    assert main(["predict", saved, *asked]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dirtyable_bytes"] == 16 * GIB
    assert document["burst_bytes"] == 3 * GIB
    first, second = document["settings"][0], document["settings"][-1]
    assert first["label"] == "current"
    assert second["sysctls"] == {"vm.dirty_ratio": 40}
    assert "memory is 4 times what was measured" in second["extrapolates"]
    assert second["return_s"] <= first["return_s"]
    assert first["measured_return_s"] is None


def test_the_hosts_own_memory_gives_the_same_prediction_as_none(tmp_path, capsys):
    """The first reading of what can be dirtied was more than the runs began with."""
    path, study = tmp_path / "results.json", results()
    study.circumstances = circumstances(workers=2, available_bytes=5 * GIB, dirtyable_bytes=6 * GIB)
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
        (["--dirty-ratio", "5"], "no valid setting: "),
        (
            ["--dirty-ratio", ONE_TO_100, "--dirty-background-ratio", ONE_TO_100],
            "too many settings: 10,000, at most 1,000\n  → pass fewer values",
        ),
        (["--dirty-ratio", "200"], "out of range"),
        (["--dirty-ratio", "20", "--dirty-bytes", "1000000"], "set the same threshold"),
    ],
)
def test_the_command_refuses_impossible_values(saved, capsys, asked, says):
    assert main(["predict", saved, *asked]) == 2
    assert says in capsys.readouterr().err


def test_candidates_in_which_writers_waited_change_nothing():
    assert fitted(results()) == fitted(results(setting(40, 10)))
    assert {trial.role for trial in results().trials} == {PRESENT}


def test_the_command_reports_what_it_cannot_predict(tmp_path, capsys):
    seen = observed(setting(20, 10), durable=True, trace=False)
    of_trials((setting(20, 10), "", seen)).save(tmp_path / "r.json")
    assert main(["predict", str(tmp_path / "r.json")]) == 2
    assert "do not show how fast the source is" in capsys.readouterr().err


def test_a_higher_background_threshold_shortens_the_wait_of_a_burst_below_the_set_point():
    """All of it fits below both set points, and far more of it waits where freerun is lower."""
    burst, memory = round(2.83 * GIB), 4 * GIB
    raised, plain = (
        waiting_bytes(burst, effective_thresholds(setting(90, background).values, memory))
        for background in (45, 10)
    )
    assert 0 < raised < 0.5 * plain
    assert waiting_bytes(GIB, effective_thresholds(setting(90, 45).values, memory)) == 0
    far = effective_thresholds(setting(20, 10).values, memory)
    assert waiting_bytes(40 * GIB, far) == pytest.approx(40 * GIB - far.setpoint_bytes)
