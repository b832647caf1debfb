# SPDX-License-Identifier: Apache-2.0
"""The loop on a simulated kernel and a host of files: raises, lowers, yields, ends."""

from __future__ import annotations

import gc
import inspect
import itertools
import json
import os
import signal
import socket
import time
from dataclasses import replace

import pytest

from profiler.govern.accounts import MAX_BURSTS, Accounts, Governed
from profiler.govern.loop import Loop
from profiler.govern.notify import Notifier
from profiler.govern.reader import HostReader
from profiler.govern.volumes import VolumeReader
from profiler.recording.stopping import Stop, stopped_by_signals
from profiler.report import govern as words
from sysctl.govern.bounds import RaiseLimits
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.groups import GroupMemory, LimitedMemory
from sysctl.govern.policy import Unhelped
from sysctl.govern.samples import NS_PER_S
from sysctl.host.governor_state import BurstSums
from sysctl.host.raising_host import governing
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost
from tests.unit.dirty_pages import GIB, MIB, POLL_STEPS, STEP_S, Burst, Host, Volume

LIMITS = RaiseLimits(2 * GIB)
BURST = Burst(1.0, 1920 * MIB, 400 * MIB)


class Simulated(FilesHost):
    """A host of files whose thresholds a simulated kernel obeys."""

    def __init__(self, root, bursts):
        super().__init__(root)
        self.set_memory(4 * GIB)
        self.kernel = Host(4 * GIB, [Volume(62.5 * MIB)], list(bursts))
        self.raised_samples = 0

    def sample(self):
        found = self.values()
        self.kernel.values = {
            f"vm.dirty_{name}": found[f"dirty_{name}"]
            for name in ("ratio", "bytes", "background_ratio", "background_bytes")
            if found[f"dirty_{name}"]
        }
        self.raised_samples += self.kernel.values != self.kernel.rest
        self.kernel.run(POLL_STEPS * STEP_S)
        return self.kernel.sample()


class Heard:
    """Everything that the loop reports; it ends the loop after a number of samples."""

    def __init__(self, stop=None, after=1000, then=None):
        self.bursts, self.changes, self.states = [], [], []
        self.unhelped_bursts = []
        self._stop, self._after, self._then = stop, after, then
        self.samples = 0

    def burst(self, account):
        self.bursts.append(account)

    def changed(self, changed):
        self.changes.append(changed)

    def unhelped(self, burst):
        self.unhelped_bursts.append(burst)

    def raised(self, is_raised):
        self.states.append(is_raised)

    def alive(self):
        self.samples += 1
        if self._then:
            self._then(self.samples)
        if self._stop and self.samples >= self._after:
            self._stop.set()


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    return Simulated(tmp_path / "root", [BURST])


def loop_of(system, heard, host=None, **more):
    return Loop(system.sample, LIMITS, heard, host, **{"sleep": lambda _: None, **more})


class Events:
    """Events of a simulated kernel: while the caller waits, time goes on until pages are dirty."""

    def __init__(self, kernel, least_bytes=4 * MIB):
        self.kernel, self.least_bytes = kernel, least_bytes
        self.waits, self.is_counting = [], False

    def wait(self, seconds):
        self.is_counting = True
        begun_s = self.kernel.time_s
        while self.kernel.time_s - begun_s < seconds:
            self.kernel.run(STEP_S)
            if self.kernel.moments[-1].held_bytes > self.least_bytes:
                self.waits.append(True)
                self.stop()
                return True
        self.waits.append(False)
        return False

    def stop(self):
        self.is_counting = False


def test_a_burst_is_raised_and_the_host_is_as_before(system) -> None:
    before, stop = system.values(), Stop()
    heard = Heard(stop, 700)
    with governing("govern", system) as host:
        assert loop_of(system, heard, host).run(stop) is None
        assert system.values() == before
    assert heard.states == [True, False]
    (account,) = heard.bursts
    assert system.kernel.returned_s[BURST] < 6
    assert account.saved_s > 10
    assert system.invalid == []


