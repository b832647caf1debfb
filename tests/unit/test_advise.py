"""The recommendation and the files that it becomes."""

from __future__ import annotations

import dataclasses

import pytest

from contracts.errors import UsageError
from sysctl.advise import advise, choose
from sysctl.render import fstab, sysctl_d
from sysctl.results import Results
from sysctl.writeback import Thresholds
from tests.unit.sweeps import CONTEXT, by_ratio, failing, sweep


def test_the_fastest_with_least_to_lose_is_recommended():
    def seconds(setting, run):
        ratio = setting.values["vm.dirty_ratio"]
        return {20: 19.0, 40: 8.7, 60: 3.4, 80: 3.3}[ratio] + 0.01 * run

    recommendation = advise(sweep(seconds))
    assert recommendation.best.setting.values == {
        "vm.dirty_ratio": 60,
        "vm.dirty_background_ratio": 5,
    }
    assert recommendation.speedup == pytest.approx(19 / 3.4, rel=0.02)
    assert [(r.name, r.action) for r in recommendation.reasons] == [
        ("vm.dirty_ratio", "set"),
        ("vm.dirty_background_ratio", "set"),
    ]
    assert "83% of their time" in recommendation.reasons[0].why
    assert "40: 8.7 s, 60: 3.4 s, 80: 3.3 s" in recommendation.reasons[0].why
    assert "crash" in recommendation.reasons[0].risk


def test_speed_that_differs_is_worth_a_higher_threshold():
    assert advise(sweep()).best.setting.values["vm.dirty_ratio"] == 80


def test_memory_that_drifts_makes_no_setting_look_cheaper():
    """Of two settings as fast, the lower costs less, whatever the kernel made of it that run."""

    def seconds(setting, run):
        return 19.0 if setting.values["vm.dirty_ratio"] == 20 else 3.4

    results = sweep(seconds, ratios=(80,), backgrounds=(5, 10))
    for at, trial in enumerate(results.trials):
        lower = Thresholds(2**28, 3 * 2**30)
        if trial.setting.values["vm.dirty_background_ratio"] == 10 and trial.role != "present":
            seen = dataclasses.replace(trial.observation, thresholds=lower)
            results.trials[at] = dataclasses.replace(trial, observation=seen)
    assert choose(results).setting.values["vm.dirty_background_ratio"] == 5


def test_no_change_when_nothing_is_faster():
    recommendation = advise(sweep(lambda setting, run: 10.0 + 0.1 * run))
    assert recommendation.best is None
    assert recommendation.verdict.startswith("No change recommended")
    assert recommendation.speedup == 1


def test_no_change_when_the_gain_is_within_the_present_settings_own_spread():
    def seconds(setting, run):
        return 8.0 + 2 * run if setting.values["vm.dirty_ratio"] == 20 else 9.0

    assert advise(sweep(seconds)).best is None


def test_no_change_when_the_best_is_not_fast_again():
    def seconds(setting, run):
        lucky = setting.values["vm.dirty_ratio"] == 80 and run == 1
        return 3.0 if lucky else 10.0 + 0.1 * run

    recommendation = advise(sweep(seconds))
    assert recommendation.best is None
    assert "again" in recommendation.verdict


def test_no_change_when_nothing_else_could_be_measured():
    def seconds(setting, run):
        if setting.values["vm.dirty_ratio"] != 20:
            failing("refused")
        return 10.0

    assert "could be measured" in advise(sweep(seconds)).verdict


@pytest.mark.parametrize("kept", [2, 3, 4, 5, 8, 9])
def test_an_unfinished_sweep_recommends_nothing(kept):
    results = sweep()
    del results.trials[kept:]
    recommendation = advise(results)
    assert recommendation.best is None
    assert "--resume" in recommendation.verdict


def test_a_gain_of_less_than_5_percent_is_none():
    def seconds(setting, run):
        return 10.0 if setting.values["vm.dirty_ratio"] == 20 else 9.6

    assert advise(sweep(seconds)).best is None


