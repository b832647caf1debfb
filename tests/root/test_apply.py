# SPDX-License-Identifier: Apache-2.0
"""apply, verify, status and rollback on the real host: sysctls, /etc, signals."""

from __future__ import annotations

import json
import os
import pty
import random
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sysctl.advice.advise import advise
from sysctl.change.recommendation import SysctlAdvice
from sysctl.host.applied_host import AppliedHost
from sysctl.host.changes import MountOriginal, to_json
from sysctl.host.devices import disk_of
from sysctl.host.host import WRITER, state_directory
from sysctl.host.journal import Journal
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import (
    dirtyable_bytes,
    read_thresholds,
    read_writeback,
    write_writeback,
)
from tests.root.hosts import SLOWNESS, cannot_run_here, has_systemd, is_emulated
from tests.root.labs import SYSTEM, command, guarded, start, volume, writewise
from tests.root.mount_namespaces import FULL_STATE_DIRECTORY, apart
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio

FILES = [Path("/etc/sysctl.d") / name for name in ("90-writewise.conf", "99-writewise.conf")]
WANTED = {"vm.dirty_ratio": 61, "vm.dirty_background_ratio": 7}
#: A kill takes 0.9 s; set more for an overnight run.
LONGEST_S = 0.03 * SLOWNESS
KILLS = int(os.environ.get("WRITEWISE_APPLY_KILLS", "5" if is_emulated() else "15"))


@pytest.fixture
def recommendation(tmp_path):
    """Write the file; restore the host at the end, whatever the test does."""
    if any(path.exists() for path in FILES):
        pytest.skip(f"a recommendation is applied here: rm {' '.join(map(str, FILES))}")
    change = change_in(advise(Study().tried(ratio(60), 3.6).results))
    advices = tuple(SysctlAdvice(name, value, 0, "as measured") for name, value in WANTED.items())
    path = tmp_path / "recommendation.json"
    evidence = replace(change.evidence, dirtyable_bytes=dirtyable_bytes(SYSTEM))
    path.write_text(json.dumps(replace(change, sysctls=advices, evidence=evidence).to_json()))
    path.chmod(0o600)
    originals = read_writeback(SYSTEM)
    with guarded(tmp_path):
        try:
            yield path
        finally:
            AppliedHost(state_directory()).restore()
            write_writeback(SYSTEM, originals)
            for file in FILES:
                file.unlink(missing_ok=True)
        assert not list(Path("/etc/sysctl.d").glob(".*writewise*"))


def in_force():
    present = read_writeback(SYSTEM)
    return {name: present.get(name) for name in WANTED}


def test_applied_verified_and_rolled_back(recommendation):
    before = in_force()
    shown = writewise("apply", recommendation, "--dry-run")
    assert (shown.returncode, in_force()) == (0, before)
    assert "vm.dirty_ratio" in shown.stdout and "→" in shown.stdout
    assert writewise("verify", recommendation).returncode == 1
    done = writewise("apply", recommendation, "--yes")
    assert (done.returncode, in_force()) == (0, WANTED), done.stderr
    assert writewise("verify", recommendation).returncode == 0
    verified = writewise("verify", "--applied", "--json")
    assert verified.returncode == 0 and json.loads(verified.stdout)["compliant"]
    status = json.loads(writewise("status", "--json").stdout)
    assert status["applied"][0]["what"] == "vm.dirty_ratio = 61, vm.dirty_background_ratio = 7"
    assert writewise("rollback", "--interrupted").returncode == 0 and in_force() == WANTED
    assert "restored: vm.dirty_ratio" in writewise("rollback").stdout
    assert in_force() == before


def test_on_a_host_with_other_memory_the_measured_amount_is_kept(recommendation):
    """In bytes, or as a ratio if control groups have limits, the threshold is that amount."""
    document = json.loads(recommendation.read_text())
    document["evidence"]["dirtyable_bytes"] = measured = dirtyable_bytes(SYSTEM) // 2
    recommendation.write_text(json.dumps(document))
    before = in_force()
    refused = writewise("apply", recommendation, "--yes")
    assert (refused.returncode, in_force()) == (2, before) and "--yes-unmeasured" in refused.stderr
    done = writewise("apply", recommendation, "--yes", "--yes-unmeasured")
    assert done.returncode == 0, done.stderr
    amount = measured * WANTED["vm.dirty_ratio"] // 100
    assert read_thresholds(SYSTEM).dirty_bytes == pytest.approx(amount, rel=0.05)
    assert writewise("verify", recommendation).returncode == 0
    assert "instead of vm.dirty_ratio = 61" in writewise("status").stdout
    assert writewise("rollback").returncode == 0 and in_force() == before


def test_what_the_administrator_changed_since_is_left(recommendation):
    writewise("apply", recommendation, "--yes")
    subprocess.run(["sysctl", "-q", "-w", "vm.dirty_ratio=62"], check=True)
    verified = writewise("verify", "--applied")
    assert verified.returncode == 1 and "changed since it was applied at" in verified.stdout
    rolled = writewise("rollback")
    assert "left: vm.dirty_ratio = 62 is neither the applied value" in rolled.stdout
    assert read_writeback(SYSTEM)["vm.dirty_ratio"] == 62


def test_what_a_sweep_cannot_give_back_keeps_nothing_applied_from_coming_back(
    recommendation, tmp_path
):
    before, target = in_force(), tmp_path / "target"
    target.mkdir()
    assert writewise("apply", recommendation, "--yes").returncode == 0
    gone = MountOriginal(str(target), "/dev/no-such-disk", "xfs", ("rw",))
    Journal(state_directory() / f"{WRITER}.journal", SYSTEM.boot_id()).record(to_json(gone))
    refused = writewise("rollback")
    assert refused.returncode == 1 and "restored: vm.dirty_ratio" in refused.stdout
    assert f"mount: {target}" in refused.stderr and "--give-up" in refused.stderr
    assert in_force() == before
    given_up = writewise("rollback", "--interrupted", "--give-up")
    assert given_up.returncode == 0 and "left: not restored, and removed" in given_up.stdout