def test_a_calm_host_is_looked_at_when_pages_become_dirty(system) -> None:
    """The burst begins after a minute, in which only two looks a second are taken."""
    late = replace(BURST, begins_s=60.0)
    system.kernel.bursts = [late]
    events, stop, began = Events(system.kernel), Stop(), list[int]()

    def count(samples):
        assert not (events.is_counting and system.kernel.moments[-1].is_raised)
        if system.kernel.time_s >= 60 and not began:
            began.append(samples)
        if late in system.kernel.returned_s and system.kernel.time_s > 110:
            stop.set()

    heard = Heard(then=count)
    with governing("govern", system) as host:
        loop_of(system, heard, host, events=events).run(stop)
    assert began[0] <= 60 * 2 + 2
    assert heard.states == [True, False]
    assert system.kernel.returned_s[late] < 6
    assert True in events.waits


def test_events_of_a_calm_host_do_not_wake_it_more_often_than_polling(system) -> None:
    """A little is dirty all the time: each event is followed by a wait of 50 ms."""
    system.kernel.bursts, stop, slept = [Burst(0, 1 << 40, MIB)], Stop(), list[float]()
    events = Events(system.kernel, least_bytes=0)
    clock = {"clock_ns": lambda: 0, "sleep": slept.append}
    loop_of(system, Heard(stop, 100), events=events, **clock).run(stop)
    assert len(events.waits) <= len(slept)
    assert set(slept) == {0.05}


def test_with_too_little_memory_for_the_events_it_polls(system) -> None:
    stop = Stop()
    events = Events(system.kernel, least_bytes=system.kernel.at.background_bytes)
    loop_of(system, Heard(stop, 50), events=events).run(stop)
    assert events.waits == []


def test_a_dry_run_writes_nothing_and_takes_no_lock(system, tmp_path) -> None:
    before, stop = system.values(), Stop()
    written = []
    system.write = lambda *arguments: written.append(arguments)
    heard = Heard(stop, 700)
    loop_of(system, heard).run(stop)
    assert written == []
    assert system.values() == before
    assert system.raised_samples == 0
    assert len(heard.bursts) == 1
    assert heard.bursts[0].saved_s > 10
    assert not (tmp_path / "state").exists()


def test_the_end_in_the_middle_of_a_burst_lowers_and_accounts(system) -> None:
    before, stop = system.values(), Stop()
    heard = Heard(stop, 60)
    with governing("govern", system) as host:
        loop_of(system, heard, host).run(stop)
        assert system.values() == before
    assert heard.states == [True, False]
    assert [account.ended_by for account in heard.bursts] == ["the governor ended"]


@pytest.mark.parametrize("at", [5, 60])
def test_it_stands_down_for_a_program_that_writes_every_100_ms(system, at) -> None:
    def other(sample):
        if sample >= at and sample % 2 == 0:
            system.write("/proc/sys/vm/dirty_ratio", "33")

    heard = Heard(Stop(), 1000, other)
    with governing("govern", system) as host:
        changed = loop_of(system, heard, host).run(Stop())
    assert changed
    assert heard.changes == [changed]
    assert changed.after["vm.dirty_ratio"] == 33
    values = system.values()
    assert (values["dirty_ratio"], values["dirty_background_ratio"]) == (33, 10)
    assert heard.samples < at + 4
    lines = words.changed_lines(changed, "12:00:00", is_dry=False)
    assert "standing down" in lines[0]
    assert "vm.dirty_ratio = 33" in lines[0]


def test_a_dry_run_goes_on_with_the_changed_values(system) -> None:
    def other(sample):
        if sample == 5:
            system.write("/proc/sys/vm/dirty_ratio", "15")

    stop = Stop()
    heard = Heard(stop, 700, other)
    assert loop_of(system, heard).run(stop) is None
    assert len(heard.changes) == 1
    assert len(heard.bursts) == 1


def test_a_raise_that_the_kernel_refuses_restores_the_host(system) -> None:
    before = system.values()
    write = system.write

    def refuse(absolute, text):
        if absolute.endswith("dirty_background_bytes"):
            raise HostError("refused")
        write(absolute, text)

    with pytest.raises(HostError, match="refused"), governing("govern", system) as host:
        system.write = refuse
        loop_of(system, Heard(), host).run(Stop())
    assert system.values() == before