def test_a_burst_that_never_waits_is_told_so():
    def seconds(setting, run):
        return 3.3

    results = sweep(seconds)
    quiet = [
        dataclasses.replace(
            t, observation=dataclasses.replace(t.observation, peak_dirty_bytes=2**26)
        )
        for t in results.trials
    ]
    results.trials[:] = quiet
    assert "writers never waited. At most 64.0 MiB were dirty" in advise(results).verdict


def test_without_a_valid_present_run_nothing_is_compared():
    with pytest.raises(UsageError, match="present settings"):
        advise(Results(dict(CONTEXT), {}))


def test_a_mount_option_that_makes_no_difference_is_not_recommended():
    recommendation = advise(sweep(mount_options=("defaults", "noatime")))
    assert recommendation.best.setting.mount_options == "defaults"
    reason = next(r for r in recommendation.reasons if r.name == "mount options")
    assert reason.value == "noatime"
    assert reason.action == "leave out"
    assert "1.00" in reason.why
    assert "no change of mount options" in fstab.render(recommendation)


def test_a_mount_option_that_helps_only_sometimes_is_left_out():
    def seconds(setting, run):
        lucky = setting.values == {"vm.dirty_ratio": 80, "vm.dirty_background_ratio": 5}
        factor = 0.7 if lucky and setting.mount_options == "noatime" else 1.0
        return by_ratio(setting, run) * factor

    recommendation = advise(sweep(seconds, mount_options=("defaults", "noatime")))
    assert recommendation.best.setting.mount_options == "defaults"
    assert "0.70 to 1.00" in recommendation.reasons[-1].why
    assert "noatime: reading a file no longer writes" in recommendation.reasons[-1].why


def with_slow_atime(setting, run):
    return by_ratio(setting, run) * (1 if setting.mount_options == "noatime" else 2)


def test_a_mount_option_that_helps_is_written_for_fstab_with_the_policy_kept():
    recommendation = advise(sweep(with_slow_atime, mount_options=("defaults", "noatime")))
    assert recommendation.best.setting.mount_options == "noatime"
    lines = fstab.render(recommendation).splitlines()
    assert lines[-1] == "/dev/nvme1n1 /data xfs nosuid,noatime 0 0"
    assert all(line.startswith("#") for line in lines[:-1])


def settings_of(text):
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split(" = ") for line in lines)


def test_the_snippet_holds_the_settings_the_evidence_and_the_undo():
    text = sysctl_d.render(advise(sweep()))
    assert settings_of(text) == {"vm.dirty_ratio": "80", "vm.dirty_background_ratio": "5"}
    assert "sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=10" in text
    assert "s3://bucket/images" in text
    assert "3.20 GiB" in text
    assert text == sysctl_d.render(advise(sweep())), "deterministic"


def test_without_a_change_the_snippet_sets_nothing():
    text = sysctl_d.render(advise(sweep(lambda setting, run: 10.0)))
    assert settings_of(text) == {}
    assert "no change" in text


@pytest.mark.parametrize("field", ["source", "destination", "host", "instance", "kernel"])
def test_a_results_file_cannot_smuggle_lines_into_a_snippet(field):
    results = sweep(with_slow_atime, mount_options=("defaults", "noatime"))
    results.context[field] = "x\nkernel.core_pattern = |/tmp/evil\x1b[2J"
    recommendation = advise(results)
    assert set(settings_of(sysctl_d.render(recommendation))) <= {
        "vm.dirty_ratio",
        "vm.dirty_background_ratio",
    }
    assert "\x1b" not in sysctl_d.render(recommendation)
    assert len([x for x in fstab.render(recommendation).splitlines() if x[0] != "#"]) == 1


def test_a_mount_point_with_blanks_is_escaped_for_fstab():
    results = sweep(with_slow_atime, mount_options=("defaults", "noatime"))
    results.context["mount_target"] = "/my data\nnone /etc"
    line = fstab.render(advise(results)).splitlines()[-1]
    assert line.split(" ")[1] == "/my\\040data\\012none\\040/etc"
