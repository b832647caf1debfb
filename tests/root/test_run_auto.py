# SPDX-License-Identifier: Apache-2.0
"""`writewise run --auto` on the real kernel: bursts, other governors, signals, kills.

The host's own thresholds are small here, so that bursts of 300 MiB are throttled at rest.
WRITEWISE_GOVERN_KILLS=200 makes 200 kills, WRITEWISE_KILL_SEED chooses them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from profiler.lab import lab
from sysctl.host.governor_state import read_governor_state
from sysctl.host.host import WRITER, Host, state_directory
from sysctl.host.lock import holder_of
from sysctl.host.sysctls import sysctl_path
from tests.root.governing import (
    BOUND,
    BOUNDED,
    PACED,
    RATE_MIB_PER_S,
    REST,
    SIZE_MIB,
    Outside,
    at_rest_after_s,
    capped,
    file_on,
    governor,
    in_force,
    remove_files,
    small_thresholds,
    without_dirty_pages,
)
from tests.root.hosts import SLOWNESS
from tests.root.labs import (
    MIB,
    SYSTEM,
    command,
    processes,
    volume,
    wait_until,
    writewise,
)

KILLS = int(os.environ.get("WRITEWISE_GOVERN_KILLS", "5"))
SEED = int(os.environ.get("WRITEWISE_KILL_SEED", "5"))
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture(scope="module")
def host_at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A capped volume, on a host whose own thresholds are small."""
    with small_thresholds(tmp_path_factory.mktemp("auto")) as present:
        yield present


@pytest.fixture
def present(host_at_rest: lab.Lab) -> Iterator[lab.Lab]:
    """The same, without dirty pages before and after the test, and nobody at work."""
    with without_dirty_pages(host_at_rest) as present:
        yield present
        assert wait_until(lambda: lock_holder() is None, 20)
        assert in_force() == REST


def lock_holder() -> str | None:
    return holder_of(state_directory() / f"{WRITER}.lock")


