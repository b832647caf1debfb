# SPDX-License-Identifier: Apache-2.0
"""What a governor adds up by day, and the file that shows it: restarts, jumps of the clock."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest

from profiler.cli.govern import Output
from profiler.govern.accounts import Accounts, Governed
from profiler.govern.notify import Notifier
from profiler.report.console import plain_console
from profiler.report.govern import day_line
from profiler.report.governor_state import print_days, print_governor
from sysctl.govern.bounds import RaiseLimits
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.samples import NS_PER_S
from sysctl.host.governor_state import MAX_DAYS, BurstSums, read_governor_state
from sysctl.host.raising_host import governing
from tests.unit.applied_hosts import FilesHost

GIB = 2**30
GOVERNED = Governed("govern of /data", ["/data"], RaiseLimits(2 * GIB), {"vm.dirty_ratio": 20})
BURST = BurstAccount(
    began_ns=0,
    returned_ns=5 * NS_PER_S,
    raised_at_ns=NS_PER_S,
    arrived_bytes=GIB,
    volumes=(0,),
    raised_ns=9 * NS_PER_S,
    peak_held_bytes=GIB // 2,
    saved_s=3.5,
    ended_by="drained",
)


class Clocks:
    """The local time, which may jump, and the clock that never does."""

    def __init__(self):
        self.local = datetime(2026, 11, 23, 12, tzinfo=timezone(timedelta(hours=1)))
        self.ns = 100 * NS_PER_S

    def advance(self, **interval):
        self.local += timedelta(**interval)
        self.ns += round(timedelta(**interval).total_seconds()) * NS_PER_S

    def jump(self, **interval):
        self.local += timedelta(**interval)


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setenv("WRITEWISE_STATE_DIRECTORY", str(tmp_path / "state"))
    host = FilesHost(tmp_path / "root")
    pid = os.getpid()
    fields = " ".join(["S", "1", *["0"] * 16, "777", *["0"] * 10])
    host.put(f"/proc/{pid}/stat", f"{pid} (govern) {fields}")
    host.put(f"/proc/{pid}/status", "SigPnd:\t0\nShdPnd:\t0")
    with governing("govern", host):  # makes the directory
        pass
    return host


def accounts_of(system, clocks, **options):
    return Accounts(
        GOVERNED,
        **{"is_kept": True, **options},
        system=system,
        now=lambda: clocks.local,
        clock_ns=lambda: clocks.ns,
    )


def test_the_file_has_who_governs_and_what_is_in_force(system, clocks):
    accounts = accounts_of(system, clocks)
    state = read_governor_state()
    assert state == accounts.state and state.is_running(system)
    assert (state.pid, state.volumes, state.max_at_risk_bytes) == (os.getpid(), ("/data",), 2 * GIB)
    assert (state.since, state.is_raised) == ("2026-11-23T12:00:00+01:00", False)
    clocks.advance(seconds=30)
    accounts.raised(True)
    state = read_governor_state()
    assert (state.is_raised, state.changed_at) == (True, "2026-11-23T12:00:30+01:00")
    clocks.advance(seconds=9)
    accounts.raised(False)
    began_ns = clocks.ns - 9 * NS_PER_S
    accounts.burst(replace(BURST, began_ns=began_ns, returned_ns=began_ns + 5 * NS_PER_S))
    state = read_governor_state()
    assert not state.is_raised
    assert state.last_burst.began_at == "2026-11-23T12:00:30+01:00"
    assert state.last_burst.volumes == ("/data",)
    assert state.sums == BurstSums(39.0, 1, GIB, 5.0, 9.0, 3.5, 0, GIB // 2)
    assert state.day("2026-11-23").sums == state.sums


def test_everybody_may_read_it_and_nobody_sees_half_of_it(system, clocks, tmp_path):
    before = os.umask(0o077)
    try:
        accounts_of(system, clocks)
    finally:
        os.umask(before)
    folder = tmp_path / "state/run"
    assert stat.S_IMODE((folder / "govern.json").stat().st_mode) == 0o644
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [path.name for path in folder.iterdir()] == ["govern.json"]
    document = json.loads((folder / "govern.json").read_text())
    assert (document["schema"], document["version"]) == ("writewise-govern-state", 1)


def test_a_quiet_host_writes_it_once_a_minute(system, clocks):
    accounts = accounts_of(system, clocks)
    written = []
    for _ in range(3 * 60 * 20):
        clocks.ns += NS_PER_S // 20
        if accounts.beat():
            written.append(clocks.ns)
    assert len(written) == 3
    assert read_governor_state().sums.governed_s == 180


def test_a_dry_run_writes_nothing(system, clocks, tmp_path):
    accounts = accounts_of(system, clocks, is_kept=False)
    accounts.burst(BURST)
    accounts.ended()
    assert accounts.state.sums.bursts == 1
    assert read_governor_state() is None
    assert list((tmp_path / "state/run").iterdir()) == []


def test_a_directory_that_cannot_be_written_stops_nothing(system, clocks, tmp_path):
    accounts = accounts_of(system, clocks)
    (tmp_path / "state/run/govern.json").unlink()
    (tmp_path / "state/run").rmdir()
    accounts.burst(BURST)
    assert accounts.state.sums.bursts == 1


def test_a_restart_keeps_the_day(system, clocks):
    accounts = accounts_of(system, clocks)
    accounts.burst(BURST)
    accounts.ended()
    assert not read_governor_state().is_running(system)
    clocks.advance(hours=1)
    again = accounts_of(system, clocks)
    again.burst(replace(BURST, saved_s=None))
    assert again.state.sums.bursts == 1
    today = again.state.day("2026-11-23").sums
    assert (today.bursts, today.saved_s, today.unknown_savings) == (2, 3.5, 1)
    assert read_governor_state().is_running(system)


def test_each_day_has_one_summary_also_after_a_restart(system, clocks):
    accounts = accounts_of(system, clocks)
    accounts.burst(BURST)
    assert accounts.finished_days() == []
    clocks.advance(hours=13)
    (day,) = accounts.finished_days()
    assert (day.date, day.sums.bursts) == ("2026-11-23", 1)
    assert day_line(day).startswith("2026-11-23 1 burst in ")
    assert accounts.finished_days() == []
    assert accounts_of(system, clocks).finished_days() == []
    clocks.advance(days=1)
    days = accounts_of(system, clocks).finished_days()  # it was stopped over midnight
    assert [each.date for each in days] == ["2026-11-24"]
    assert "no burst" in day_line(days[0])


def test_a_day_that_json_leaves_out_is_printed_by_the_next_governor(system, clocks, capsys):
    accounts = accounts_of(system, clocks)
    accounts.burst(BURST)
    clocks.advance(days=1)
    Output(accounts, Notifier({}), is_dry=False, as_json=True).begin("governing /data")
    assert capsys.readouterr().out == ""
    Output(accounts, Notifier({}), is_dry=False, as_json=False).begin("governing /data")
    assert "\n2026-11-23 1 burst in " in capsys.readouterr().out


def test_a_clock_that_jumps_neither_repeats_nor_loses_a_day(system, clocks):
    accounts = accounts_of(system, clocks)
    accounts.burst(BURST)
    clocks.jump(days=1)
    accounts.burst(BURST)
    assert [day.date for day in accounts.finished_days()] == ["2026-11-23"]
    clocks.jump(days=-1)  # the 24th is not over any more
    accounts.burst(BURST)
    assert accounts.finished_days() == []
    clocks.advance(days=1)
    assert accounts.finished_days() == []  # the 23rd was printed
    clocks.jump(days=30)
    days = accounts.finished_days()
    assert [(day.date, day.sums.bursts) for day in days] == [("2026-11-24", 1)]
    assert sum(day.sums.bursts for day in accounts.state.days) == 3


def test_the_days_are_bounded(system, clocks):
    accounts = accounts_of(system, clocks)
    for _ in range(2 * MAX_DAYS):
        accounts.burst(BURST)
        clocks.advance(days=1)
    state = read_governor_state()
    assert len(state.days) == MAX_DAYS
    assert state.sums.bursts == 2 * MAX_DAYS


def test_a_file_of_a_killed_governor_is_recognised(system, clocks, tmp_path):
    accounts_of(system, clocks)
    state = read_governor_state()
    assert state.is_running(system)
    assert not replace(state, start_ticks=778).is_running(system)  # the pid was used again
    assert not state.is_running(FilesHost(tmp_path / "after", boot_id="boot-2"))
    system.path(f"/proc/{os.getpid()}/stat").unlink()
    assert not state.is_running(system)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"schema": "writewise-govern-state", "version": 2}', "[" * 100_000, "\xff"],
)
def test_what_it_cannot_read_is_as_if_there_were_no_file(system, clocks, tmp_path, text):
    (tmp_path / "state/run/govern.json").write_text(text, encoding="latin-1")
    assert read_governor_state() is None
    assert accounts_of(system, clocks).state.day("2026-11-23").sums.bursts == 0


def test_a_symlink_is_not_followed(system, tmp_path):
    (tmp_path / "other").write_text("{}")
    (tmp_path / "state/run/govern.json").symlink_to(tmp_path / "other")
    assert read_governor_state() is None


def test_status_says_whether_it_runs_and_what_the_days_were(system, clocks, capsys):
    accounts = accounts_of(system, clocks)
    console = plain_console()
    clocks.advance(hours=24)
    accounts.burst(BURST)
    print_governor(accounts.state, console, is_running=True)
    print_days(accounts.state, console, all_days=False, today=date(2026, 11, 24))
    said = " ".join(capsys.readouterr().out.split())
    assert "governor: at rest; /data, at most 2.00 GiB at risk, process" in said
    assert "2026-11-24 1 burst in 24 h: 1.00 GiB arrived" in said
    print_days(accounts.state, console, all_days=True)
    assert "2026-11-23 no burst" in capsys.readouterr().out
    accounts.stood_down({"vm.dirty_ratio": 20}, {"vm.dirty_ratio": 33})
    accounts.ended()
    print_governor(accounts.state, console, is_running=False)
    said = " ".join(capsys.readouterr().out.split())
    assert "governor: govern of /data ended at 2026-11-24" in said
    assert "changed vm.dirty_ratio = 20 to vm.dirty_ratio = 33" in said
    print_governor(replace(accounts.state, ended_at=None), console, is_running=False)
    assert "was killed after" in capsys.readouterr().out
