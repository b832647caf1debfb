# SPDX-License-Identifier: Apache-2.0
"""CPU time is counted once whoever has it; memory is the largest sum; psutil reads real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from contracts.stats import ResourceUsage
from profiler.watch.resources import (
    CpuTime,
    ProcessSample,
    ResourceSampler,
    every_process,
    narrowed,
    own_children,
    read_host,
    read_process,
    read_swap_bytes,
    tree_below,
)

OWN = 1
S = 10**9


class Host:
    """Processes made up: pid → (parent, memory in bytes, CPU time in s)."""

    def __init__(self, **processes: tuple[int, int, float]) -> None:
        self.waited_for = CpuTime()
        self.usage = ResourceUsage()
        self.set(**processes)

    def set(self, **processes: tuple[int, int, float]) -> None:
        self.processes = {int(name[1:]): figures for name, figures in processes.items()}

    def read(self, pid: int) -> ProcessSample | None:
        parent_pid, memory_bytes, cpu_s = self.processes[pid]
        cpu = CpuTime(int(cpu_s * S), int(cpu_s * S) * 10)
        return ProcessSample(parent_pid, memory_bytes, memory_bytes // 10, memory_bytes * 100, cpu)

    def sampler(self) -> ResourceSampler:
        return ResourceSampler(
            lambda: list(self.processes),
            read=self.read,
            host=lambda: self.usage,
            waited_for=lambda: self.waited_for,
            own_pid=OWN,
        )


def user_s(usage: ResourceUsage) -> float:
    assert usage.system_ns == 10 * usage.user_ns
    return usage.user_ns / S


def test_memory_is_the_largest_sum_of_a_frame() -> None:
    host = Host(p2=(1, 100, 0), p3=(2, 200, 0))
    sampler = host.sampler()
    host.set(p2=(1, 1000, 0), p3=(2, 2000, 0))
    sampler.sample()
    host.set(p2=(1, 50, 0))
    first, second = sampler.take(), sampler.take()
    assert (first.rss_bytes, first.memory_bytes, first.vsize_bytes) == (3000, 3300, 300000)
    assert (second.rss_bytes, second.memory_bytes) == (50, 55)


def test_what_a_process_had_used_before_is_not_counted() -> None:
    host = Host(p2=(1, 0, 50))
    sampler = host.sampler()
    host.set(p2=(1, 0, 53))
    assert user_s(sampler.take()) == 3
    assert user_s(sampler.take()) == 0


def test_a_child_that_was_waited_for_is_counted_once() -> None:
    host = Host(p2=(1, 0, 1))
    sampler = host.sampler()
    host.set(p2=(1, 0, 1), p3=(2, 0, 4))
    assert user_s(sampler.take()) == 4
    host.set(p2=(1, 0, 5))  # 3 ended, and 2 has its time now
    assert user_s(sampler.take()) == 0


def test_a_command_that_was_waited_for_is_counted_once_with_all_it_started() -> None:
    host = Host(p2=(OWN, 0, 1), p3=(2, 0, 4), p4=(3, 0, 2))
    sampler = host.sampler()
    host.set()
    host.waited_for = CpuTime(8 * S, 80 * S)
    assert user_s(sampler.take()) == 1


def test_one_that_nobody_followed_has_waited_for_keeps_its_last_figure() -> None:
    host = Host(p2=(77, 0, 1), p3=(2, 0, 4))
    sampler = host.sampler()
    host.set(p2=(77, 0, 3), p3=(2, 0, 4))
    sampler.sample()
    host.set(p3=(1000, 0, 5))
    assert user_s(sampler.take()) == 3
    host.set()
    assert user_s(sampler.take()) == 0


def test_the_own_process_is_left_out() -> None:
    host = Host(p1=(0, 5, 9), p2=(1, 7, 0))
    sampler = host.sampler()
    host.set(p1=(0, 5, 10), p2=(1, 7, 0))
    usage = sampler.take()
    assert (usage.rss_bytes, usage.user_ns) == (7, 0)


def test_the_host_s_times_are_those_of_the_frame() -> None:
    host = Host()
    host.usage = ResourceUsage(host_user_ns=100, host_system_ns=200, host_iowait_ns=300)
    sampler = host.sampler()
    host.usage = ResourceUsage(host_user_ns=101, host_system_ns=202, host_iowait_ns=299)
    usage = sampler.take()
    assert (usage.host_user_ns, usage.host_system_ns) == (1, 2)
    assert usage.host_iowait_ns == 0  # the kernel's figure may fall (proc(5))


def test_swapped_memory_is_read_from_one_line(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_bytes(b"Name:\tx\xff\nVmSwap:\t      12 kB\n")
    assert read_swap_bytes(7, tmp_path) == 12 * 1024
    assert read_swap_bytes(8, tmp_path) == 0


def test_a_real_process_and_its_tree() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        look = tree_below(process.pid)
        while len(found := set(look())) < 2:
            assert process.poll() is None
        (child,) = found - {process.pid}
        sample = read_process(child)
        assert sample is not None
        assert sample.parent_pid == process.pid
        assert sample.vsize_bytes > sample.rss_bytes > 0
        process.kill()
        process.wait()
        assert set(look()) <= {child}  # an orphan is followed on, and ends with its input
    assert read_process(process.pid) is None


def test_processes_are_narrowed_by_name_and_group(tmp_path: Path) -> None:
    own = os.getpid()
    comm = Path("/proc/self/comm").read_text()[:-1]
    group = tmp_path / "group" / "below"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"{own}\n12\n")

    def pids() -> list[int]:
        return [own, os.getppid()]

    assert narrowed(pids, None, None) is pids
    assert own in narrowed(pids, comm, None)()
    assert list(narrowed(pids, "no such name", None)()) == []
    assert list(narrowed(pids, None, str(group.parent))()) == [own]
    assert list(narrowed(pids, None, str(tmp_path / "other"))()) == []
    assert own in every_process()


def test_a_group_that_goes_while_groups_are_listed_is_skipped(tmp_path: Path, monkeypatch) -> None:
    """As of a container that ends: its directory is listed, and cannot be any more."""
    for name, pid in (("a", 1), ("b", os.getpid())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(f"{pid}\n")
    gone, scandir = tmp_path / "a", os.scandir

    def scan(path):
        if path in (gone, str(gone)):
            shutil.rmtree(gone, ignore_errors=True)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert list(narrowed(psutil.pids, None, str(tmp_path))()) == [os.getpid()]
    assert not gone.exists()


@pytest.mark.parametrize("burned_s", [0.05])
def test_the_time_of_a_real_child_that_has_ended(burned_s: float) -> None:
    sampler = ResourceSampler(tree_below(os.getpid()))
    burn = f"import time\nwhile time.process_time() < {burned_s}: pass"
    before = own_children()
    subprocess.run([sys.executable, "-c", burn], check=True)
    used, usage = own_children() - before, sampler.take()
    used_ns = used.user_ns + used.system_ns
    # children of other tests that still run use some time too
    assert burned_s * S <= used_ns <= usage.user_ns + usage.system_ns < used_ns + S
    assert 0 < usage.host_user_ns < 100 * S


def test_the_host_s_figures_are_the_kernel_s() -> None:
    before, times, after = read_host(), psutil.cpu_times(), read_host()
    assert before.host_iowait_ns <= times.iowait * S + 1
    assert before.host_user_ns <= (times.user + times.nice) * S + 1 <= after.host_user_ns + 2