def auto(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return writewise("run", "--auto", *BOUNDED, *words, **options)


def begin(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Start a run; its output is one stream."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    return subprocess.Popen(command("run", "--auto", *BOUNDED, *words), **pipes)


def ended(process: subprocess.Popen[str]) -> str:
    return str(process.communicate(timeout=60 * SLOWNESS)[0])


def writing(present: lab.Lab, size_mib: int = SIZE_MIB) -> list[str]:
    """Return the words of a command that writes a burst, once it is read."""
    words = [
        *capped(present),
        str(PACED),
        str(file_on(present)),
        str(size_mib),
        str(RATE_MIB_PER_S),
    ]
    return ["sh", "-c", f"echo | {shlex.join(words)}"]


def is_raised() -> bool:
    return in_force() != REST


def governor_of(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the process that governs for a run: the child in a session of its own."""
    children = psutil.Process(process.pid).children()
    return next(each for each in children if os.getsid(each.pid) == each.pid)


def test_a_burst_is_raised_while_it_lasts_and_reported(present: lab.Lab) -> None:
    with Outside().looking() as outside:
        done = auto("--on", present.destination, "--json", "--", *writing(present))
        time.sleep(0.2)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    governed = document["governed"]
    assert document["return_s"] < document["durable_s"]
    assert (governed["bursts"], governed["followed"], governed["problem"]) == (1, None, None)
    assert governed["arrived_bytes"] >= SIZE_MIB * MIB
    assert governed["unknown_savings"] == 0 and governed["max_at_risk_bytes"] == BOUND
    assert governed["volumes"] == [present.destination]
    assert document["restored"] == [", ".join(f"{name} = {REST[name]}" for name in REST)]
    assert any(each.values != REST for each in outside.seen)
    assert max(each.dirty_bytes for each in outside.seen) <= BOUND
    assert at_rest_after_s(outside.seen, REST, REST["vm.dirty_background_bytes"]) <= 3
    state = read_governor_state()
    assert state and state.ended_at and state.sums.bursts == 1


def test_every_volume_counts_unless_one_is_named(present: lab.Lab) -> None:
    with Outside().looking() as outside:
        document = json.loads(auto("--json", "--", *writing(present, 200)).stdout)
    assert present.destination in document["governed"]["volumes"]
    assert any(each.values != REST for each in outside.seen)


@pytest.mark.parametrize(
    ("words", "code"), [(["sh", "-c", "exit 7"], 7), (["/none"], 127), (["/etc/passwd"], 126)]
)
def test_the_exit_code_is_the_command_s(present: lab.Lab, words: list[str], code: int) -> None:
    done = auto("--", *words)
    assert (done.returncode, lock_holder()) == (code, None), done.stderr
    assert ("nothing was raised" in done.stderr) == (code == 7)


def test_a_burst_onto_another_volume_raises_nothing(present: lab.Lab, tmp_path: Path) -> None:
    with volume(tmp_path / "named") as named, Outside().looking() as outside:
        done = auto("--on", named, "--", *writing(present, 150))
    assert "nothing was raised" in done.stderr
    assert all(each.values == REST for each in outside.seen)


def test_what_it_cannot_do_is_a_sentence_and_runs_nothing(present: lab.Lab) -> None:
    for words, said in (
        (["--on", "/dev/shm"], "has no device"),
        (["--on", "/none"], "is not a directory"),
        (["--dirty-ratio", "50"], "--auto and --dirty-ratio cannot be used together"),
    ):
        done = auto(*words, "--", "echo", "it ran")
        assert done.returncode == 125 and said in done.stderr and done.stdout == ""
    done = auto("--", "true", user=NOBODY.pw_uid, group=NOBODY.pw_gid)
    assert done.returncode == 125 and "sudo" in done.stderr


def test_it_is_refused_while_settings_are_held_or_a_sweep_runs(present: lab.Lab) -> None:
    fixed = begin_fixed("--dirty-ratio", "61", "--", "sleep", "30")
    assert wait_until(is_raised, 10)
    refused = auto("--", "echo", "it ran")
    fixed.terminate()
    fixed.communicate(timeout=30)
    assert refused.returncode == 125 and refused.stdout == ""
    assert "run of `sleep 30`, process" in refused.stderr
    with Host.exclusive(WRITER, "sweep of /data"):
        refused = auto("--", "echo", "it ran")
    assert refused.returncode == 125 and "sweep of /data, process" in refused.stderr


def begin_fixed(*words: str) -> subprocess.Popen[str]:
    null = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
    return subprocess.Popen(command("run", *words), **null)  # type: ignore[call-overload]


def test_a_service_that_governs_is_followed(present: lab.Lab, tmp_path: Path) -> None:
    with volume(tmp_path / "other") as other, governor(other, "--max-at-risk", "128MiB") as service:
        done = auto("--on", present.destination, "--", "sh", "-c", "exit 3")
        assert done.returncode == 3
        assert f"govern of {other}, process {service.pid}, governs this host" in done.stderr
        assert f"it governs {other}, at most 128 MiB at risk" in done.stderr
        assert f"writers onto {present.destination} wait as they would at rest" in done.stderr
    with governor(present.destination, *BOUNDED) as service, Outside().looking() as outside:
        done = auto("--json", "--", *writing(present))
    document = json.loads(done.stdout)
    followed = f"govern of {present.destination}, process {service.pid}"
    assert document["governed"]["followed"] == followed
    assert any(each.values != REST for each in outside.seen)


def test_it_governs_from_when_the_other_governor_has_ended(
    present: lab.Lab, tmp_path: Path
) -> None:
    flag, report = tmp_path / "flag", tmp_path / "report.json"
    flag.touch()
    waiting = f"while [ -e {flag} ]; do sleep 0.1; done"
    first = begin("--", "sh", "-c", waiting)
    assert wait_until(lambda: lock_holder() is not None, 10)
    words = writing(present)
    script = f"{waiting}; sleep 2; {words[2]}"
    second = begin("--json", "--output", report, "--", "sh", "-c", script)
    assert second.stdout
    assert "governs this host; this run governs when" in second.stdout.readline()
    with Outside().looking() as outside:
        flag.unlink()
        ended(first)
        ended(second)
    governed = json.loads(report.read_text())["governed"]
    assert str(governed["followed"]).startswith("run --auto of `sh -c while")
    assert governed["bursts"] == 1
    assert any(each.values != REST for each in outside.seen)
    assert first.returncode == second.returncode == 0


def test_a_signal_goes_to_the_command(present: lab.Lab) -> None:
    for name in ("INT", "TERM", "HUP"):
        script = f"trap 'kill $!; exit 9' {name}; sleep 20 & wait"
        process = begin("--", "sh", "-c", script)
        assert wait_until(lambda: len(children_of(process)) == 3, 10)  # noqa: B023
        process.send_signal(getattr(signal, f"SIG{name}"))
        said = ended(process)
        assert (process.returncode, lock_holder()) == (9, None), said
        assert "nothing was raised" in said


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_a_process_stays_behind_that_drains(present: lab.Lab) -> None:
    began_s = time.monotonic()
    done = auto("--no-drain", "--", *writing(present))
    took_s = time.monotonic() - began_s
    assert done.returncode == 0 and "by a process that stays behind" in done.stderr
    assert took_s < 4 * SLOWNESS and is_raised()
    state = read_governor_state()
    assert state and state.is_running() and state.is_raised
    assert psutil.Process(state.pid).ppid() == 1
    shown = writewise("status").stdout
    assert f"process {state.pid}" in shown and "raised since" in " ".join(shown.split())
    assert wait_until(lambda: lock_holder() is None, 20)
    assert in_force() == REST
    after = read_governor_state()
    assert after and after.pid == state.pid and after.sums.bursts == 1


def test_sigterm_ends_what_stays_behind_at_once(present: lab.Lab) -> None:
    assert auto("--no-drain", "--", *writing(present)).returncode == 0
    state = read_governor_state()
    assert state and is_raised()
    os.kill(state.pid, signal.SIGTERM)
    assert wait_until(lambda: lock_holder() is None, 2)


def test_what_another_program_sets_is_left(present: lab.Lab) -> None:
    path = sysctl_path("vm.dirty_bytes")
    try:
        process = begin("--", *writing(present))
        assert wait_until(is_raised, 10)
        SYSTEM.write(path, str(100 * MIB))
        said = " ".join(ended(process).split())
        assert process.returncode == 0
        assert "stood down at" in said and f"to vm.dirty_bytes = {100 * MIB}" in said
        assert in_force() == {**REST, "vm.dirty_bytes": 100 * MIB}
    finally:
        SYSTEM.write(path, str(REST["vm.dirty_bytes"]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_governor_that_is_ended_leaves_nothing_raised(present: lab.Lab, number: int) -> None:
    process = begin("--", *writing(present))
    assert wait_until(is_raised, 10)
    governor_of(process).send_signal(number)
    assert wait_until(lambda: not is_raised(), 3)
    said = " ".join(ended(process).split())
    assert process.returncode == 0
    word = "was killed" if number == signal.SIGKILL else "was ended by a signal"
    assert f"the governor {word}; the thresholds are at rest" in said


def test_a_killed_run_leaves_nothing_raised(present: lab.Lab) -> None:
    process = begin("--", *writing(present))
    assert wait_until(is_raised, 10)
    process.kill()
    assert wait_until(lambda: not is_raised() and lock_holder() is None, 3)
    ended(process)


def test_a_kill_at_any_moment_is_undone(present: lab.Lab) -> None:
    """SIGKILL of the run, the governor, the command or both processes; then the host is at rest."""
    chance, hit, before = random.Random(SEED), Counter[str](), len(processes())
    for number in range(KILLS):
        hint = f"kill {number} of seed {SEED}"
        options = ["--no-drain"] if chance.random() < 0.3 else []
        process = begin(*options, "--", *writing(present, 150))
        time.sleep(chance.uniform(0.0, 2.5) * SLOWNESS)
        victim = chance.choice(["run", "governor", "command", "both"])
        kill(victim, process)
        hit[victim] += 1
        hit["raised"] += is_raised()
        ended(process)
        if victim == "both":
            assert writewise("rollback", "--interrupted").returncode == 0, hint
        assert wait_until(lambda: lock_holder() is None, 20), hint
        assert in_force() == REST, hint
        assert wait_until(lambda: len(processes()) <= before, 20), hint
        remove_files(present)
    print(f"{KILLS} kills: {dict(hit)}")


def kill(victim: str, process: subprocess.Popen[str]) -> None:
    """Kill a run, its governor, its command, or the first two at once."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(process.pid).children()
        apart = [each for each in children if os.getsid(each.pid) == each.pid]
        processes_of: dict[str, list[Any]] = {
            "run": [process],
            "governor": apart,
            "command": [each for each in children if each not in apart],
            "both": [process, *apart],
        }
        for each in processes_of[victim]:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                each.kill()
