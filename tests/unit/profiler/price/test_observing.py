# SPDX-License-Identifier: Apache-2.0
"""What a run with a neighbour counts of the host, and from when until when."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from contracts.stats import CallStats
from profiler.bpf.probes.waits import StallStats
from profiler.ec2.log_page import parse
from profiler.ec2.node import AttachedVolume
from profiler.price import observing
from profiler.price.memory import MemoryTotals, read_memory_totals
from profiler.price.observing import PriceObserver
from profiler.pull import measured as measured_pull
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.measured import measure_pull
from profiler.pull.result import PullResult, Verification
from profiler.pull.source import Location, PullPlan, RemoteObject
from profiler.pull.workers import WorkerPool
from profiler.study import bench as pull_bench
from profiler.study import trial_pull
from profiler.study.bench import PullBench
from profiler.watch.causes import WhyInputs
from profiler.watch.volumes import Reading, VolumeUse
from sysctl.evidence.price_seen import Latency
from sysctl.host.ext4 import data_mode
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.system import System
from tests.log_pages import page

VMSTAT = {
    "pswpout": 3,
    "pswpin": 900,
    "pgsteal_kswapd": 10**6,
    "workingset_refault_anon": 2,
    "workingset_refault_file": 5,
    "workingset_activate_file": 1,
    "allocstall_dma": 1,
    "allocstall_normal": 4,
}
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 total=7\n"


class FileHost(System):
    """A host whose files a test puts there."""

    def __init__(self, root, files):
        super().__init__(root, run=lambda argv: "")
        for path, text in files.items():
            self.put(path, text)

    def put(self, path, text):
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)


def vmstat(**fields):
    return "".join(f"{name} {value}\n" for name, value in {**VMSTAT, **fields}.items())


def host(root, vmstat_text=None, some=1_000_000):
    files = {"/proc/vmstat": vmstat() if vmstat_text is None else vmstat_text}
    if some is not None:
        files["/proc/pressure/memory"] = PRESSURE.format(some=some)
    return FileHost(root, files)


def test_the_counters_of_memory_that_programs_lose(tmp_path):
    assert read_memory_totals(host(tmp_path)) == MemoryTotals(3 * 4096, 7 * 4096, 5, 10**9)


@pytest.mark.parametrize(
    ("text", "refaulted", "stalls"),
    [
        ("workingset_refault 9\nallocstall 2\n", 9 * 4096, 2),
        ("workingset_refault_file 9\n", 9 * 4096, None),
        ("nr_dirty 1\n", None, None),
    ],
    ids=["older names", "files alone", "neither"],
)
def test_their_names_differ_by_kernel(tmp_path, text, refaulted, stalls):
    totals = read_memory_totals(host(tmp_path, text, some=None))
    assert (totals.refaulted_bytes, totals.direct_reclaim_stalls) == (refaulted, stalls)
    assert totals.pressure_some_ns is None


def test_what_was_lost_is_what_was_added(tmp_path):
    system = host(tmp_path)
    before = read_memory_totals(system)
    system.put("/proc/vmstat", vmstat(pswpout=13, allocstall_normal=3, workingset_refault_file=6))
    system.put("/proc/pressure/memory", PRESSURE.format(some=1_500_000))
    lost = read_memory_totals(system).since(before, elapsed_s=5.0)
    assert (lost.swapped_out_bytes, lost.refaulted_bytes) == (10 * 4096, 4096)
    assert lost.direct_reclaim_stalls == 0, "a sum over CPUs that shrank for a moment"
    assert lost.pressure_share == pytest.approx(0.1)
    assert read_memory_totals(system).since(before, elapsed_s=0.1).pressure_share == 1.0
    unknown = MemoryTotals(None, None, None, None)
    assert set(vars(unknown.since(before, 1.0)).values()) == {None}


def mount(fstype="ext4", *words):
    return Mount("259:1", "/", "/data", ("rw",), fstype, "/dev/nvme1n1p1", ("rw", *words))


def with_options(root, text):
    system = FileHost(root, {"/sys/block/nvme1n1/nvme1n1p1/dev": "259:1\n"})
    link = system.path("/sys/dev/block/259:1")
    link.parent.mkdir(parents=True)
    link.symlink_to("../../block/nvme1n1/nvme1n1p1")
    if text:
        system.put("/proc/fs/ext4/nvme1n1p1/options", text)
    return system


@pytest.mark.parametrize(
    ("options", "mounted", "mode"),
    [
        ("rw\ndelalloc\ndata=ordered\n", mount(), "ordered"),
        ("rw\ndata=journal\n", mount("ext4", "data=journal"), "journal"),
        ("rw\ndelalloc\n", mount(), ""),
        ("", mount("ext4", "data=writeback"), "writeback"),
        ("", mount(), ""),
        ("rw\ndata=ordered\n", mount("xfs"), ""),
    ],
)
def test_the_data_mode_of_ext4(tmp_path, options, mounted, mode):
    assert data_mode(with_options(tmp_path, options), mounted) == mode


class FakeNeighbour:
    """A neighbour that made two calls of each kind and dirtied 8 KiB."""

    dirtied_bytes = 8192
    problem = "reads were not timed: made up"
    latency = Latency(0.002, 0.5, 2)

    def __init__(self, folder):
        self.fsync = self.read = SimpleNamespace(latency=lambda: None)
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @contextlib.contextmanager
    def running(self):
        yield
        self.fsync = SimpleNamespace(latency=lambda: self.latency)


def test_an_observer_has_it_all(tmp_path, monkeypatch):
    monkeypatch.setattr(observing, "Neighbour", FakeNeighbour)
    system = with_options(tmp_path, "data=ordered\n")
    system.put("/proc/vmstat", vmstat())
    clock_ns = iter([10**9, 5 * 10**9])
    observer: Any = PriceObserver(system, mount(), tmp_path, lambda: next(clock_ns))
    with observer:
        assert observer.seen is None
        with observer.observed():
            system.put("/proc/vmstat", vmstat(pswpout=5))
    seen: Any = observer.seen
    assert (seen.observed_s, seen.fsync, seen.read) == (4.0, FakeNeighbour.latency, None)
    assert (seen.swapped_out_bytes, seen.refaulted_bytes) == (8192, 0)
    assert (seen.memory_pressure_share, seen.ext4_data_mode) == (None, "ordered")
    assert seen.problem == FakeNeighbour.problem


PLAN = PullPlan(Location("b", "p/"), (RemoteObject("p/a", "a", 10_000, "e"),))


class FakePool:
    """A pool whose pull does nothing but say when it ran."""

    pids = (1,)
    writers_at_most = 1

    def __init__(self, order, ended_by=None):
        self.order, self.ended_by = order, ended_by

    def start(self):
        self.order.append("start")

    def run(self, staging, on_progress, stop_after_s):
        self.order.append("pull")
        return PullResult(0, 1.0, 10_000, (0,), (), ended_by=self.ended_by)

    def verify(self, *args, **options):
        self.order.append("verify")
        return Verification({}, (), 0.0)


@pytest.fixture
def order(monkeypatch):
    """What happens in a measured pull, in its order."""
    happened = []
    monkeypatch.setattr(
        measured_pull, "sync_file_system", lambda descriptor: happened.append("sync")
    )
    return happened


@contextlib.contextmanager
def record_block(order):
    order.append("begin")
    try:
        yield
    finally:
        order.append("end")


def test_the_observation_lasts_until_all_is_durable_and_not_longer(tmp_path, order):
    measure_pull(
        cast(WorkerPool, FakePool(order)),
        PLAN,
        Destination(tmp_path),
        None,
        keep=False,
        during=lambda: record_block(order),
    )
    assert order == ["start", "begin", "pull", "sync", "end", "verify"]


def test_it_ends_with_a_pull_that_ends_early(tmp_path, order):
    ended = SimpleNamespace(as_error=lambda: PullError("made up"))
    pool = FakePool(order, ended)
    with pytest.raises(PullError):
        measure_pull(
            cast(WorkerPool, pool),
            PLAN,
            Destination(tmp_path),
            None,
            keep=False,
            during=lambda: record_block(order),
        )
    assert order == ["start", "begin", "pull", "end"]


SYSCTLS = {
    "vm.dirty_ratio": 20,
    "vm.dirty_background_ratio": 10,
    "vm.dirty_bytes": 0,
    "vm.dirty_background_bytes": 0,
    "vm.dirty_expire_centisecs": 3000,
    "vm.dirty_writeback_centisecs": 500,
}
MOUNTED = "22 1 259:1 / / rw,relatime - ext4 /dev/nvme1n1p1 rw\n"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A bench on a host of files, whose pulls dirty what `pulled` writes to its vmstat."""
    files = {f"/proc/sys/{n.replace('.', '/')}": str(v) for n, v in SYSCTLS.items()}
    files["/proc/self/mountinfo"] = MOUNTED
    files["/proc/sys/kernel/random/boot_id"] = "boot"
    files["/proc/sys/vm/drop_caches"] = ""
    files["/proc/stat"] = "cpu 1 2 3 4 5 6 7 8\n"
    system = FileHost(tmp_path / "host", files)
    thresholds = {"nr_dirty_threshold": 200_000, "nr_dirty_background_threshold": 100_000}
    system.put("/proc/vmstat", vmstat(nr_dirtied=1000, **thresholds))
    destination = tmp_path / "data"
    destination.mkdir()
    made: Any = PullBench(
        host=Host(tmp_path / "state", "test", system),
        pool=cast(WorkerPool, FakePool([])),
        plan=PLAN,
        destination=destination,
        mount_target="/",
        contract=None,
        session=None,
        limits=None,
        say=lambda what: None,
        on_phase=lambda phase, progress: None,
    )

    def measure(pool, plan, folder, session, *, durable, during, **options):
        made.durable = durable
        made.options = options
        with during():
            system.put("/proc/vmstat", vmstat(nr_dirtied=1000 + 3 + 2, **thresholds))
        result = PullResult(0, 1.0, 10_000, (0,), ())
        return measured_pull.PullMeasurement(
            result, 2.0 if durable else None, Verification({}, (), 0.0), None, 1, made.why
        )

    made.why = None

    monkeypatch.setattr("os.sync", lambda: None)
    monkeypatch.setattr(trial_pull, "measure_pull", measure)
    settled = SimpleNamespace(limit_bytes=1)
    monkeypatch.setattr(pull_bench, "settle_dirty_limit", lambda *arguments: settled)
    monkeypatch.setattr(observing, "Neighbour", FakeNeighbour)
    return made