def test_the_file_is_read_by_the_real_consumers(recommendation):
    assert writewise("apply", recommendation, "--yes", "--persist").returncode == 0
    file = next(path for path in FILES if path.exists())
    assert file.stat().st_mode & 0o7777 == 0o644
    done = subprocess.run(["sysctl", "-p", file], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} = {value}" for name, value in WANTED.items()]
    if shutil.which("systemd-analyze"):
        listed = subprocess.run(
            ["systemd-analyze", "cat-config", "sysctl.d"], capture_output=True, text=True
        )
        assert f"# {file}\n" in listed.stdout
    assert "restored: no /etc/sysctl.d" in writewise("rollback").stdout and not file.exists()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\x04", 1)])
def test_it_asks_on_a_terminal(recommendation, answer, code):
    before = in_force()
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    done = subprocess.run(
        command("apply", recommendation),
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60 * SLOWNESS,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code and "Apply this? [y/N]" in done.stdout
    assert in_force() == (before if code else WANTED)


def test_without_a_terminal_nothing_is_changed_unasked(recommendation):
    before = in_force()
    done = writewise("apply", recommendation, stdin=subprocess.DEVNULL)
    assert (done.returncode, in_force()) == (2, before)
    assert "pass --yes" in done.stderr


def test_a_recommendation_that_others_can_write_is_refused(recommendation):
    recommendation.chmod(0o666)
    before = in_force()
    done = writewise("apply", recommendation, "--yes")
    assert (done.returncode, in_force()) == (2, before) and "Traceback" not in done.stderr


def test_a_trial_period_is_refused_where_systemd_does_not_run(recommendation):
    if has_systemd():
        cannot_run_here("systemd runs it, and the refusal is for others")
    before = in_force()
    done = writewise("apply", recommendation, "--yes", "--for", "30m")
    assert (done.returncode, in_force()) == (1, before)
    assert "--for needs systemd, which does not run this host" in done.stderr


def in_a_namespace(mount, *arguments):
    """Run the command with a mount that only it sees and that disappears when it ends."""
    return subprocess.run(
        [*apart(mount), *command(*arguments)], capture_output=True, text=True, timeout=60 * SLOWNESS
    )


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ("mount -t tmpfs -o ro,mode=755 tmpfs /etc/sysctl.d", "cannot write /etc/sysctl.d"),
        (
            FULL_STATE_DIRECTORY,
            "cannot write the journal",
        ),
    ],
    ids=["a read-only /etc", "a full disk under the journal"],
)
def test_what_cannot_be_written_changes_nothing(recommendation, mount, said):
    before = in_force()
    state_directory().mkdir(mode=0o700, exist_ok=True)
    done = in_a_namespace(mount, "apply", recommendation, "--yes", "--persist")
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr
    assert in_force() == before and not any(path.exists() for path in FILES)


def test_a_mount_and_a_disk_are_changed_and_given_back(recommendation, tmp_path):
    with volume(tmp_path / "volume", "ext4") as target:
        before, readahead = mount_at(SYSTEM.mounts(), str(target)), read_ahead(target)
        document = json.loads(recommendation.read_text())
        place = {"target": str(target), "device": before.source}
        knob = {"name": "queue/read_ahead_kb", "value": "4096", "present": "128", "reason": "why"}
        names = {"name": "", "serial": "", "wwid": ""}
        document["disk"] = {**place, "knobs": [knob], **names}
        document["mount"] = {
            **place,
            **{"fstype": "ext4", "value": ["noatime", "commit=30"], "present": [], "policy": []},
            "reason": "why",
        }
        recommendation.write_text(json.dumps(document))
        done = writewise("apply", recommendation, "--yes", "--mounts")
        assert done.returncode == 0, done.stderr
        now = mount_at(SYSTEM.mounts(), str(target))
        assert {"noatime", "commit=30"} <= {*now.options, *now.super_options}
        assert read_ahead(target) == "4096"
        assert writewise("verify", recommendation).returncode == 0
        assert writewise("verify", "--applied").returncode == 0
        assert writewise("rollback").returncode == 0
        assert mount_at(SYSTEM.mounts(), str(target)).all_options == before.all_options
        assert read_ahead(target) == readahead


def read_ahead(target):
    disk = disk_of(SYSTEM, mount_at(SYSTEM.mounts(), str(target)))
    return SYSTEM.read(disk.path("queue/read_ahead_kb"))


def test_a_kill_at_any_moment_leaves_the_originals_or_all_of_it(recommendation):
    """From the first line in the journal to the last it takes some milliseconds."""
    before, outcomes = in_force(), []
    journal, moments = state_directory() / "applied.journal", random.Random(5)
    for number in range(KILLS):
        with start("apply", recommendation, "--yes", "--persist") as process:
            while not journal.exists() and process.poll() is None:
                pass
            time.sleep(moments.uniform(0, LONGEST_S) if number % 2 else 0.0)
            process.send_signal(signal.SIGKILL)
        done = writewise("rollback", "--interrupted")
        assert done.returncode == 0, done.stderr
        outcomes.append(in_force())
        there = any(path.exists() for path in FILES)
        assert (outcomes[-1], there) in ((before, False), (WANTED, True))
        writewise("rollback")
        assert in_force() == before and not any(path.exists() for path in FILES)
    assert before in outcomes
