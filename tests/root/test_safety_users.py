# SPDX-License-Identifier: Apache-2.0
"""The user that a profiled command runs as, and the privileges that the profiler keeps."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from profiler.recording import privileges
from profiler.recording.identity import chosen
from tests.places import REPOSITORY

pytestmark = pytest.mark.side_by_side

WRITEWISE = [sys.executable, "-m", "profiler.cli.main", "profile"]
NOBODY = pwd.getpwnam("nobody")
#: Not every host has a user with supplementary groups, but sudo's numbers may name any group.
OTHER_GROUP = grp.getgrnam("daemon").gr_gid
SUDO: dict[str, Any] = {
    "SUDO_UID": str(NOBODY.pw_uid),
    "SUDO_GID": str(NOBODY.pw_gid),
    "SUDO_USER": "nobody",
}
#: Finds the processes of `running` among those of other tests.
MARK = {"WRITEWISE_TEST": f"safety-users-{uuid.uuid4()}"}
SECURE_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"  # as sudo sets it, without root's own directories
STATUS = ["cat", "/proc/self/status"]


def profile(*arguments: object, wrapper: tuple[str, ...] = (), **environment: Any):
    return subprocess.run(
        [*wrapper, *WRITEWISE, *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": SECURE_PATH, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def field(status: str, name: str) -> list[str]:
    found = re.search(rf"^{name}:\s*(.*)$", status, re.M)
    assert found is not None, status
    return found[1].split()


def assert_is_nobody(status: str, gid: int = NOBODY.pw_gid) -> None:
    assert field(status, "Uid") == [str(NOBODY.pw_uid)] * 4
    assert field(status, "Gid") == [str(gid)] * 4
    assert field(status, "Groups") == [
        str(group) for group in sorted(os.getgrouplist(NOBODY.pw_name, gid))
    ]
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(field(status, kind)[0], 16) == 0, kind
    assert field(status, "NoNewPrivs") == ["0"]  # sudo works as in a shell


def test_under_sudo_the_command_is_the_invoking_users() -> None:
    done = profile("--", *STATUS, **SUDO)
    assert done.returncode == 0, done.stderr
    assert_is_nobody(done.stdout)
    assert f"The command ran as nobody (uid {NOBODY.pw_uid})." in done.stderr


def test_a_group_that_the_user_is_not_in_is_refused() -> None:
    done = profile("--", *STATUS, **{**SUDO, "SUDO_GID": str(OTHER_GROUP)})
    assert done.returncode == 125
    assert f"is not in the group of SUDO_GID={OTHER_GROUP}" in done.stderr


def test_a_user_by_name() -> None:
    done = profile("--user", "nobody", "--json", "--", *STATUS)
    assert_is_nobody(done.stderr)
    document = json.loads(done.stdout)
    assert document["command_user"] == f"nobody (uid {NOBODY.pw_uid})"
    assert document["scope"] == {"target": "command", "comm": None, "cgroup": None}


def test_every_group_of_the_user() -> None:
    """`nobody` may have only one group, so the test finds a user of this host with several."""
    users = [user for user in pwd.getpwall() if user.pw_uid]
    user = max(users, key=lambda one: len(os.getgrouplist(one.pw_name, one.pw_gid)))
    groups = sorted(os.getgrouplist(user.pw_name, user.pw_gid))
    done = profile("--user", user.pw_name, "--", *STATUS)
    assert field(done.stdout, "Groups") == [str(group) for group in groups]


def test_more_than_one_supplementary_group_reaches_the_command() -> None:
    """With numbers only: a test host's user database may have no such user."""
    from profiler.recording.identity import Identity

    identity = Identity("nobody", NOBODY.pw_uid, NOBODY.pw_gid, (1, 2, 3, NOBODY.pw_gid), "/")
    read, write = os.pipe()
    before = Path("/proc/thread-self/status").read_text()
    with identity.assumed():
        pid = os.posix_spawnp(
            "cat", STATUS, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)]
        )
    os.close(write)
    with os.fdopen(read) as file:
        status = file.read()
    os.waitpid(pid, 0)
    assert field(status, "Groups") == ["1", "2", "3", str(NOBODY.pw_gid)]
    after = Path("/proc/thread-self/status").read_text()
    for name in ("Uid", "Gid", "Groups", "CapPrm", "CapEff"):
        assert field(after, name) == field(before, name), name


def test_root_stays_root_where_it_is_asked_for() -> None:
    done = profile("--user", "root", "--", *STATUS, **SUDO)
    assert field(done.stdout, "Uid") == ["0"] * 4
    before = int(field(Path("/proc/self/status").read_text(), "CapBnd")[0], 16)
    assert int(field(done.stdout, "CapEff")[0], 16) == before
    assert "The command ran as root (uid 0)." in done.stderr


def test_without_sudo_the_command_is_ours() -> None:
    done = profile("--", *STATUS)
    assert field(done.stdout, "Uid") == ["0"] * 4


