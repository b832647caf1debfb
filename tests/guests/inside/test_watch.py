# SPDX-License-Identifier: Apache-2.0
"""`writewise watch` as a service of systemd: its unit lets it do all that it does without one."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.bpf.btf import VMLINUX, parsed_btf
from profiler.bpf.functions import reason_for_tracepoints
from profiler.metrics.definitions import most_series
from sysctl.apply.watch_unit import UNIT
from tests.guests.inside.governed import SLOW, burst, own_thresholds
from tests.guests.inside.services import said, shown, started
from tests.guests.inside.volumes import MIB, formatted, run
from tests.root.hosts import SLOWNESS
from tests.root.labs import wait_until
from tests.root.prometheus import Scraped, get, scrape, value, wait_for

PORT = 9791
ESCALATED = "writers are throttled: calls are counted for a while"
#: The watchdog of the unit. `wait_until` waits many times longer than it is told on emulated CPUs.
WATCHDOG_S = 180
#: To attach the probes takes half a minute on emulated CPUs; the burst must outlast it.
ESCALATE, SIZE_MIB = "2m", 1200


@pytest.fixture(scope="module")
def volume() -> Iterator[Path]:
    with formatted(SLOW, Path("/srv/watched")) as target, own_thresholds():
        yield target


@pytest.fixture(scope="module")
def target(volume: Path) -> Iterator[Path]:
    """A volume that the service watches; it runs for all tests of this module."""
    with started(UNIT, "watch", volume, "--escalate", ESCALATE):
        yield volume


def pid_now() -> int:
    return int(shown(UNIT, "MainPID"))


def test_it_is_ready_when_it_serves(target: Path) -> None:
    assert (shown(UNIT, "ActiveState"), shown(UNIT, "SubState")) == ("active", "running"), said(
        UNIT
    )
    assert (shown(UNIT, "StatusText"), shown(UNIT, "UnitFileState")) == ("level stalls", "enabled")
    found = scrape(PORT)
    assert value(found, "up") == 1
    assert value(found, "call_probes_attached") == 0
    assert value(found, "dirty_threshold_bytes", threshold="dirty") > 0
    assert len(found) <= most_series(slots=1, disks=1, rules=3, governed=True)
    listening = run("ss", "--listening", "--tcp", "--numeric", "--no-header", f"sport = :{PORT}")
    assert [line.split()[3] for line in listening.splitlines()] == [f"127.0.0.1:{PORT}"]


def test_it_is_hardened(target: Path) -> None:
    judged = run("systemd-analyze", "security", "--no-pager", UNIT)
    print(judged.splitlines()[-1])
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", judged)
    assert exposure, judged
    assert float(exposure[1]) <= 4
    status = Path(f"/proc/{pid_now()}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    own, host = (os.readlink(f"/proc/{pid}/ns/mnt") for pid in (pid_now(), "self"))
    assert own == host  # so it keeps no volume busy


def test_it_counts_the_disk_and_escalates(target: Path) -> None:
    """The probes of calls are compiled and attached within the sandbox, and detached again."""
    disk, before = Path(SLOW).name, scrape(PORT)
    with burst(target / "burst", SIZE_MIB) as writer:
        # while it compiles, on emulated CPUs, a scrape has no answer in time
        wait_for(lambda: value(scrape(PORT), "call_probes_attached") == 1, 5 * SLOWNESS)
        assert shown(UNIT, "StatusText") == "level calls: writers are throttled"
        by_functions = reason_for_tracepoints(parsed_btf(VMLINUX)) is None
        assert ("__x64_sys_pwrite64" in enabled_functions()) == by_functions
        print("by functions:", by_functions, writer.communicate()[0])
        run("sync", "-f", target)
    found = scrape(PORT)
    throttled = value(found, "throttle_seconds_total") - value(before, "throttle_seconds_total")
    written = [value(each, "disk_written_bytes_total", device=disk) for each in (before, found)]
    print(f"{throttled:.1f} s throttled")
    assert throttled > 1
    assert written[1] - written[0] >= SIZE_MIB * MIB
    assert total(found, "call_bytes_total", call="write") > 0
    assert total(found, "call_time_seconds_total", call="write") > 0
    assert ESCALATED in said(UNIT)
    assert wait_until(lambda: value(scrape(PORT), "call_probes_attached") == 0, 10), said(UNIT)
    assert wait_until(lambda: "__x64_sys_pwrite64" not in enabled_functions(), 2)
    assert shown(UNIT, "StatusText") == "level stalls"


def test_it_hangs_and_the_watchdog_starts_another(target: Path) -> None:
    pid, begun_s = pid_now(), time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    assert wait_until(lambda: shown(UNIT, "Result") == "watchdog", WATCHDOG_S), said(UNIT)
    assert time.monotonic() - begun_s > WATCHDOG_S / 2
    assert wait_until(lambda: pid_now() not in (0, pid), 5), said(UNIT)
    assert wait_until(lambda: shown(UNIT, "ActiveState") == "active", 10), said(UNIT)
    print(f"{time.monotonic() - begun_s:.0f} s after it hung another one is ready")
    assert shown(UNIT, "NRestarts") == "1"
    assert value(scrape(PORT), "up") == 1


def test_a_stop_ends_it_clean(target: Path) -> None:
    run("systemctl", "stop", UNIT)
    assert (shown(UNIT, "ActiveState"), shown(UNIT, "Result")) == ("inactive", "success")
    with pytest.raises(OSError, match="refused"):
        get(f"http://127.0.0.1:{PORT}/metrics")
    assert wait_until(lambda: "__x64_sys" not in enabled_functions(), 2)


def total(found: Scraped, name: str, **labels: str) -> float:
    """Return the sum of the series that have these labels, and others."""
    wanted = labels.items()
    return sum(
        number
        for (series, has), number in found.items()
        if series == f"writewise_{name}" and wanted <= has
    )


def enabled_functions() -> str:
    """Return the functions that programs are attached to."""
    return Path("/sys/kernel/tracing/enabled_functions").read_text()
