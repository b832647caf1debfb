"""The sweep's order, its resume and its failures, with a made-up bench."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from contracts.errors import UsageError, WritewiseError
from sysctl import results as results_module
from sysctl.results import CANDIDATE, PRESENT, RECHECK, load
from sysctl.search.grid import build_grid
from sysctl.setting import Setting
from tests.unit import sweeps
from tests.unit.sweeps import GIB, by_ratio, failing, sweep


def roles(results):
    return [trial.role for trial in results.trials]


def test_present_settings_run_first_in_the_middle_and_last_and_the_best_is_confirmed():
    results = sweep()
    assert roles(results) == [
        PRESENT,
        *[CANDIDATE] * 3,
        PRESENT,
        *[CANDIDATE] * 3,
        PRESENT,
        RECHECK,
    ]
    assert results.trials[-1].setting.values["vm.dirty_ratio"] == 80
    assert [t.observation.durable_s for t in results.trials if t.observation.durable_s] == [
        31.5
    ] * 2


def test_candidates_go_from_the_smallest_threshold_to_the_largest():
    grid, _ = build_grid(
        {"vm.dirty_ratio": (80, 40), "vm.dirty_background_ratio": (10, 5)}, (), sweeps.PRESENT, GIB
    )
    order = [tuple(setting.values.values()) for setting in grid.candidates]
    assert order == [(40, 5), (40, 10), (80, 5), (80, 10)]


def test_pairs_that_the_kernel_would_halve_are_left_out_with_the_reason():
    values = {"vm.dirty_ratio": (5, 40), "vm.dirty_background_ratio": (5, 10)}
    grid, left_out = build_grid(values, ("", "noatime"), sweeps.PRESENT, GIB)
    assert len(grid.candidates) == 4
    assert [item.what for item in left_out] == [
        "dirty_ratio=5 dirty_background_ratio=5",
        "dirty_ratio=5 dirty_background_ratio=10",
    ]
    assert all("halve" in item.why for item in left_out)


def test_bytes_are_compared_with_a_ratio_that_stays():
    grid, left_out = build_grid({"vm.dirty_bytes": (2**20, GIB)}, (), sweeps.PRESENT, 4 * GIB)
    assert [setting.values for setting in grid.candidates] == [{"vm.dirty_bytes": GIB}]
    assert len(left_out) == 1


@pytest.mark.parametrize("stopped_after", range(10))
def test_resume_goes_on_where_it_stopped(tmp_path, stopped_after):
    whole = sweep()
    part = sweep()
    del part.trials[stopped_after:]
    part.save(tmp_path / "r.json")
    resumed = sweep(results=load(tmp_path / "r.json"))
    assert [(t.role, t.setting) for t in resumed.trials] == [
        (t.role, t.setting) for t in whole.trials
    ]


def test_a_failed_trial_is_kept_with_its_reason_and_the_sweep_goes_on():
    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] == 60:
            failing("the endpoint is down")
        return by_ratio(setting, run)

    results = sweep(seconds)
    problems = [trial.problem for trial in results.trials if trial.problem]
    assert problems == ["the endpoint is down"] * 2
    assert roles(results)[-1] == RECHECK


def test_a_first_pull_that_fails_ends_the_sweep_with_its_reason():
    with pytest.raises(WritewiseError, match=r"present settings failed: no such bucket"):
        sweep(lambda setting, run: failing("no such bucket"))


def test_results_come_back_from_the_file_as_they_were(tmp_path):
    results = sweep(mount_options=("", "noatime"))
    results.save(tmp_path / "r.json")
    loaded = load(tmp_path / "r.json")
    assert loaded.trials == results.trials
    assert loaded.context == results.context


@pytest.mark.parametrize("keep", [0, 1, 20, 500, 2000])
def test_a_file_cut_short_is_refused_with_a_sentence(tmp_path, keep):
    sweep().save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "cut.json").write_text(text[:keep])
    with pytest.raises(UsageError, match=r"cut short|empty"):
        load(tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format="other"), "no results file"),
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.pop("trials"), "lacks 'trials'"),
        (lambda d: d["context"].pop("fstype"), "lacks 'fstype'"),
        (lambda d: d["context"].update(available_bytes="x"), "no number"),
        (lambda d: d["context"].update(mount_words="noatime"), "list of words"),
        (lambda d: d["trials"][0]["setting"]["sysctls"].update({"kernel.x": 1}), "no setting"),
        (lambda d: d["trials"][0]["observation"].update(return_s=float("nan")), "NaN"),
        (lambda d: d["trials"][0]["observation"].update(return_s=0), "no time"),
        (lambda d: d["trials"][0]["observation"].update(bytes=10**400), "no number"),
        (lambda d: d["trials"][0]["observation"].update(peak_dirty_bytes=1e999), "Infinity"),
        (lambda d: d["trials"][0].update(role="x"), "role"),
        (lambda d: d["trials"][0].update(setting=3), "damaged"),
        (lambda d: d["trials"][0]["observation"].pop("return_s"), "return_s"),
        (lambda d: d["trials"].append(None), "damaged"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path, change, says):
    sweep().save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    change(document)
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=says):
        load(tmp_path / "r.json")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError):
            load(path)
    (tmp_path / "deep").write_text("[" * 200_000)
    with pytest.raises(UsageError, match="no results file"):
        load(tmp_path / "deep")


def test_a_file_is_replaced_and_a_symlink_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "r.json").symlink_to(victim)
    results_module.write_atomically(tmp_path / "r.json", "new")
    assert victim.read_text() == "mine"
    assert (tmp_path / "r.json").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "victim"]


def test_settings_print_as_a_person_would_write_them():
    setting = Setting((("vm.dirty_ratio", 40),), "")
    assert str(setting) == "dirty_ratio=40 mount=defaults"