def test_ambient_capabilities_do_not_reach_the_command() -> None:
    wrapper = ("setpriv", "--inh-caps=+net_raw", "--ambient-caps=+net_raw")
    done = profile("--user", "nobody", "--", *STATUS, wrapper=wrapper)
    assert done.returncode == 0, done.stderr
    assert int(field(done.stdout, "CapAmb")[0], 16) == 0
    assert int(field(done.stdout, "CapPrm")[0], 16) == 0


def test_the_environment_is_the_users() -> None:
    done = profile("--", "sh", "-c", 'echo "$HOME $USER $LOGNAME"', **SUDO)
    assert done.stdout.split() == [NOBODY.pw_dir, "nobody", "nobody"]


def test_every_write_is_counted_as_before(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    contract = tmp_path / "contract"
    contract.write_text(f"2,monitortimeframe,1000s\ncalls,{tmp_path / 'data'},write,all,count,1\n")
    dd = ["dd", "if=/dev/zero", f"of={tmp_path / 'data' / 'file'}", "bs=100", "count=7"]
    done = profile("--contract", contract, "--json", "--", *dd, **SUDO)
    document = json.loads(done.stdout)
    assert document["findings"][0]["value"] == 7
    assert document["losses"]["total"] == 0
    assert (tmp_path / "data" / "file").stat().st_uid == NOBODY.pw_uid


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["--", "sh", "-c", "exit 7"], 7, "Lost: nothing"),
        (["--", "sh", "-c", "kill -9 $$"], 137, "Lost: nothing"),
        (["--", "no-such-command"], 127, "cannot run no-such-command as nobody (uid 65534)"),
        (["--", "/root/private"], 126, "as nobody (uid 65534): Permission denied"),
        (["--user", "no-such-user", "--", "true"], 125, "there is no user 'no-such-user'"),
        (["--user", "\x1b[31m", "--", "true"], 125, r"there is no user '\x1b[31m'"),
        (["--user", "nobody", "--duration", "1s"], 2, "--user needs a command"),
    ],
)
def test_exit_codes(arguments: list[str], exit_code: int, sentence: str) -> None:
    done = profile(*arguments, **SUDO)
    assert done.returncode == exit_code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("uid", ["4294967295", "x", "-1", "99999999999999999999", "12345678"])
def test_numbers_of_sudo_that_name_nobody(uid: str, tmp_path: Path) -> None:
    done = profile("--", "touch", tmp_path / "mark", SUDO_UID=uid)
    assert done.returncode == 125
    assert "do not name a user of this host" in done.stderr
    assert not (tmp_path / "mark").exists()


@pytest.fixture
def running():
    """A profile of another user's command that waits."""
    process = subprocess.Popen(
        [*WRITEWISE, "--", "sh", "-c", "echo started; exec sleep 30"],
        cwd=REPOSITORY,
        env={**os.environ, **SUDO, **MARK},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    yield process
    process.terminate()  # passed on to the command, which would keep the pipes open
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_a_command_of_another_user(running, number: int, code: int) -> None:
    running.send_signal(number)
    report = running.communicate(timeout=20)[1]
    assert running.returncode == code
    assert "Lost: nothing" in report


def test_the_profiler_keeps_few_capabilities(running) -> None:
    names = privileges.needed_to_profile(changes_user=True, may_remove_output=False)
    allowed = sum(1 << number for number in names)
    threads = list(Path(f"/proc/{running.pid}/task").iterdir())
    assert len(threads) > 1
    for thread in threads:
        status = (thread / "status").read_text()
        for kind in ("CapPrm", "CapEff", "CapInh"):
            assert int(field(status, kind)[0], 16) & ~allowed == 0, kind
    assert not 1 << privileges.SYS_ADMIN & allowed


def test_the_command_holds_nothing_of_the_profiler(running) -> None:
    child = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0]
    held = []
    for link in Path(f"/proc/{child}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed at the shell's exec
            held.append(os.readlink(link))
    assert held
    assert [name for name in held if "bpf" in name or "perf_event" in name] == []


def test_probes_are_detached_without_capabilities(running) -> None:
    """The kernel takes its time: other tests attach and detach under the same lock."""
    assert str(running.pid) in holders()
    running.terminate()
    running.communicate(timeout=20)
    deadline_s = time.monotonic() + 120
    while holders() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert holders() == []


def holders() -> list[str]:
    """Return the processes of `running` that have attachments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [os.readlink(link) for link in (process / "fd").iterdir()]
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        is_ours = f"WRITEWISE_TEST={MARK['WRITEWISE_TEST']}".encode() in environment.split(b"\0")
        if is_ours and any("perf_event" in link for link in links):
            found.append(process.name)
    return found


def test_output_of_a_command_that_was_not_found_goes_again(tmp_path: Path) -> None:
    """In another user's directory, which needs a capability that is kept for this."""
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    done = profile("--output", folder / "report", "--", "no-such-command", **SUDO)
    assert done.returncode == 127
    assert list(folder.iterdir()) == []


def test_who_is_not_root_stays_who_one_is(monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY.pw_uid)
    assert chosen(None, SUDO) is None
    assert chosen("nobody", {}) is None