def test_a_full_run_directory_raises_nothing(system, monkeypatch) -> None:
    before = system.values()
    real = os.fsync

    def full(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("govern.journal"):
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(Exception, match="No space left"),
        governing("govern", system) as host,
    ):
        loop_of(system, Heard(), host).run(Stop())
    assert system.values() == before


def test_many_bursts_leak_nothing(tmp_path, monkeypatch):
    """20 minutes of time in which 30 bursts come; the descriptors and the memory stay."""
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    bursts = [Burst(begin * 40.0, 900 * MIB, 400 * MIB) for begin in range(30)]
    system = Simulated(tmp_path / "root", bursts)
    before, stop = system.values(), Stop()
    descriptors = len(os.listdir("/proc/self/fd"))
    sizes = []

    def look(sample):
        if sample in (2_400, 23_900):
            gc.collect()
            sizes.append(len(gc.get_objects()))

    heard = Heard(stop, 24_000, look)
    accounts = Accounts(Governed("govern", ["/data"], LIMITS, {}), is_kept=True, system=system)
    heard.burst = accounts.burst
    real = system.kernel.run

    def quick(seconds):
        real(seconds)
        system.kernel.moments.clear()

    monkeypatch.setattr(system.kernel, "run", quick)
    with governing("govern", system) as host:
        loop_of(system, heard, host).run(stop)
    assert accounts.state.sums.bursts == len(accounts.recent) == 30
    assert system.values() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert sizes[1] < sizes[0] + 5_000


def test_a_clock_that_jumps_changes_no_decision(system, monkeypatch) -> None:
    """The loop and the readers use CLOCK_MONOTONIC, which nobody can set."""
    jumps = itertools.cycle((-(10**9), 86_400 * 400, 0))
    monkeypatch.setattr("time.time", lambda: float(next(jumps)))
    monkeypatch.setattr("time.time_ns", lambda: next(jumps) * NS_PER_S)
    assert inspect.signature(Loop).parameters["clock_ns"].default is time.monotonic_ns
    assert inspect.signature(HostReader).parameters["clock_ns"].default is time.monotonic_ns
    assert inspect.signature(VolumeReader).parameters["clock_ns"].default is time.monotonic_ns
    before, stop = system.values(), Stop()
    heard = Heard(stop, 700)
    with governing("govern", system) as host:
        loop_of(system, heard, host).run(stop)
    assert heard.states == [True, False]
    assert system.kernel.returned_s[BURST] < 6
    assert system.values() == before


def test_signals_end_the_loop_in_order() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopped_by_signals() as stop:
        assert not stop.is_set
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set
    assert signal.getsignal(signal.SIGTERM) is before


# --- systemd, and the words -----------------------------------------------------------------


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_told(tmp_path, is_abstract) -> None:
    address = f"@writewise-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if is_abstract else address)
        now_s = [0.0]
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3000000"}
        notifier = Notifier(environment, lambda: now_s[0])
        notifier.ready("at rest")
        assert manager.recv(100) == b"READY=1\nSTATUS=at rest"
        for _ in range(10):
            notifier.alive()
        assert manager.recv(100) == b"WATCHDOG=1"
        now_s[0] = 0.8
        notifier.alive()
        assert manager.recv(100) == b"WATCHDOG=1"
        notifier.alive(before_long_work=True)
        assert manager.recv(100) == b"WATCHDOG=1"
        notifier.status("raised")
        notifier.stopping()
        assert [manager.recv(100), manager.recv(100)] == [b"STATUS=raised", b"STOPPING=1"]


def test_without_systemd_nothing_is_sent() -> None:
    for environment in ({}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "vsock:1:2"}):
        notifier = Notifier({**environment, "WATCHDOG_PID": "1", "WATCHDOG_USEC": "1"})
        notifier.ready("at rest")
        notifier.alive()


ACCOUNT = BurstAccount(
    began_ns=2 * NS_PER_S,
    returned_ns=8 * NS_PER_S,
    raised_at_ns=3 * NS_PER_S,
    arrived_bytes=1920 * MIB,
    volumes=(1,),
    raised_ns=25 * NS_PER_S,
    peak_held_bytes=1600 * MIB,
    saved_s=14.2,
    ended_by="drained",
)


