# SPDX-License-Identifier: Apache-2.0
"""The lab on the real host: it emulates what it says, and leaves nothing, however it ends."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.lab import lab
from sysctl.evidence.protocol import ATTEMPTS
from sysctl.host.changes import LiftedCap
from sysctl.host.host import Host
from sysctl.host.sysctls import read_available_bytes
from sysctl.host.system import HostError
from tests.root import groups
from tests.root.hosts import SLOWNESS, cannot_run_here, has_systemd
from tests.root.labs import (
    MIB,
    SMALL,
    SMALL_UP,
    SYSTEM,
    assert_as,
    caps,
    endpoint_arguments,
    guarded,
    host_state,
    kill_after,
    kills_spread_over,
    start,
    volume,
    wait_until,
    writewise,
)


@pytest.fixture(autouse=True)
def state(tmp_path):
    with guarded(tmp_path) as state:
        yield state


def test_up_status_down_on_the_command_line(state):
    before = host_state()
    up = writewise(*SMALL_UP)
    assert up.returncode == 0, up.stderr
    assert host_state() != before
    status = writewise("lab", "status")
    assert status.returncode == 0
    assert "s3://lab/images (8 objects, 32.0 MiB)" in status.stdout
    assert f"{state}/lab/volume (xfs on /dev/loop" in status.stdout
    again = writewise(*SMALL_UP)
    assert again.returncode == 1
    assert (
        again.stderr == "writewise: a lab is already up\n  → remove it with `writewise lab down`\n"
    )
    down = writewise("lab", "down")
    assert down.returncode == 0
    assert down.stdout.endswith("lab: down\n")
    assert_as(before)
    assert list(state.iterdir()) == [state / "lab.lock"]
    status = writewise("lab", "status")
    assert (status.returncode, status.stdout) == (1, "lab: down\n")
    assert writewise("lab", "down").stdout == "lab: was not up\n"


def seconds_to_write(present, mebibytes, flag):
    target = f"of={present.destination}/file"
    join = groups.inside(present.cap.group) if present.cap.group else []
    started_s = time.monotonic()
    dd = [*join, "dd", "if=/dev/zero", target, "bs=1M", f"count={mebibytes}", "status=none", flag]
    subprocess.run(dd, check=True)
    return time.monotonic() - started_s


def fastest_s(present: lab.Lab, mebibytes: int, flag: str, wanted_s: float) -> float:
    """Return the fastest of up to five writes: other programs only make writes slower."""
    taken_s: list[float] = []
    while len(taken_s) < 5 and min(taken_s, default=math.inf) > wanted_s:
        taken_s.append(seconds_to_write(present, mebibytes, flag))
        delete(present)
    return min(taken_s)


@pytest.mark.parametrize("fstype", ["xfs", "ext4"])
def test_the_cap_holds_for_direct_and_buffered_writes(fstype):
    """Large write-back bios fit the throttle's slices less well: up to a sixth slower."""
    with lab.running(replace(SMALL, fstype=fstype, rate_bytes_per_s=60 * MIB)) as present:
        longest_s = 1.2 * 2.0 * SLOWNESS
        assert 0.9 * 2.0 < fastest_s(present, 120, "oflag=direct", longest_s) < longest_s
        longest_s = 1.3 * 2.0 * SLOWNESS
        assert 0.9 * 2.0 < fastest_s(present, 120, "conv=fsync", longest_s) < longest_s
        # an idle volume lends one slice of 100 ms, as EBS lends its burst bucket
        longest_s = 2 * 0.3 * SLOWNESS
        assert 0.2 - 0.05 < fastest_s(present, 18, "oflag=direct", longest_s) < longest_s


def delete(present):
    with Host.exclusive("sweep", "test") as host, lab.uncapped(present, host):
        os.unlink(f"{present.destination}/file")


def test_the_cap_can_be_lifted_for_a_moment():
    with lab.running(SMALL) as present:
        capped = caps()
        with Host.exclusive("sweep", "test") as host, lab.uncapped(present, host):
            assert len(caps()) == len(capped) - len(present.cap.lines)
        assert caps() == capped


