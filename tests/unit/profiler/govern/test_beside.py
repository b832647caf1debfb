# SPDX-License-Identifier: Apache-2.0
"""The process that governs for `run --auto`: how it begins, follows, ends and is killed.

It is forked as in use; only its samples are made up. Nothing is raised on this host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from contracts.shared.errors import WritewiseError
from profiler.govern import beside, child
from profiler.govern.beside import governed_beside
from profiler.govern.child import GovernRequest, other_governor
from profiler.govern.volumes import NamedVolume
from profiler.recording import privileges
from sysctl.govern.bounds import UNLIMITED_NS, RaiseLimits
from sysctl.govern.samples import HostSample
from sysctl.host.governor_state import read_governor_state
from sysctl.host.host import WRITER, Host, state_directory
from sysctl.host.lock import LockedError, holder_of
from sysctl.host.raising_host import governing
from sysctl.host.system import HostError
from sysctl.knobs.writeback import Thresholds

DATA = NamedVolume("/data", "7:0")
REQUEST = GovernRequest("`job`", (DATA,), RaiseLimits(2**30, UNLIMITED_NS), are_named=True)


SAMPLE = HostSample(
    time_ns=0,
    dirty_bytes=0,
    writeback_bytes=0,
    thresholds=Thresholds(2**29, 2**30),
    dirtyable_bytes=5 * 2**30,
    available_bytes=5 * 2**30,
    values={"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10},
    volumes=(),
)


class CalmReader:
    """A host on which nothing happens."""

    def values(self):
        return {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}

    def read_news(self):
        return None

    def read(self):
        return SAMPLE


@pytest.fixture(autouse=True)
def calm(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    opened = lambda volumes, *, are_named: contextlib.nullcontext((volumes, 0))  # noqa: E731
    monkeypatch.setattr(child, "opened_volumes", opened)
    monkeypatch.setattr(child, "opened_reader", lambda *_: contextlib.nullcontext(CalmReader()))
    monkeypatch.setattr(child, "counts_every_group", lambda *_: True)
    monkeypatch.setattr(privileges, "keep_only", lambda _: None)


def holder():
    return holder_of(state_directory() / f"{WRITER}.lock")


def wait_until(condition, seconds=10.0):
    deadline_s = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return condition()


def test_it_governs_within_the_block():
    with governed_beside(REQUEST) as (governor, start):
        assert (start.volumes, start.followed) == (["/data"], None)
        assert start.low_bound == [2**30, 2**30]
        assert holder() == f"run --auto of `job`, process {governor.pid}"
        assert os.getsid(governor.pid) == governor.pid
        assert os.readlink(f"/proc/{governor.pid}/cwd") == "/"
        state = read_governor_state()
        assert state.pid == governor.pid and state.is_running() and state.max_raise_s is None
        governor.look()
    assert holder() is None
    assert governor.problem is None
    assert governor.state.ended_at and governor.state.sums.bursts == 0
    assert not os.path.exists(f"/proc/{governor.pid}")


def test_nothing_that_the_command_inherits_keeps_the_lock():
    with governed_beside(REQUEST):
        pid = os.posix_spawnp("sleep", ["sleep", "5"], os.environ)
    try:
        assert holder() is None
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_end_of_its_parent_ends_it():
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        with governed_beside(REQUEST) as (governor, _):
            os.write(writer, str(governor.pid).encode())
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    os.waitpid(parent, 0)
    pid = int(os.read(reader, 20))
    os.close(reader)
    assert wait_until(lambda: holder() is None)
    assert wait_until(lambda: not read_governor_state().is_running())
    assert read_governor_state().pid == pid and read_governor_state().ended_at


@pytest.mark.parametrize(
    ("number", "problem"), [(signal.SIGKILL, "was killed"), (signal.SIGTERM, "ended by a signal")]
)
def test_its_own_end_is_noticed(number, problem):
    with governed_beside(REQUEST) as (governor, _):
        os.kill(governor.pid, number)
        assert wait_until(lambda: governor.look() or governor.problem is not None)
        assert holder() is None
        assert not governor.stay_behind(None, None)
    assert problem in governor.problem


def test_it_is_noticed_also_at_the_end():
    with governed_beside(REQUEST) as (governor, _):
        os.kill(governor.pid, signal.SIGKILL)
    assert "was killed" in governor.problem


def test_one_that_hangs_is_killed(monkeypatch):
    monkeypatch.setattr(beside, "END_S", 0.2)
    with governed_beside(REQUEST) as (governor, _):
        os.kill(governor.pid, signal.SIGSTOP)
    assert "was killed" in governor.problem and holder() is None


def test_it_stays_behind_until_the_data_is_on_the_devices(monkeypatch):
    def slow():
        return os.posix_spawnp("sleep", ["sleep", "0.5"], os.environ)

    monkeypatch.setattr(child, "start_sync", slow)
    with governed_beside(REQUEST) as (governor, _):
        assert governor.stay_behind(None, None)
    assert governor.state.pid == governor.pid and governor.problem is None
    assert holder() is not None
    assert wait_until(lambda: holder() is None)
    assert os.waitpid(governor.pid, 0)[1] == 0


def test_another_governor_is_followed_until_its_end():
    with contextlib.ExitStack() as stack:
        stack.enter_context(governing("govern of /data"))
        assert other_governor() == f"govern of /data, process {os.getpid()}"
        with governed_beside(REQUEST) as (governor, start):
            assert start.followed == f"govern of /data, process {os.getpid()}"
            stack.close()
            assert wait_until(lambda: read_governor_state() is not None)
            assert read_governor_state().pid == governor.pid
    assert governor.state.purpose == "run --auto of `job`" and governor.problem is None


def test_a_governor_that_ends_at_this_moment_refuses_nothing(monkeypatch):
    asked = []

    def late(purpose):
        asked.append(purpose)
        if len(asked) == 1:
            raise LockedError("another writewise is running on this host: govern of /data")
        return governing(purpose)

    monkeypatch.setattr(child, "governing", late)
    with governed_beside(REQUEST) as (governor, start):
        assert start.followed is None
        assert holder() == f"run --auto of `job`, process {governor.pid}"


def test_one_that_followed_to_the_end_has_nothing_to_report():
    with governing("run --auto of `other`"), governed_beside(REQUEST) as (governor, start):
        assert start.followed.startswith("run --auto of `other`")
    assert (governor.state, governor.problem) == (None, None)


def test_it_is_refused_by_those_who_do_not_govern():
    with (
        Host.exclusive(WRITER, "sweep of /data"),
        pytest.raises(WritewiseError, match="sweep of /data, process"),
        governed_beside(REQUEST),
    ):
        pytest.fail("it began")


def test_an_error_of_the_process_is_raised_here(monkeypatch):
    def refused(*_, **__):
        raise HostError("no such volume", "name another")

    monkeypatch.setattr(child, "opened_volumes", refused)
    with pytest.raises(WritewiseError, match="no such volume") as error, governed_beside(REQUEST):
        pytest.fail("it began")
    assert error.value.hint == "name another"


def test_one_that_dies_at_once_is_an_error(monkeypatch):
    monkeypatch.setattr(beside, "govern_beside", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(HostError, match="was killed"), governed_beside(REQUEST):
        pytest.fail("it began")
