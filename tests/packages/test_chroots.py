# SPDX-License-Identifier: Apache-2.0
"""The .deb in Debian 12 and 13: installed, run, upgraded, removed, purged.

A chroot's processes change no kernel setting, so the journals here are of files.
"""

from __future__ import annotations

import json

import pytest

from profiler.cli import commands
from tests.unit.studies import Study, ratio

STATE = "/var/lib/writewise"
JOURNAL = f"{STATE}/sweep.journal"
APPLIED = f"{STATE}/applied.journal"
UNIT = "/etc/systemd/system/writewise-recover.service"
UNIT_LINK = "/etc/systemd/system/multi-user.target.wants/writewise-recover.service"
UPGRADE = "dpkg --install /packages/new.deb"
#: Starts a program that uses the installed package, in the background until `ready` is there.
PYTHON = """python3 -I -c '
import sys; sys.path.insert(0, "/usr/lib/writewise/lib")
{}
'
"""
#: A killed run, which has made a folder for a trial.
KILLED = PYTHON.format("""
from pathlib import Path
from sysctl.host.host import WRITER, Host, state_directory
Host(state_directory(), WRITER).make_directory(Path("/trial"))
""")
#: What `apply --persist` leaves; in a chroot only the file.
KEPT = "mkdir -p /etc/sysctl.d\n" + PYTHON.format("""
from sysctl.host.applied_host import AppliedHost
from sysctl.host.host import state_directory
host = AppliedHost(state_directory())
text = "# Written by writewise\\nvm.dirty_ratio = 60\\n"
host.write_file("/etc/sysctl.d/90-writewise.conf", text)
host.keep()
""")
#: A run that holds the lock for {} seconds.
RUNNING = """(
{}) &
while [ ! -e /ready ]; do sleep 0.1; done
"""
INSTALL_RECOVERY = PYTHON.format("""
from pathlib import Path
from sysctl.apply.units import RECOVERY_PATH, program, recovery_unit
Path(RECOVERY_PATH).parent.mkdir(parents=True, exist_ok=True)
Path(RECOVERY_PATH).write_text(recovery_unit(program()))
wants = Path("/etc/systemd/system/multi-user.target.wants/writewise-recover.service")
wants.parent.mkdir(exist_ok=True)
wants.symlink_to(RECOVERY_PATH)
""")


def running(seconds: int) -> str:
    return RUNNING.format(
        PYTHON.format(f"""
import time
from pathlib import Path
from sysctl.host.host import WRITER, Host
with Host.lasting(WRITER, "sweep of /data"):
    Path("/ready").touch()
    time.sleep({seconds})
""")
    )


@pytest.fixture(scope="module")
def upgraded(installed):
    return installed.check(UPGRADE)[1]


def version(chroot) -> str:
    return chroot.check("dpkg-query --show --showformat '${Version} ${Status}' writewise")[0]


def test_a_chroot_has_nothing_of_the_host(installed):
    mounts, _ = installed.check("cut -d' ' -f2 /proc/self/mounts")
    assert mounts.split() == ["/", "/proc", "/dev/shm", "/proc/sys"]
    done, _ = installed.run("echo 11 >/proc/sys/vm/dirty_ratio")
    assert done.returncode and "Read-only file system" in done.stdout


def test_the_commands_run(upgraded):
    assert upgraded.check("writewise --version")[0].startswith("writewise 0.2.0 (commit ")
    names = [command.NAME for command in commands.ALL]
    out, _ = upgraded.check("".join(f"writewise {name} --help\n" for name in names))
    assert [name for name in names if f"usage: writewise {name} " not in out] == []
    out, _ = upgraded.check("writewise doctor --json || true")
    found = {each["name"]: each for each in json.loads(out)["requirements"]}
    assert [found[name]["ok"] for name in ("python", "bcc", "libbcc", "boto3")] == [True] * 4


def test_recorded_results_are_advised(upgraded, tmp_path):
    Study().tried(ratio(80), 4.0).results.save(tmp_path / "results.json")
    there = upgraded.add({"/results.json": tmp_path / "results.json"})
    out, after = there.check("writewise advise /results.json --output-dir /out --html /page.html")
    assert "vm.dirty_ratio = 80" in out
    page, _ = after.check("cat /page.html")
    assert page.startswith("<!doctype html>") and "dirty_ratio" in page  # by Debian's Jinja2
    after.check("writewise verify /out/recommendation.json || test $? = 1")


def test_watch_has_its_unit_alerts_and_dashboard(upgraded):
    unit, _ = upgraded.check("writewise watch /srv --print-unit")
    assert "\nExecStart=/usr/bin/writewise watch " in unit
    shipped, _ = upgraded.check("ls /usr/lib/writewise/lib/profiler/metrics/shipped")
    assert {"alerts.yml", "dashboard.json"} <= {*shipped.split()}


def test_it_pulls_with_its_own_server_and_workers(upgraded):
    out, _ = upgraded.check("""
        echo '[{name: few, what: few objects, objects: 8, size: 1MiB}]' >/workload.yaml
        mkdir --mode=777 /data
        setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp \
            writewise bench-clients --workload /workload.yaml --pulls 2 --json /data""")
    (row,) = json.loads(out[out.index("\n{") :])["rows"]
    problems = {each["client"]: each["problem"] for each in row["clients"]}
    assert problems == dict.fromkeys(("direct", "transfer-manager", "boto3", "crt"))