def test_a_kill_while_the_cap_is_lifted_leaves_it_set_after_the_next_start():
    script = (
        "import os, signal\nfrom profiler.lab import lab\nfrom sysctl.host.host import Host\n"
        "with Host.exclusive('sweep', 'test') as host, lab.uncapped(lab.status(), host):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with lab.running(SMALL) as present:
        capped, lines = caps(), len(present.cap.lines)
        assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
        assert len(caps()) == len(capped) - lines
        done = writewise("rollback")
        assert done.stdout.count("restored: the cap ") == lines
        assert caps() == capped


def test_a_lifted_cap_is_not_set_on_a_device_that_is_anothers_by_now():
    with lab.running(SMALL) as present:
        path, setting, _ = present.cap.lines[0]
        LiftedCap(path, setting.replace(" ", " 1"), "/no/such/image").undo(SYSTEM)
        assert f" {setting.split()[1]}" in "".join(caps())
        assert setting.replace(" ", " 1") not in "".join(caps())


def test_available_memory_is_about_what_was_asked():
    wanted = read_available_bytes(SYSTEM) // 2
    with lab.running(replace(SMALL, memory_bytes=wanted)) as present:
        assert present.available_bytes == pytest.approx(wanted, rel=0.03)
        assert read_available_bytes(SYSTEM) == pytest.approx(wanted, rel=0.05)
    assert read_available_bytes(SYSTEM) == pytest.approx(2 * wanted, rel=0.05)


def test_the_endpoint_answers_until_the_lab_goes_down():
    with lab.running(SMALL) as present:
        with urllib.request.urlopen(f"{present.endpoint_url}/lab?list-type=2") as answer:
            assert answer.read().count(b"<Key>images/") == 8
        server, _ = present.server
        assert Path(f"/proc/{server}").exists()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(present.endpoint_url)
    assert not Path(f"/proc/{server}").exists()


def test_down_touches_nothing_that_the_lab_did_not_make(tmp_path):
    with volume(tmp_path / "theirs") as theirs, groups.capped(theirs.stat().st_dev, 12345678):
        (theirs / "precious").write_text("x")
        before = host_state()
        with lab.running(SMALL):
            assert len(host_state()["loop devices"]) == len(before["loop devices"]) + 1
        assert_as(before)
        assert (theirs / "precious").read_text() == "x"


def test_a_cap_that_another_program_put_on_the_same_number_stays():
    """In the same file that the lab wrote, if other programs share it (v1).

    On version 2 in another group, which keeps its controller when the lab's group goes.
    """
    with contextlib.ExitStack() as theirs:
        with lab.running(SMALL) as present:
            path, setting, clearing = present.cap.lines[0]
            device = setting.split()[0]
            if present.cap.group is None:
                SYSTEM.write(path, f"{device} 12345678")
                theirs.callback(SYSTEM.write, path, clearing)
            number = os.stat(present.destination).st_dev
            theirs.enter_context(groups.capped(number, 12345678))
            before = [line for line in caps() if f" {device} " in line and "12345678" in line]
        assert [line for line in caps() if f" {device} " in line] == before
        assert before


def sweep(present, output):
    source = ("sweep", present.source, present.destination, *endpoint_arguments(present))
    return start(*source, "--output", output, "--dirty-ratio", "40", "--budget", "8")


def wait_for_trial(present):
    """Wait until a pull has begun to write its files."""
    folder = Path(present.destination)
    assert wait_until(lambda: any(folder.glob(".writewise-trial-*/.writewise-*")), 60)


SLOW = replace(SMALL, rate_bytes_per_s=16 * MIB)


def test_a_cap_that_is_lost_during_a_trial_makes_it_invalid(tmp_path):
    with lab.running(SLOW) as present:
        path, setting, clearing = present.cap.lines[0]
        with sweep(present, tmp_path / "results.json") as process:
            wait_for_trial(present)
            if present.cap.group:  # v2: the cap applies to members of the group; a sweep joins it
                members = SYSTEM.read(f"{present.cap.group}/cgroup.procs").split()
                assert str(process.pid) in members
            SYSTEM.write(path, clearing)
            said, _ = process.communicate(timeout=120 * SLOWNESS)
        lost = f"the cap of the lab's volume is lost: {path} no longer has the line '{setting}'"
        invalid = [line for line in said.splitlines() if "invalid: " in line]
        assert len(invalid) == ATTEMPTS, said
        assert all(line.endswith(lost) for line in invalid)
        assert process.returncode == 1
        status = writewise("lab", "status")
        assert status.returncode == 1
        assert f"warning: {lost}\n  → writewise lab down, then writewise lab up" in status.stdout
        SYSTEM.write(path, setting)
        assert writewise("lab", "status").returncode == 0


def test_the_cap_survives_a_reload_and_a_restart_of_systemd_during_a_trial(tmp_path):
    if not has_systemd() or SYSTEM.exists("/sys/fs/cgroup/blkio"):
        cannot_run_here("it is systemd with version 2 of control groups that takes controllers")
    with lab.running(SLOW) as present:
        with sweep(present, tmp_path / "results.json") as process:
            for order in ("daemon-reload", "daemon-reexec"):
                wait_for_trial(present)
                subprocess.run(["systemctl", order], check=True)
                assert present.cap.lost(SYSTEM) is None
            said, _ = process.communicate(timeout=600 * SLOWNESS)
        assert process.returncode == 0, said
        assert "is lost" not in said
        assert present.cap.lost(SYSTEM) is None
        group = present.cap.group
    assert not SYSTEM.exists(group)


def test_kill_at_any_instant_then_down_leaves_nothing(state):
    before, killed = host_state(), 0
    for part, was_running in enumerate(kills_spread_over(16, *SMALL_UP)):
        killed += was_running
        lab.down()
        assert_as(before, f"killed in part {part}")
        assert {path.name for path in state.iterdir()} <= {"lab.lock"}
    assert killed >= 10


def is_half_made():
    try:
        lab.status()
    except HostError:
        return True
    return False


def test_rollback_takes_back_a_half_made_lab_and_leaves_a_whole_one():
    before = host_state()
    while not is_half_made():
        lab.down()
        kill_after(random.uniform(0.2, 0.45), *SMALL_UP)
    assert "nothing to restore" not in writewise("rollback", "--dry-run").stdout
    done = writewise("rollback")
    assert done.returncode == 0, done.stderr
    assert_as(before)
    lab.up(SMALL)
    assert "nothing to restore" in writewise("rollback").stdout
    assert lab.status() is not None
    assert lab.down()


def test_what_was_on_the_labs_volume_goes_with_it_after_a_power_cut(state):
    """After a boot the journals exist, but no mount, no loop device and no server."""
    before = host_state()
    present = lab.up(SMALL)
    with Host.lasting("sweep", "test") as host:
        trial = host.make_trial_directory(Path(present.destination), "left")
    os.kill(present.server[0], signal.SIGKILL)
    subprocess.run(["umount", present.destination], check=True)
    done = writewise("rollback", "--interrupted")
    assert done.returncode == 0, done.stderr
    assert f"restored: no {trial}\n" in done.stdout
    assert_as(before)
    assert {path.name for path in state.iterdir()} <= {"lab.lock", "sweep.lock"}


OWNER = """
import signal
from profiler.lab import lab
from tests.root.labs import SMALL
with lab.running(SMALL):
    print("up", flush=True)
    signal.pause()
"""


def test_the_lab_of_a_killed_demo_is_taken_back_by_rollback_and_by_the_next_start():
    before = host_state()
    for take_back in (lambda: writewise("rollback"), lambda: lab.down() if lab.up(SMALL) else 0):
        demo = subprocess.Popen(
            [sys.executable, "-c", OWNER],
            stdout=subprocess.PIPE,
        )
        assert demo.stdout.readline() == b"up\n"
        demo.kill()
        demo.communicate()
        with pytest.raises(HostError, match="the lab is incomplete, or its program has ended"):
            lab.status()
        take_back()
        assert_as(before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_lab_up_in_order(number, state):
    before = host_state()
    with start(*SMALL_UP) as process:
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(number)
        said, _ = process.communicate(timeout=20 * SLOWNESS)
    assert process.returncode == 128 + number
    assert "Traceback" not in said
    assert_as(before)
    assert list(state.iterdir()) == [state / "lab.lock"]


def test_a_volume_in_use_is_kept_until_it_is_free(state):
    present = lab.up(SMALL)
    with open(f"{present.destination}/file", "w") as file:
        file.write("x")
        done = writewise("lab", "down")
        assert done.returncode == 1
        assert "not everything could be restored" in done.stderr
        assert "busy" in done.stderr
        assert os.path.exists(file.name), "what is still mounted is not deleted"
        assert writewise("lab", "status").returncode == 1
    assert writewise("lab", "down").returncode == 0


def test_a_server_that_was_killed_leaves_no_worker_and_the_lab_goes_down():
    present = lab.up(SMALL)
    os.kill(present.server[0], signal.SIGKILL)
    assert writewise("lab", "status").returncode == 1
    done = writewise("lab", "down")
    assert done.returncode == 0, done.stderr


def test_a_disk_that_is_full_stops_the_lab_before_anything_is_changed(state):
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", state], check=True)
    try:
        done = writewise("lab", "up")
        assert done.returncode == 1
        assert "has 0 MiB free, but the lab needs" in done.stderr
    finally:
        subprocess.run(["umount", state], check=True)


def test_what_cannot_be_emulated_is_refused():
    for option, value, said in (
        ("--memory", "1MiB", "--memory must be at least 256MiB"),
        ("--volume", "0B", "--volume must be more than 0"),
        ("--rate", "0B", "invalid throughput '0B'; it must be more than 0"),
    ):
        done = writewise("lab", "up", option, value)
        assert done.returncode == 2
        assert said in done.stderr
    done = writewise(*SMALL_UP, "--volume", "1MiB")
    assert done.returncode == 1
    assert done.stderr.startswith("writewise: mkfs.xfs")
    assert "Traceback" not in done.stderr


def test_a_record_that_is_damaged_is_a_half_made_lab(state):
    lab.up(SMALL)
    record = state / "lab" / "lab.json"
    record.write_text(json.dumps({"spec": 1}))
    done = writewise("lab", "status")
    assert done.returncode == 1
    assert "the lab is incomplete" in done.stderr
    assert lab.down()


def test_an_orphaned_command_keeps_the_lock_until_it_has_ended(state):
    """The lock's holder is killed while its `mount` still runs: the restore must come after it."""
    script = (
        "import os, signal, threading\n"
        "from sysctl.host.host import Host\n"
        "with Host.lasting('lab', 'to be killed') as host:\n"
        "    kill = lambda: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    threading.Timer(0.2, kill).start()\n"
        "    host.system.run(['sleep', '1'])\n"
    )
    started_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script])
    assert done.returncode == -signal.SIGKILL
    with Host.lasting("lab", "after it"):
        assert time.monotonic() - started_s > 1
