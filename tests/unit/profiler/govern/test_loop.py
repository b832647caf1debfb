# SPDX-License-Identifier: Apache-2.0
"""The loop on a simulated kernel and a host of files: raises, lowers, yields, ends."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket

import pytest

from profiler.govern.loop import Loop, Stop, stopped_by_signals
from profiler.govern.notify import Notifier
from profiler.govern.totals import MAX_BURSTS, Totals
from profiler.report import govern as words
from sysctl.govern.bounds import RaiseLimits
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.samples import NS_PER_S
from sysctl.host.raising_host import governing
from sysctl.host.system import HostError
from tests.unit.applied_hosts import FilesHost
from tests.unit.dirty_pages import GIB, MIB, POLL_STEPS, STEP_S, Burst, Host, Volume

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
        self._stop, self._after, self._then = stop, after, then
        self.samples = 0

    def burst(self, account):
        self.bursts.append(account)

    def changed(self, changed):
        self.changes.append(changed)

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


def loop_of(system, heard, host=None):
    return Loop(system.sample, RaiseLimits(2 * GIB), heard, host, sleep=lambda _: None)


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
    totals = Totals(0)
    heard.burst = totals.add
    real = system.kernel.run

    def quick(seconds):
        real(seconds)
        system.kernel.moments.clear()

    monkeypatch.setattr(system.kernel, "run", quick)
    with governing("govern", system) as host:
        loop_of(system, heard, host).run(stop)
    assert totals.bursts == 30
    assert system.values() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert sizes[1] < sizes[0] + 5_000


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


def test_the_summary_and_the_document_have_all_bursts():
    totals = Totals(NS_PER_S)
    for _ in range(MAX_BURSTS + 5):
        totals.add(ACCOUNT)
    totals.ended_ns = 86_401 * NS_PER_S
    line = words.summary_line(totals, is_dry=False)
    assert line.startswith("1,005 bursts in 24 h: 1.84 TiB arrived")
    document = words.govern_document(totals, ["/", "/data"], {}, None, is_dry=False)
    assert document["bursts"] == MAX_BURSTS + 5
    assert len(document["last_bursts"]) == MAX_BURSTS
    assert document["last_bursts"][0]["volumes"] == ["/data"]
    json.dumps(document)
    assert "no burst" in words.summary_line(Totals(0, NS_PER_S), is_dry=False)
