# SPDX-License-Identifier: Apache-2.0
"""`writewise run` on the real host: settings that last as long as a command, whatever ends it.

WRITEWISE_RUN_KILLS=200 makes 200 kills at random moments, WRITEWISE_KILL_SEED chooses them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from profiler.lab import lab
from sysctl.advice.advise import advise
from sysctl.change.recommendation import SysctlAdvice
from sysctl.host.devices import disk_of, kept_values
from sysctl.host.host import RUN, state_directory
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import dirtyable_bytes, read_writeback
from tests.root import groups
from tests.root.hosts import SLOWNESS, is_emulated
from tests.root.labs import (
    MIB,
    SMALL,
    SYSTEM,
    command,
    guarded,
    host_state,
    processes,
    sweep_elsewhere,
    volume,
    wait_until,
    writewise,
)
from tests.root.mount_namespaces import FULL_STATE_DIRECTORY, apart
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio

RATIOS = ("--dirty-ratio", 61, "--dirty-background-ratio", 7)
WANTED = {"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7}
SHOW = "sysctl -n vm.dirty_ratio vm.dirty_background_ratio"
KILLS = int(os.environ.get("WRITEWISE_RUN_KILLS", "3" if is_emulated() else "20"))
SEED = int(os.environ.get("WRITEWISE_KILL_SEED", "5"))
NOBODY = pwd.getpwnam("nobody")
SUDO = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid), "SUDO_USER": "nobody"}


@pytest.fixture
def state(tmp_path) -> Iterator[Path]:
    """A state directory of its own; the host must be as before at the end."""
    with guarded(tmp_path) as folder:
        yield folder


def in_force() -> dict[str, int | None]:
    present = read_writeback(SYSTEM)
    return {name: present.get(name) for name in WANTED}


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return writewise("run", *words, **options)


def begin(*words: object, **options: object) -> subprocess.Popen[str]:
    """Start a run; its output is one stream."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command("run", *words), **{**pipes, **options})  # type: ignore[call-overload]


def ended(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=30 * SLOWNESS)[0]


def files_left(state: Path) -> list[str]:
    return sorted(path.name for path in state.iterdir() if path.suffix != ".lock")


def test_they_are_in_force_as_long_as_the_command(state):
    before = in_force()
    done = run(*RATIOS, "--", "sh", "-c", f"{SHOW}; exit 7")
    assert (done.returncode, done.stdout.split()) == (7, ["61", "7"])
    assert "settings    vm.dirty_ratio 20 → 61" in done.stderr or before["vm.dirty_ratio"] != 20
    assert "restored    vm.dirty_ratio" in done.stderr
    assert in_force() == before and files_left(state) == []


def test_the_document_is_alone_on_standard_output(state):
    done = run(*RATIOS, "--json", "--", "sh", "-c", "echo hello")
    document = json.loads(done.stdout)
    assert "hello" in done.stderr and document["exit_code"] == 0
    assert {each["name"]: each["during"] for each in document["changes"]} == {
        name: str(value) for name, value in WANTED.items()
    }
    assert 0 < document["return_s"] <= document["durable_s"] and document["drained"] == "done"


