# SPDX-License-Identifier: Apache-2.0
"""Time and memory that the hypervisor took, from simulated counters of the kernel."""

from __future__ import annotations

import pytest

from profiler.study.hypervisor import Hypervisor
from sysctl.host.system import System
from sysctl.knobs.writeback import PAGE_BYTES

#: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice (proc_stat(5)).
BEFORE = (1000, 50, 200, 3000, 100, 10, 20, 40, 500, 25)


class Counters(System):
    """A system whose files are given; `cpu` are the fields of the first line of /proc/stat."""

    def __init__(self, cpu=BEFORE, vmstat="nr_dirty 17"):
        super().__init__()
        self.cpu, self.vmstat = cpu, vmstat

    def read(self, absolute):
        if absolute == "/proc/vmstat":
            return self.vmstat
        assert absolute == "/proc/stat"
        words = " ".join(map(str, self.cpu))
        return f"cpu  {words}\ncpu0 9 9 9 9 9 9 9 9 9 9\nintr 123456 7 8\nctxt 99"


def passed(**ticks):
    """`BEFORE` with so many ticks more."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
    added = [ticks.get(name, 0) for name in (*names, "guest_nice")]
    return tuple(old + new for old, new in zip(BEFORE, added))


@pytest.mark.parametrize(
    ("ticks", "share"),
    [
        ({"user": 60, "steal": 40}, 0.4),
        ({"idle": 60, "steal": 40}, 0.4),
        ({"user": 60, "guest": 40, "guest_nice": 20, "steal": 40}, 0.4),
        ({}, 0.0),
        ({"idle": 100, "steal": -1}, 0.0),
        ({"idle": -50}, 0.0),
    ],
    ids=["busy", "idle", "a guest's time is the user's", "none passed", "steal back", "idle back"],
)
def test_the_stolen_share_is_of_all_time_that_passed(ticks, share):
    system = Counters()
    hypervisor = Hypervisor(system)
    system.cpu = passed(**ticks)
    assert hypervisor.since() == (pytest.approx(share), 0)


def test_a_kernel_that_does_not_count_stolen_time_has_none():
    system = Counters(cpu=BEFORE[:7])
    hypervisor = Hypervisor(system)
    system.cpu = passed(user=100)[:7]
    assert hypervisor.since() == (0.0, 0)


@pytest.mark.parametrize(
    ("vmstat", "pages"),
    [
        ("nr_dirty 18\nballoon_inflate 1100\nballoon_deflate 7\nballoon_migrate 999", 100),
        ("balloon_inflate 1000\nballoon_deflate 57", 50),
        ("balloon_inflate 1010\nballoon_deflate 17", 20),
        ("balloon_inflate 1000\nballoon_deflate 7\nswap_ra 5", 0),
    ],
    ids=["taken", "given back", "both", "neither"],
)
def test_the_balloon_moves_what_it_takes_and_what_it_gives_back(vmstat, pages):
    system = Counters(vmstat="nr_dirty 17\nballoon_inflate 1000\nballoon_deflate 7")
    hypervisor = Hypervisor(system)
    system.vmstat = vmstat
    assert hypervisor.since() == (0.0, pages * PAGE_BYTES)


def test_a_host_without_a_balloon_has_none():
    assert Hypervisor(Counters()).since() == (0.0, 0)


def test_the_real_files_have_the_counters():
    share, moved_bytes = Hypervisor(System()).since()
    assert 0.0 <= share <= 1.0
    assert moved_bytes >= 0