def test_modules_are_compiled_and_fit(upgraded):
    compiled, _ = upgraded.check("find /usr/lib/writewise -name '*.pyc' | wc -l")
    assert int(compiled) > 500
    in_blocks = "{ bytes += int(($1 + 4095) / 4096) * 4096 } END { print bytes }"
    files = "dpkg --listfiles writewise; find /usr/lib/writewise -name '*.pyc'"
    size_bytes, _ = upgraded.check(f"({files}) | xargs stat -c %s | awk '{in_blocks}'")
    assert 50_000_000 < int(size_bytes) <= 75_000_000
    again, _ = upgraded.check("""
        find /usr/lib/writewise -name '*.pyc' -delete
        /usr/share/python3/runtime.d/writewise.rtupdate rtupdate 3.1 3.2
        find /usr/lib/writewise -name '*.pyc' | wc -l""")
    assert again == compiled


def test_an_upgrade_replaces_all(installed, upgraded):
    assert version(installed).startswith("0~0")
    assert version(upgraded) == "0.2.0-1 install ok installed"
    old, _ = upgraded.check("find /usr/lib/writewise -name 'of_the_old_version*'")
    assert old == ""


def test_an_upgrade_waits_for_a_running_sweep(installed):
    out, after = installed.check(f"{running(5)} {UPGRADE}")
    assert "waiting at most 600 s for: sweep of /data, process " in out
    assert version(after).startswith("0.2.0-1 install ok")


def test_an_upgrade_gives_up_on_a_sweep_that_goes_on(installed):
    done, after = installed.run(f"{running(600)} WRITEWISE_WAIT_S=1 {UPGRADE}")
    assert done.returncode
    assert "still running on this host: sweep of /data" in done.stdout
    assert "stop it with SIGTERM" in done.stdout
    assert version(after).startswith("0~0") and version(after).endswith("install ok installed")
    assert after.check("writewise status")[0] == "nothing is applied\n"


def test_an_upgrade_restores_what_a_killed_run_left_and_keeps_the_applied(installed):
    _, before = installed.check(f"{KILLED} {KEPT} test -d /trial; test -e {JOURNAL}")
    out, after = before.check(UPGRADE)
    assert "restored: " in out and "/trial" in out
    out, _ = after.check(f"test ! -e /trial; test ! -e {JOURNAL}; writewise status")
    assert "read at every boot: /etc/sysctl.d/90-writewise.conf" in out


@pytest.mark.parametrize("step", [UPGRADE, "apt-get -y remove writewise"])
def test_what_cannot_be_restored_stops_the_package(step, installed):
    done, after = installed.run(f"{KILLED} echo damaged >>{JOURNAL}; {step}")
    assert done.returncode
    assert "cannot restore what a killed run left" in done.stdout
    assert version(after).endswith(" ok installed")
    after.check(f"test -d /trial; test -e {JOURNAL}; writewise --version")


BROKEN = "echo 'import no_such_module' >/usr/lib/writewise/lib/profiler/cli/main.py"


def test_an_upgrade_mends_a_program_that_does_not_start(installed):
    out, after = installed.check(f"{KILLED} {BROKEN}; {UPGRADE}")
    assert "the installed version does not start: run 'writewise rollback --interrupted'" in out
    out, _ = after.check(f"writewise rollback --interrupted; test ! -e /trial; test ! -e {JOURNAL}")
    assert "restored: " in out


def test_a_removal_of_a_program_that_does_not_start_keeps_the_journal(installed):
    done, after = installed.run(f"{KILLED} {BROKEN}; apt-get -y remove writewise")
    assert done.returncode
    assert "does not start, and /var/lib/writewise has a journal" in done.stdout
    after.check(f"test -d /trial; test -e {JOURNAL}")


def test_a_removal_restores_and_says_what_stays(upgraded):
    _, before = upgraded.check(f"{KILLED} {KEPT} {INSTALL_RECOVERY} test -L {UNIT_LINK}")
    out, after = before.check("apt-get -y remove writewise")
    assert "restored: " in out and "/trial" in out
    assert f"removed {UNIT}, which starts the removed program" in out
    assert "read at every boot: /etc/sysctl.d/90-writewise.conf" in out
    assert "applied changes stay" in out
    after.check(f"""
        test ! -e /trial; test ! -e {JOURNAL}; test ! -e {UNIT}; test ! -L {UNIT_LINK}
        test -e {APPLIED}; test -e /etc/sysctl.d/90-writewise.conf
        test ! -e /usr/lib/writewise; test ! -e /usr/bin/writewise""")


def test_a_removal_leaves_another_installations_unit(upgraded):
    out, _ = upgraded.check(f"""
        mkdir -p /etc/systemd/system
        echo 'ExecStart=/clone/.venv/bin/writewise rollback --interrupted' >{UNIT}
        apt-get -y remove writewise
        test -e {UNIT}""")
    assert "removed" not in out.replace("will be REMOVED", "")


def test_a_purge_never_deletes_an_open_journal(upgraded):
    out, after = upgraded.check(f"{KEPT} cp {APPLIED} /before; apt-get -y purge writewise")
    assert f"kept {STATE}: its journals have the previous state" in out
    after.check(f"cmp /before {APPLIED}")
    out, _ = after.check("apt-get -y --no-install-recommends install /packages/new.deb; "
                         "writewise rollback")  # fmt: skip
    assert "restored: no /etc/sysctl.d/90-writewise.conf" in out


def test_a_purge_leaves_nothing(upgraded):
    _, after = upgraded.check("writewise rollback; test -d /var/lib/writewise")
    _, after = after.check("apt-get -y purge writewise")
    found, _ = after.check("find / -xdev -not -path '/proc/*' -name '*writewise*' | sort")
    assert [line for line in found.splitlines() if not line.startswith("/packages")] == []
