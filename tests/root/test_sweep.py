# SPDX-License-Identifier: Apache-2.0
"""The sweep by the real command line on a small lab: results, advice, and every way to end.

A sweep of this size takes about ten seconds: two to get ready, half a second for each trial.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.lab import lab
from sysctl.evidence.comparison import MIN_PAIRS, NEGLIGIBLE_SHARE, pairs_of
from sysctl.evidence.protocol import ATTEMPTS
from sysctl.evidence.results import load
from sysctl.evidence.runs import Runs
from sysctl.host.host import Host
from sysctl.host.journal import JournalError
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import read_writeback
from tests.root.hosts import SLOWNESS, is_emulated, needs_real_cpus
from tests.root.labs import (
    MIB,
    SMALL,
    SYSTEM,
    assert_as,
    endpoint_arguments,
    guarded,
    host_state,
    lab_elsewhere,
    start,
    wait_until,
    writewise,
)

#: An emulated CPU pulls 5 to 10 MiB/s: the device must be slower.
RATE_BYTES_PER_S = (2 if is_emulated() else 24) * MIB
MOUNTS = tuple(
    f"--mount-options={text}" for text in ("defaults", "noatime", "noatime,logbsize=256k,nobarrier")
)


@pytest.fixture(scope="module")
def present(tmp_path_factory) -> Iterator[lab.Lab]:
    """One lab for all tests."""
    with lab_elsewhere(tmp_path_factory.mktemp("lab"), SMALL) as made:
        yield made


@pytest.fixture(autouse=True)
def state(tmp_path, present):
    with guarded(tmp_path) as state:
        yield state


@pytest.fixture
def throttled(state) -> Iterator[lab.Lab]:
    """A slow lab with settings that make its writers wait; a separate journal restores them."""
    with (
        lab.running(replace(SMALL, rate_bytes_per_s=RATE_BYTES_PER_S)) as slow,
        Host.exclusive("throttled", "test") as host,
    ):
        host.set_writeback({"vm.dirty_bytes": 8 * MIB, "vm.dirty_background_bytes": 4 * MIB})
        yield slow


def arguments(present, output, *options):
    source = ("sweep", present.source, present.destination, *endpoint_arguments(present))
    return (*source, "--output", output, *(options or ("--dirty-ratio", "40,60", *MOUNTS)))


def options_of(present):
    mount = mount_at(SYSTEM.mounts(), present.destination)
    return mount.all_options if mount else ()


def ratios(setting):
    return tuple(setting.values.values())


def trial_folders(present):
    return list(Path(present.destination).glob(".writewise-*"))


def test_a_sweep_its_advice_and_the_snippet(throttled, tmp_path):
    before, output = host_state(), tmp_path / "results.json"
    done = writewise(
        *arguments(
            throttled, output, "--dirty-ratio", "40", "--dirty-background-ratio", "5", *MOUNTS
        )
    )
    assert done.returncode == 0, done.stderr
    assert_as(before)
    assert trial_folders(throttled) == []
    refused = "Not tried: mount option nobarrier (this kernel refuses it on xfs"
    assert refused in " ".join(done.stdout.split())
    results = load(output)
    roles = [trial.role for trial in results.trials if not trial.problem]
    assert roles[:3] == ["price", "present", "candidate"]
    again = {trial.setting for trial in Runs.of(results).of_role("recheck")}
    assert {each.mount_options for each in again} == {None, "noatime", "noatime,logbsize=256k"}
    assert max(len(pairs_of(Runs.of(results), each)) for each in again) >= MIN_PAIRS
    assert {ratios(each) for each in again} == {(40, 5)}, "extras under what was found"
    assert roles[-1] == "price"
    folder = tmp_path / "advice"
    advised = writewise("advise", output, "--output-dir", folder)
    assert advised.returncode == 0, advised.stderr
    assert "× faster" in advised.stdout
    document = json.loads(writewise("advise", output, "--json", cwd=tmp_path).stdout)
    assert document["speedup"] > 1.5
    recommended = document["recommended"]["sysctls"]
    snippet = folder / "90-writewise.conf"
    for name, value in recommended.items():
        line = rf"^{re.escape(name)} *= *{value}$"
        assert re.search(line, snippet.read_text(), re.MULTILINE)
    subprocess.run(["sysctl", "-p", snippet], check=True, capture_output=True)
    applied = read_writeback(SYSTEM)
    assert {name: applied[name] for name in recommended} == recommended
    assert (folder / "recommendation.json").exists()


def test_without_values_the_smallest_threshold_is_found_with_which_writers_do_not_wait(
    throttled, tmp_path
):
    """Among 8 MiB and more; the pull has 32 MiB, and freerun is half the sum of the thresholds."""
    output = tmp_path / "results.json"
    volume = ("--volume-type", "st1", "--volume-size", "2TiB")
    done = writewise(*arguments(throttled, output, "--strategy", "edge", *volume))
    assert done.returncode == 0, done.stderr
    results = load(output)
    tried = [trial for trial in Runs.of(results).of_role("candidate") if not trial.problem]
    sizes = [trial.setting.values["vm.dirty_bytes"] for trial in tried]
    assert sizes[0] == max(sizes)
    assert 8 * MIB < min(sizes) <= 256 * MIB
    assert {trial.setting.values["vm.dirty_background_bytes"] for trial in tried} == {4 * MIB}
    calm = {t.setting for t in tried if t.valid and t.valid.stall_share < NEGLIGIBLE_SHARE}
    lowest = min(calm, key=lambda setting: setting.values["vm.dirty_bytes"])
    assert lowest in {trial.setting for trial in Runs.of(results).of_role("recheck")}
    advised = " ".join(writewise("advise", output, cwd=tmp_path).stdout.split())
    assert "× faster" in advised
    slower = r"Volume The device wrote [\d.]+ MiB/s, less than the 80.0 MiB/s that st1 of 2,048 GiB"
    assert re.search(slower, advised), "the lab's cap is lower"


def test_a_hopeless_candidate_is_stopped_and_leaves_nothing_on_the_volume(state, tmp_path):
    """Under the current settings the pull returns at once, under the others writers wait."""
    needs_real_cpus("a pull there is as slow as the device")
    slow = replace(SMALL, rate_bytes_per_s=8 * MIB)
    output = tmp_path / "results.json"
    with lab.running(slow) as made:
        values = ("--dirty-bytes", 8 * MIB, "--dirty-background-bytes", 4 * MIB)
        done = writewise(*arguments(made, output, *values))
        assert done.returncode == 0, done.stderr
        assert trial_folders(made) == []
        assert "stopped: too slow" in done.stderr
    results = load(output)
    [stopped] = [t for t in results.trials if t.stopped_s]
    assert stopped.setting.values["vm.dirty_bytes"] == 8 * MIB
    assert stopped.observation is None
    assert stopped.elapsed_s < stopped.stopped_s + 3
    assert "No change recommended" in writewise("advise", output, cwd=tmp_path).stdout


def test_another_writer_makes_trials_invalid_and_they_are_repeated(present, tmp_path):
    """Another program rewrites a file elsewhere on the host and dirties its pages each time."""
    output, noisy = tmp_path / "results.json", tmp_path / "noise"
    script = "import sys\nwhile True:\n f = open(sys.argv[1], 'wb', 0)\n f.write(bytes(1 << 26))"
    with subprocess.Popen([sys.executable, "-c", script, str(noisy)]) as writer:
        try:
            wait_until(noisy.exists, 5)
            refused = writewise(*arguments(present, output, "--dirty-ratio", "40"))
        finally:
            writer.kill()
    assert refused.returncode == 1
    assert refused.stderr.count("invalid: cost: ") == ATTEMPTS
    assert "other programs dirtied" in refused.stderr
    assert "no valid pull under the current settings in 3 attempts" in refused.stderr
    assert not output.exists()


@contextlib.contextmanager
def running(present, output, *options):
    """Yield a sweep in its second trial."""
    with start(*arguments(present, output, *options)) as process:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if line.startswith("    1 "):  # the second begins
                break
        else:
            raise AssertionError("".join(seen))
        try:
            yield process
        finally:
            process.kill()


def test_resume_after_a_kill_loses_only_the_trial_in_flight(present, tmp_path):
    output = tmp_path / "results.json"
    options = ("--dirty-ratio", "40", *MOUNTS)
    words, before = arguments(present, output, *options), read_writeback(SYSTEM)
    with running(present, output, *options) as process:
        while process.poll() is None and read_writeback(SYSTEM) == before:
            time.sleep(0.001 * SLOWNESS)  # until a trial's settings are in force
        process.kill()
    kept = load(output).trials
    assert kept
    resumed = writewise(*words, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "restored after a killed run" in resumed.stderr
    trials = load(output).trials
    assert trials[: len(kept)] == kept
    assert {ratios(trial.setting)[0] for trial in trials if trial.role == "candidate"} == {40}
    tried = {trial.setting.mount_options for trial in trials} - {None}
    assert tried == {"noatime", "noatime,logbsize=256k"}
    assert (
        "is from a different sweep"
        in writewise(*arguments(present, output, "--dirty-ratio", "30"), "--resume").stderr
    )


@pytest.mark.parametrize(
    ("numbers", "exit_code"),
    [
        ((signal.SIGINT, signal.SIGINT), 130),
        ((signal.SIGTERM,), 143),
        ((signal.SIGHUP, signal.SIGTERM), 129),
    ],
)
def test_signals_end_the_sweep_in_order(present, tmp_path, numbers, exit_code):
    before = host_state()
    with running(present, tmp_path / "results.json") as process:
        time.sleep(random.uniform(0, 0.6 * SLOWNESS))
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.05 * SLOWNESS)  # signals pending together arrive in any order
        said, _ = process.communicate(timeout=20 * SLOWNESS)
    assert process.returncode == exit_code, said
    assert "Traceback" not in said
    assert_as(before)
    assert trial_folders(present) == []
    assert load(tmp_path / "results.json").trials


def _trials(path):
    return load(path).trials if path.exists() else []


def test_a_second_sweep_is_told_who_holds_the_lock(present, tmp_path):
    with running(present, tmp_path / "results.json") as process:
        process.send_signal(signal.SIGSTOP)  # it must not end before both have asked
        second = writewise(*arguments(present, tmp_path / "other.json"))
        rollback = writewise("rollback")
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20 * SLOWNESS)
    for refused in (second, rollback):
        assert refused.returncode == 1
        assert refused.stderr.startswith(
            f"writewise: another writewise is running on this host: sweep of "
            f"{present.destination}, process {process.pid}\n"
        )
    assert not (tmp_path / "other.json").exists()


def test_a_journal_of_another_boot_is_void_but_for_its_files(present, tmp_path, state):
    with running(present, tmp_path / "results.json") as process:
        wait_until(lambda: trial_folders(present), 2)
        process.kill()
    changed = read_writeback(SYSTEM)
    journal = state / "sweep.journal"
    text = journal.read_text()
    try:
        boot = SYSTEM.boot_id()
        journal.write_text(text.replace(boot, boot[::-1]))
        dry = writewise("rollback", "--dry-run").stdout.splitlines()
        assert all(line.startswith("would restore: no /") for line in dry)
        done = writewise("rollback")
        assert done.returncode == 0, done.stderr
        assert trial_folders(present) == []
        assert not journal.exists()
        assert read_writeback(SYSTEM) == changed, "values of another boot are nobody's originals"
    finally:
        journal.write_text(text)
        assert writewise("rollback").returncode == 0


def test_rollback_waits_for_a_volume_in_use(present, tmp_path, state):
    mounts = ("--mount-options", "logbsize=256k")
    with running(present, tmp_path / "results.json", "--dirty-ratio", "40", *mounts) as process:
        wait_until(lambda: "logbsize=256k" in options_of(present), 15)  # after the search
        process.kill()
    with open(f"{present.destination}/file", "w"):
        busy = writewise("rollback")
        assert busy.returncode == 1
        assert "busy" in busy.stderr
        assert "run `writewise rollback` again" in busy.stderr
    os.unlink(f"{present.destination}/file")
    done = writewise("rollback")
    assert done.returncode == 0, done.stderr
    assert "mounted with" in done.stdout


def test_a_volume_that_is_gone_takes_its_mount_options_along(tmp_path):
    with lab.running(SMALL) as other:
        mounts = ("--mount-options", "noatime")
        with running(other, tmp_path / "r.json", "--dirty-ratio", "40", *mounts) as process:
            process.kill()
    done = writewise("rollback")
    assert done.returncode == 0, done.stderr


def test_a_full_disk_under_the_journal_loses_nothing(present, tmp_path, state):
    """A change that cannot be journaled is not made; earlier changes are restored without space."""
    before = read_writeback(SYSTEM)
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", state], check=True)
    try:
        assert writewise("rollback").returncode == 0
        _fill(state)
        done = writewise(*arguments(present, tmp_path / "r.json", "--dirty-ratio", "40"))
        assert done.returncode == 1
        assert "sweep.journal: No space left on device" in done.stderr
        assert read_writeback(SYSTEM) == before
        (state / "filler").unlink()
        with pytest.raises(JournalError, match="No space"), Host.exclusive("sweep", "t") as host:
            host.set_writeback({"vm.dirty_ratio": 33})
            _fill(state)
            host.make_directory(Path("/", "x" * 5000))  # more than fits in the journal's page
        assert read_writeback(SYSTEM) == before
    finally:
        subprocess.run(["umount", state], check=True)


def _fill(folder):
    with pytest.raises(OSError, match="No space"), open(folder / "filler", "wb", 0) as file:
        while True:
            file.write(bytes(4096))


def test_a_results_file_cut_short_is_refused_and_left_alone(present, tmp_path):
    output = tmp_path / "results.json"
    output.write_text('{"format": "writewise-results", "version": 1, "trials": [{"ro')
    text = output.read_text()
    refused = writewise(*arguments(present, output), "--resume")
    assert refused.returncode == 2
    assert f"{output} is not a results file, or it is truncated" in refused.stderr
    refused = writewise(*arguments(present, output))
    assert refused.returncode == 2
    assert f"{output} already exists" in refused.stderr
    assert output.read_text() == text


def test_a_volume_in_use_is_refused_with_its_user(present, tmp_path):
    with open(f"{present.destination}/file", "w"):
        refused = writewise(*arguments(present, tmp_path / "r.json"))
    os.unlink(f"{present.destination}/file")
    assert refused.returncode == 1
    assert f"(process {os.getpid()})" in refused.stderr
    assert "is in use by" in refused.stderr
    assert not (tmp_path / "r.json").exists()


def test_an_option_that_another_mount_namespace_keeps_is_no_valid_trial(present, tmp_path):
    before, output = host_state(), tmp_path / "r.json"
    holder = subprocess.Popen(["unshare", "--mount", "sleep", str(60 * SLOWNESS)])
    try:
        time.sleep(0.2)
        mounts = ("--mount-options", "logbsize=256k")
        done = writewise(*arguments(present, output, "--dirty-ratio", "40", *mounts))
        assert done.returncode == 0, done.stderr
        trials = [t for t in Runs.of(load(output)).of_role("recheck") if t.setting.mount_options]
        assert len(trials) >= ATTEMPTS
        for trial in trials:
            assert "but without logbsize=256k" in trial.problem
            assert f"sleep (process {holder.pid})" in trial.problem
        assert mount_at(SYSTEM.mounts(), present.destination) is not None
    finally:
        holder.kill()
        holder.wait()
    assert_as(before)