@pytest.mark.parametrize(("name", "code"), [("/none", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started(state, name, code):
    before = in_force()
    done = run(*RATIOS, "--", name)
    assert (done.returncode, in_force()) == (code, before) and files_left(state) == []


def test_the_command_is_of_the_user_who_called_sudo(state):
    done = run(*RATIOS, "--", "id", "-u", env={**os.environ, **SUDO})
    assert (done.returncode, done.stdout.strip()) == (0, str(NOBODY.pw_uid)), done.stderr
    as_root = run(*RATIOS, "--user", "root", "--", "id", "-u", env={**os.environ, **SUDO})
    assert as_root.stdout.strip() == "0"


def test_what_cannot_be_set_is_a_sentence_and_changes_nothing(state, tmp_path):
    before = in_force()
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "bad.json").chmod(0o666)
    for words, said in (
        (["--dirty-ratio", 1], "background must be below dirty"),
        ([*RATIOS, "--max-at-risk", "1MiB"], "would be at risk on this host"),
        (["--settings", tmp_path / "bad.json"], "bad.json"),
    ):
        done = run(*words, "--", "true")
        assert done.returncode == 125 and said in done.stderr and "Traceback" not in done.stderr
    assert in_force() == before and files_left(state) == []


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ("mount -o bind,ro /proc/sys /proc/sys", "Read-only file system"),
        (
            FULL_STATE_DIRECTORY,
            "No space left on device",
        ),
    ],
    ids=["sysctls are read-only", "a full state directory"],
)
def test_what_cannot_be_written_changes_nothing(state, mount, said):
    before = in_force()
    state.mkdir(mode=0o700)
    done = subprocess.run(
        [*apart(mount), *command("run", *RATIOS, "--", "echo", "it ran")],
        capture_output=True,
        text=True,
        timeout=60 * SLOWNESS,
    )
    assert done.returncode == 125 and said in done.stderr and "Traceback" not in done.stderr
    assert "it ran" not in done.stdout
    assert in_force() == before and files_left(state) == []


def test_it_is_refused_to_others_than_root(state):
    done = run(*RATIOS, "--", "true", user=NOBODY.pw_uid, group=NOBODY.pw_gid)
    assert done.returncode == 125 and "sudo" in done.stderr and in_force() != WANTED


def test_who_holds_them_is_named_and_the_last_one_restores(state):
    before = in_force()
    first = begin(*RATIOS, "--", "sleep", "30")
    assert wait_until(lambda: in_force() == WANTED, 10)
    second = begin(*RATIOS, "--", "sleep", "30")
    assert wait_until(lambda: len(list(state.glob("run-*.json"))) == 2, 10)
    for words in (("rollback",), ("run", "--dirty-ratio", 70, "--", "true")):
        refused = writewise(*words)
        assert refused.returncode in (1, 125)
        assert f"run of `sleep 30`, process {first.pid} since 2" in refused.stderr
    shown = writewise("status").stdout
    assert f"at work: run of `sleep 30`, process {second.pid} since" in shown
    document = json.loads(writewise("status", "--json").stdout)
    assert {each["pid"] for each in document["runs"]} == {first.pid, second.pid}
    first.send_signal(signal.SIGTERM)
    assert f"kept        for run of `sleep 30`, process {second.pid}" in ended(first)
    assert in_force() == WANTED
    second.send_signal(signal.SIGTERM)
    said = ended(second)
    assert f"joined run of `sleep 30`, process {first.pid}" in said and "restored" in said
    assert (first.returncode, second.returncode) == (143, 143)
    assert in_force() == before and files_left(state) == []


def test_runs_that_start_at_once_share_the_settings(state):
    before = in_force()
    runs = [begin(*RATIOS, "--", "sh", "-c", f"{SHOW}; sleep 0.5") for _ in range(6)]
    said = [ended(each) for each in runs]
    assert [each.returncode for each in runs] == [0] * 6, said
    assert all(text.startswith("61\n7\n") or "joined run of" in text for text in said)
    assert in_force() == before and files_left(state) == []


def test_it_is_refused_while_a_sweep_runs(state):
    with sweep_elsewhere() as pid:
        refused = run(*RATIOS, "--", "true")
        assert refused.returncode == 125
        assert f"sweep of /data, process {pid}" in refused.stderr


def test_what_another_program_sets_meanwhile_is_left(state):
    before = in_force()
    try:
        done = run(*RATIOS, "--", "sysctl", "-q", "-w", "vm.dirty_ratio=62")
        assert "left        vm.dirty_ratio = 62 is neither the applied value" in done.stderr
        assert in_force() == {**before, "vm.dirty_ratio": 62}
    finally:
        SYSTEM.write("/proc/sys/vm/dirty_ratio", str(before["vm.dirty_ratio"]))