def test_a_burst_is_one_line_of_plain_words() -> None:
    line = words.burst_line(ACCOUNT, ["/", "/data"], lambda _: "14:03:27", is_dry=False)
    assert line == (
        "14:03:27 burst of 1.88 GiB onto /data in 6.00 s; raised for 25.0 s; at most 1.56 GiB at "
        "risk; saved about 14.2 s (predicted)"
    )
    dry = words.burst_line(ACCOUNT, ["/", "/data"], lambda _: "14:03:27", is_dry=True)
    assert "would have been raised for 25.0 s" in dry
    assert "would have saved about 14.2 s" in dry


def test_the_summary_and_the_document_have_all_bursts(system):
    clock_ns = [NS_PER_S]
    governed = Governed("govern", ["/", "/data"], LIMITS, {})
    accounts = Accounts(governed, is_kept=False, system=system, clock_ns=lambda: clock_ns[0])
    for _ in range(MAX_BURSTS + 5):
        accounts.burst(ACCOUNT)
    clock_ns[0] = 86_401 * NS_PER_S
    accounts.ended()
    line = words.summary_line(accounts.state.sums, is_dry=False)
    assert line.startswith("1,005 bursts in 24 h: 1.84 TiB arrived")
    document = words.govern_document(accounts, ["comm=s5cmd"], None, is_dry=False)
    assert document["admitted"] == ["comm=s5cmd"]
    assert document["bursts"] == MAX_BURSTS + 5
    assert len(document["last_bursts"]) == MAX_BURSTS
    assert document["last_bursts"][0]["volumes"] == ["/data"]
    assert document["last_bursts"][0]["began_s"] == 1
    json.dumps(document)
    assert "no burst" in words.summary_line(BurstSums(governed_s=1.0), is_dry=False)


def test_the_lines_name_who_writes_and_for_whom_it_governs():
    named = replace(ACCOUNT, writer="s5\x1bcmd")
    line = words.burst_line(named, ["/", "/data"], lambda _: "14:03:27", is_dry=False)
    assert line.startswith(r"14:03:27 burst of 1.88 GiB by s5\x1bcmd onto /data in 6.00 s; ")
    own = {"vm.dirty_ratio": 20}
    begin = words.begin_line(["/data"], own, None, ["cgroup=/a", "comm=b"], is_dry=False)
    assert begin.startswith("governing /data for cgroup=/a, comm=b only; at rest vm.dirty_ratio")
    unhelped = words.unhelped_line(Unhelped("/a", 5), lambda _: "14:03:27")
    assert unhelped.startswith("14:03:27 burst by /a: nothing is raised, because the memory limit")


def test_the_notes_are_of_what_limits_it():
    assert words.notes(["/data"], counts_every_group=True) == []
    assert "every program" in words.notes(["/"], counts_every_group=True)[0]
    assert words.notes(["/"], ["comm=a"], counts_every_group=True) == []
    (note,) = words.notes(["/data"], ["comm=a"], counts_every_group=False)
    assert "onto any volume count" in note
    (note,) = words.notes(["/data"], ["cgroup=/a"], ["/a"], counts_every_group=True)
    assert note == "the control group /a does not exist; it is governed once it is made"
    (note,) = words.notes(["/data"], low_bound=(13 * GIB, 2 * GIB), counts_every_group=True)
    assert note == (
        "nothing can be raised: the host's own dirty threshold is 13.0 GiB, and at most 2.00 GiB "
        "may be at risk; pass a higher --max-at-risk"
    )


def test_a_burst_that_no_raise_helps_is_reported(system):
    """A group whose memory is full, and that wrote all of the burst."""
    full = LimitedMemory(100 * MIB, 100 * MIB, 90 * MIB, 90 * MIB)
    system.kernel.groups = (GroupMemory("/a", 1, (full,), 90 * MIB),)
    system.kernel.bursts = [replace(BURST, writer="/a")]
    stop = Stop()
    heard = Heard(stop, 200)
    loop_of(system, heard).run(stop)
    assert [each.path for each in heard.unhelped_bursts] == ["/a"]
    assert heard.bursts == []