def test_the_neighbour_is_not_another_program(bench):
    seen = bench.measure(durable=False, observe_price=True)
    assert bench.durable, "it is observed until all is durable"
    assert seen.durable_s == 2.0
    assert seen.others_dirtied_bytes == 0, "three pages of the pull, two of the neighbour"
    assert seen.price.fsync == FakeNeighbour.latency


def test_an_ordinary_trial_has_no_neighbour(bench, monkeypatch):
    monkeypatch.setattr(observing, "Neighbour", None)
    seen = bench.measure(durable=False)
    assert not bench.durable
    assert (seen.price, seen.durable_s, seen.others_dirtied_bytes) == (None, None, 2 * 4096)


def test_an_observation_has_the_time_over_the_limits_of_ebs(bench):
    volume = AttachedVolume("vol-0123456789abcdef0", "nvme1n1", 2**30)
    pages = (page(volume_iops_exceeded_us=at * 400_000) for at in range(2))
    readings = tuple(Reading(at * 10**9, parse(each)) for at, each in enumerate(pages))
    failed = VolumeUse(replace(volume, disk="nvme2n1"), (), "it was unplugged")
    uses = (VolumeUse(volume, readings), failed)
    bench.why = WhyInputs(CallStats(), 10**9, StallStats(), volumes=uses)
    seen = bench.measure(durable=False)
    assert bench.options["volumes"] is bench.volumes
    assert seen.over_limit.volume_iops_s == 0.4
    assert seen.over_limit_problem == "nvme2n1: it was unplugged"


def test_ctrl_c_ends_a_trial_also_where_the_cap_is_lost(bench, monkeypatch):
    """A trial that failed would be repeated."""
    problems = iter([None, "the volume is not capped any more"])
    bench.cap_problem = lambda: next(problems)

    def interrupted(pool, plan, destination, *arguments, **options):
        with destination.deleting():
            raise KeyboardInterrupt

    monkeypatch.setattr(trial_pull, "measure_pull", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.measure(durable=False)
    assert next(problems, None) is None, "the cap was looked at"