def test_a_recommendation_is_in_force_whole_and_only_meanwhile(state, tmp_path):
    change = change_in(advise(Study().tried(ratio(60), 3.6).results))
    advices = tuple(SysctlAdvice(name, value, 0, "as measured") for name, value in WANTED.items())
    evidence = replace(change.evidence, dirtyable_bytes=dirtyable_bytes(SYSTEM))
    path = tmp_path / "recommendation.json"
    with volume(tmp_path / "volume", "ext4") as target:
        mount = mount_at(SYSTEM.mounts(), str(target))
        place = {"target": str(target), "device": mount.source}
        knob = {"name": "queue/read_ahead_kb", "value": "4096", "present": "128", "reason": "why"}
        options = {"value": ["noatime"], "present": [], "policy": [], "reason": "why"}
        document = replace(change, sysctls=advices, evidence=evidence).to_json()
        document["disk"] = {**place, "knobs": [knob], "name": "", "serial": "", "wwid": ""}
        document["mount"] = {**place, "fstype": "ext4", **options}
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        disk, before = disk_of(SYSTEM, mount), (in_force(), mount.all_options)
        knobs = kept_values(SYSTEM, disk)
        queue = f"/sys/dev/block/{mount.device}/queue/read_ahead_kb"
        script = f"{SHOW}; cat {queue}; findmnt -no OPTIONS {target}"
        done = run("--settings", path, "--", "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        *values, shown = done.stdout.split()
        assert values == ["61", "7", "4096"] and "noatime" in shown
        after = mount_at(SYSTEM.mounts(), str(target))
        assert (in_force(), after.all_options) == before
        assert kept_values(SYSTEM, disk) == knobs
        document["disk"]["target"] = document["mount"]["target"] = "/nowhere"
        path.write_text(json.dumps(document))
        refused = run("--settings", path, "--", "true")
        assert refused.returncode == 125 and "nothing is mounted on /nowhere" in refused.stderr
    assert files_left(state) == []


@contextlib.contextmanager
def slow_volume() -> Iterator[tuple[Path, list[str]]]:
    """A volume of 8 MiB/s, and words that start a command which its cap applies to.

    24 MiB take 3 s to reach it, and 24 s where commands take that much longer.
    """
    rate = (1 if is_emulated() else 8) * MIB
    with lab.running(replace(SMALL, rate_bytes_per_s=rate, object_count=1)) as made:
        yield Path(made.destination), groups.inside(Path(made.cap.group)) if made.cap.group else []


def test_the_wait_for_the_device(state):
    """It takes as long as the device; a second signal ends it; `--no-drain` leaves it behind."""
    before = in_force()
    with slow_volume() as (folder, within):
        copy = ("dd", "if=/dev/zero", f"of={folder}/file", "bs=1M", "count=24", "status=none")
        write = (*within, *copy)
        done = json.loads(run(*RATIOS, "--json", "--", *write).stdout)
        assert done["durable_s"] > 1.5 > done["return_s"]
        assert 20 * MIB < done["peak_at_risk_bytes"] < 200 * MIB

        process = begin(*RATIOS, "--", *write)
        assert wait_until(lambda: '"is_draining": true' in holder_text(state), 10)
        assert in_force() == WANTED
        process.send_signal(signal.SIGTERM)
        assert "a signal ended the wait" in ended(process) and process.returncode == 0
        assert in_force() == before
        subprocess.run(["sync", "--file-system", folder], check=True)

        began_s = time.monotonic()
        left = run(*RATIOS, "--no-drain", "--", *write)
        took_s = time.monotonic() - began_s
        assert left.returncode == 0 and "by a process that stays behind" in left.stderr
        assert in_force() == WANTED and took_s < 2.5 * SLOWNESS
        (holder,) = json.loads(writewise("status", "--json").stdout)["runs"]
        assert holder["is_draining"] and psutil.Process(holder["pid"]).ppid() == 1
        refused = writewise("rollback")
        assert refused.returncode == 1 and f"process {holder['pid']}" in refused.stderr
        assert wait_until(lambda: in_force() == before and files_left(state) == LAB_FILES, 20)

        assert run(*RATIOS, "--no-drain", "--", *write).returncode == 0
        (holder,) = json.loads(writewise("status", "--json").stdout)["runs"]
        os.kill(holder["pid"], signal.SIGTERM)
        assert wait_until(lambda: in_force() == before, 5)
        subprocess.run(["sync", "--file-system", folder], check=True)


#: What a lab has in the state directory.
LAB_FILES = ["lab", "lab.journal"]


def holder_text(state: Path) -> str:
    with contextlib.suppress(OSError):
        return "".join(path.read_text() for path in state.glob("run-*.json"))
    return ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_goes_to_the_command_and_the_host_is_as_before(state, number):
    before = in_force()
    name = signal.Signals(number).name[3:]
    process = begin(*RATIOS, "--", "sh", "-c", f"trap 'kill $!; exit 9' {name}; sleep 20 & wait")
    assert wait_until(lambda: in_force() == WANTED, 10)
    assert wait_until(lambda: psutil.Process(process.pid).children(recursive=True)[1:], 10)
    process.send_signal(number)
    process.wait(10 * SLOWNESS)
    assert process.returncode == 9 and in_force() == before
    end_all_that_is_left()


def test_a_kill_at_any_moment_is_undone_by_the_next_start(state, tmp_path):
    """SIGKILL of the run, its command or what stays behind, with and without another run."""
    chance, hit, before = random.Random(SEED), Counter[str](), in_force()
    begun_s = time.monotonic()
    assert run(*RATIOS, "--", *words_of(tmp_path)).returncode == 0
    whole_s = time.monotonic() - begun_s
    state_before = host_state()
    for number in range(KILLS):
        hint = f"kill {number} of seed {SEED}"
        victim = kill_one(chance, tmp_path, whole_s)
        hit[victim] += 1
        hit["with something left"] += bool(files_left(state))
        if chance.random() < 0.5:
            done = writewise("rollback")
        else:
            done = run("--dirty-ratio", 70, "--dirty-background-ratio", 8, "--", "true")
        assert done.returncode == 0, f"{hint}: {done.stderr}"
        assert (in_force(), files_left(state)) == (before, []), hint
    end_all_that_is_left()
    assert wait_until(lambda: host_state() == state_before, 10)
    print(f"{KILLS} kills in {time.monotonic() - begun_s:.1f} s: {dict(hit)}")
    assert hit["with something left"] >= KILLS // 10


def words_of(folder: Path) -> list[str]:
    return ["sh", "-c", f"head -c 2000000 /dev/zero > {folder}/file; sleep 0.4"]


def kill_one(chance: random.Random, folder: Path, whole_s: float) -> str:
    """Kill a process of one or two runs at a random moment; return which; wait for the others."""
    options = ["--no-drain"] if chance.random() < 0.4 else []
    null = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    runs = [begin(*RATIOS, *options, "--", *words_of(folder), **null)]
    if chance.random() < 0.4:
        time.sleep(chance.uniform(0, 0.2))
        runs.append(begin(*RATIOS, "--", *words_of(folder), **null))
    if chance.random() < 0.6:
        wait_until(lambda: (state_directory() / f"{RUN}.journal").exists(), 2)
        whole_s /= 2
    time.sleep(chance.uniform(0, 1.1) * whole_s)
    victim = chance.choice(["run", "run", "run", "command", "behind"])
    if victim == "run":
        chance.choice(runs).kill()
    for pid in pids_of(victim, runs):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for each in runs:
        each.wait(30 * SLOWNESS)
    end_all_that_is_left()
    return victim


def pids_of(victim: str, runs: list[subprocess.Popen[str]]) -> list[int]:
    """Return the commands of runs, or the processes that they have left behind."""
    with contextlib.suppress(psutil.Error):
        if victim == "command":
            return [child.pid for each in runs for child in psutil.Process(each.pid).children()]
        if victim == "behind":
            own = {each.pid for each in runs}
            return [pid for pid in map(pid_of, processes()) if pid not in own and is_orphan(pid)]
    return []


def pid_of(text: str) -> int:
    return int(text.partition(" ")[0])


def is_orphan(pid: int) -> bool:
    return psutil.Process(pid).ppid() == 1


def end_all_that_is_left() -> None:
    """Wait for what was left behind: commands of a killed run, and processes that drain."""
    me = os.getpid()
    assert wait_until(lambda: not [pid for pid in map(pid_of, processes()) if pid != me], 30)
