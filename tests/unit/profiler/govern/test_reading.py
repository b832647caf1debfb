# SPDX-License-Identifier: Apache-2.0
"""Samples from files as the kernel writes them: the host's and the volumes' part."""

from __future__ import annotations

import os
from typing import ClassVar

import pytest

from contracts.shared.errors import UsageError
from profiler.govern.reader import HostReader, WritersSeen
from profiler.govern.volumes import (
    NamedVolume,
    VolumeReader,
    backing_at,
    counts_every_group,
    every_volume,
    missing,
    named_volumes,
)
from sysctl.govern.samples import VolumeState
from sysctl.host.mount_table import parse_mountinfo
from tests.unit.applied_hosts import FilesHost

KIB, MIB = 2**10, 2**20
PAGE = os.sysconf("SC_PAGE_SIZE")
STATS = """BdiWriteback:             {writeback} kB
BdiReclaimable:           {dirty} kB
BdiDirtyThresh:         543936 kB
DirtyThresh:           4498792 kB
BackgroundThresh:      2246648 kB
BdiDirtied:           {dirtied} kB
BdiWritten:           {written} kB
BdiWriteBandwidth:      102400 kBps
b_dirty:                     3
"""
TABLE = """22 1 254:1 / / rw - ext4 /dev/vda1 rw
40 22 7:0 / /data rw - xfs /dev/loop0 rw
41 22 0:50 / /tmp rw - tmpfs tmpfs rw
42 22 0:51 / /layers rw - overlay overlay rw,lowerdir=/l,upperdir=/data/upper,workdir=/data/w
43 22 0:52 / /nfs rw - nfs4 server:/ rw
"""


class Host(FilesHost):
    def vmstat(self, **pages):
        known = {
            **dict.fromkeys(("nr_dirty", "nr_writeback"), 0),
            **{"nr_free_pages": 6000, "nr_inactive_file": 2000, "nr_active_file": 1000},
            **{"nr_dirty_threshold": 1600, "nr_dirty_background_threshold": 800},
            **pages,
        }
        lines = ["nr_zone_active_file 7", *(f"{name} {count}" for name, count in known.items())]
        self.put("/proc/vmstat", "\n".join([*lines, "nr_dirtied 5", "nr_written 4"]))
        return self


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path).vmstat(nr_dirty=10, nr_writeback=3)
    made.put("/proc/pressure/memory", "some avg10=0.00 total=1500\nfull avg10=0.00 total=700")
    made.put("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB")
    return made


def reader_of(host, **options):
    return HostReader(lambda: (VolumeState(1, 2, 3, 4),), host.root, **options)


def test_a_sample_has_what_the_files_say(host) -> None:
    sample = reader_of(host, clock_ns=lambda: 7).read()
    assert (sample.time_ns, sample.dirty_bytes, sample.writeback_bytes) == (7, 10 * PAGE, 3 * PAGE)
    assert sample.thresholds.dirty_bytes == 1600 * PAGE
    assert sample.thresholds.background_bytes == 800 * PAGE
    assert sample.available_bytes == 8000 * KIB
    assert sample.values == {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}
    assert (sample.memory_some_ns, sample.memory_full_ns) == (1_500_000, 700_000)
    assert sample.volumes == (VolumeState(1, 2, 3, 4),)


def test_dirtyable_memory_is_known_under_ratios_and_under_bytes(host) -> None:
    reader = reader_of(host)
    assert reader.read().dirtyable_bytes == 8000 * PAGE  # 1,600 pages are 20 %
    host.put("/proc/sys/vm/dirty_ratio", 0)
    host.put("/proc/sys/vm/dirty_bytes", 4000 * PAGE)
    host.put("/proc/sys/vm/dirty_background_ratio", 0)
    host.put("/proc/sys/vm/dirty_background_bytes", 2000 * PAGE)
    host.vmstat(nr_free_pages=5000, nr_dirty_threshold=4000, nr_dirty_background_threshold=2000)
    sample = reader.read()
    assert sample.dirtyable_bytes == 7000 * PAGE  # 1,000 pages less are free
    assert sample.values == {
        "vm.dirty_bytes": 4000 * PAGE,
        "vm.dirty_background_bytes": 2000 * PAGE,
    }


def test_a_background_ratio_shows_dirtyable_memory_unless_the_kernel_halved_it(host) -> None:
    reader = reader_of(host)
    host.put("/proc/sys/vm/dirty_ratio", 0)
    host.put("/proc/sys/vm/dirty_bytes", 4000 * PAGE)
    host.vmstat(nr_dirty_threshold=4000, nr_dirty_background_threshold=900)
    assert reader.read().dirtyable_bytes == 9000 * PAGE
    host.vmstat(nr_dirty_threshold=4000, nr_dirty_background_threshold=2000)
    assert reader.read().dirtyable_bytes == 9000 * PAGE


def test_a_host_whose_thresholds_were_never_ratios_has_its_available_memory(host) -> None:
    host.put("/proc/sys/vm/dirty_ratio", 0)
    host.put("/proc/sys/vm/dirty_bytes", 4000 * PAGE)
    host.put("/proc/sys/vm/dirty_background_ratio", 0)
    host.put("/proc/sys/vm/dirty_background_bytes", 2000 * PAGE)
    assert reader_of(host).read().dirtyable_bytes == 8000 * KIB


def test_without_pressure_information_it_is_unknown(host) -> None:
    host.path("/proc/pressure/memory").unlink()
    sample = reader_of(host).read()
    assert (sample.memory_some_ns, sample.memory_full_ns) == (None, None)


def test_two_zeros_are_a_background_ratio_of_zero(host) -> None:
    host.put("/proc/sys/vm/dirty_background_ratio", 0)
    assert reader_of(host).values() == {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 0}


def test_the_reader_closes_its_files(host) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        reader_of(host).close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_host_stands_for_volumes_that_the_kernel_does_not_count(host) -> None:
    states = (None, VolumeState(1, 2, 3, 4), VolumeState(5, 6, 7, 8))
    reader = HostReader(lambda: states, host.root, counts_host=True)
    counted = VolumeState(10 * PAGE, 3 * PAGE, 5 * PAGE, 4 * PAGE)
    assert reader.read().volumes == (None, counted, VolumeState(0, 0, 0, 0))


def test_writers_are_looked_at_with_each_sample(host) -> None:
    seen = WritersSeen(7, {"s5cmd": 7})

    class Looked:
        busy: ClassVar[list[bool]] = []

        def look(self, volumes, *, is_busy):
            assert volumes == (VolumeState(1, 2, 3, 4),)
            self.busy.append(is_busy)
            return seen

    reader = reader_of(host, writers=Looked())
    sample = reader.read()
    assert (sample.admitted_bytes, sample.writes) == (7, {"s5cmd": 7})
    host.vmstat(nr_dirty=300)
    reader.read()
    assert Looked.busy == [False, True]


# --- volumes --------------------------------------------------------------------------------


@pytest.fixture
def debugfs(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def put_stats(folder, backing="7:0", **figures):
    path = folder / "bdi" / backing / "stats"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = dict.fromkeys(("writeback", "dirty", "dirtied", "written"), 0)
    path.write_text(STATS.format(**{**known, **figures}))
    return path


def test_a_volumes_state_is_in_bytes(tmp_path, debugfs) -> None:
    put_stats(tmp_path, writeback=4, dirty=8, dirtied=400, written=300)
    reader = VolumeReader([NamedVolume("/data", "7:0")], debugfs)
    assert reader.read() == (VolumeState(8 * KIB, 4 * KIB, 400 * KIB, 300 * KIB),)
    put_stats(tmp_path, dirty=16)
    assert reader.read() == (VolumeState(16 * KIB, 0, 0, 0),)
    reader.close()


def test_a_volume_that_goes_away_and_returns(tmp_path, debugfs, monkeypatch) -> None:
    now_ns = [0]
    volumes = [NamedVolume("/data", "7:0"), NamedVolume("/other", "7:1")]
    put_stats(tmp_path, dirty=8)
    backings = {"/data": "7:0", "/other": "7:1"}
    reader = VolumeReader(volumes, debugfs, lambda: now_ns[0], find=backings.get)
    assert reader.read()[1] is None
    put_stats(tmp_path, "7:1", dirty=12)
    assert reader.read()[1] is None  # looked for once a second
    now_ns[0] += 10**9
    assert reader.read()[1] == VolumeState(12 * KIB, 0, 0, 0)
    real = os.pread

    def gone(descriptor, *arguments):
        if "7:0" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, "Input/output error")
        return real(descriptor, *arguments)

    monkeypatch.setattr(os, "pread", gone)
    assert [state is None for state in reader.read()] == [True, False]
    monkeypatch.undo()
    now_ns[0] += 10**9
    assert [state is None for state in reader.read()] == [False, False]
    reader.close()


def test_a_volume_that_returns_as_another_device_is_found_at_its_mount_point(
    tmp_path, debugfs
) -> None:
    now_ns, backings = [0], dict[str, str]()
    reader = VolumeReader(
        [NamedVolume("/data", "7:0")], debugfs, lambda: now_ns[0], find=backings.get
    )
    assert reader.read() == (None,)
    put_stats(tmp_path, "7:0", dirty=8)  # another disk has the number, and is not mounted there
    now_ns[0] += 10**9
    assert reader.read() == (None,)
    backings["/data"] = "7:1"
    put_stats(tmp_path, "7:1", dirty=12)
    now_ns[0] += 10**9
    assert reader.read() == (VolumeState(12 * KIB, 0, 0, 0),)
    reader.close()


def test_the_device_at_a_mount_point(tmp_path) -> None:
    mounts, sysfs = mounted(tmp_path)
    assert backing_at(str(tmp_path / "data"), mounts, sysfs) == "7:0"
    assert backing_at(str(tmp_path / "tmp"), mounts, sysfs) is None  # a file system in memory
    assert backing_at(str(tmp_path / "data/upper"), mounts, sysfs) is None  # no mount point


def test_readings_that_take_long_become_rare(tmp_path, debugfs) -> None:
    put_stats(tmp_path, dirty=8)
    times = iter(range(0, 10**12, 1_000_000))  # each look at the clock takes 1 ms
    clock_ns = lambda: next(times)  # noqa: E731
    reader = VolumeReader([NamedVolume("/data", "7:0")], debugfs, clock_ns, clock_ns)
    first = reader.read()
    put_stats(tmp_path, dirty=80)
    assert reader.read() == first
    for _ in range(200):
        latest = reader.read()
    assert latest == (VolumeState(80 * KIB, 0, 0, 0),)
    reader.close()


def test_a_reading_that_waited_for_a_cpu_does_not_become_rare(tmp_path, debugfs) -> None:
    """On a busy host the governor must not be blind for a hundred times what it waited."""
    put_stats(tmp_path, dirty=8)
    times, used = iter(range(0, 10**12, 50_000_000)), iter(range(0, 10**12, 20_000))
    volumes = [NamedVolume("/data", "7:0")]
    reader = VolumeReader(volumes, debugfs, lambda: next(times), lambda: next(used))
    assert reader.read() == (VolumeState(8 * KIB, 0, 0, 0),)
    put_stats(tmp_path, dirty=80)
    assert reader.read() == (VolumeState(80 * KIB, 0, 0, 0),)
    reader.close()


def test_what_the_kernel_has_no_statistics_of_is_known(tmp_path, debugfs) -> None:
    put_stats(tmp_path)
    there, absent = NamedVolume("/data", "7:0"), NamedVolume("/btrfs", "0:45")
    assert missing([there, absent], debugfs) == (absent,)
    version_2, version_1 = FilesHost(tmp_path / "two"), FilesHost(tmp_path / "one")
    version_2.put("/proc/self/cgroup", "0::/")
    version_1.put("/proc/self/cgroup", "2:memory:/")
    assert not counts_every_group([there], debugfs, version_2)
    assert counts_every_group([there], debugfs, version_1)
    (tmp_path / "bdi/7:0/wb_stats").write_text("")
    assert counts_every_group([there], debugfs, version_2)


def mounted(tmp_path, text=TABLE):
    """Return the table with its mount points below a folder, and a sysfs with one partition."""
    for name in ("data/upper", "data/a", "tmp", "layers", "nfs"):
        (tmp_path / name).mkdir(parents=True)
    disk = tmp_path / "sys/devices/vda"
    (disk / "vda1").mkdir(parents=True)
    (disk / "dev").write_text("254:0\n")
    (disk / "vda1/dev").write_text("254:1\n")
    (disk / "vda1/partition").write_text("1\n")
    links = tmp_path / "sys/dev/block"
    links.mkdir(parents=True)
    (links / "254:1").symlink_to(disk / "vda1")
    loop = tmp_path / "sys/devices/loop0"
    loop.mkdir()
    (loop / "dev").write_text("7:0\n")
    (links / "7:0").symlink_to(loop)
    placed = text.replace(" / /", f" / {tmp_path}/").replace("=/", f"={tmp_path}/")
    placed = placed.replace(f" / {tmp_path}/ rw", f" / {tmp_path} rw")
    return parse_mountinfo(placed), tmp_path / "sys"


def test_directories_stand_for_their_volumes(tmp_path) -> None:
    mounts, sysfs = mounted(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "data/a")
    asked = [tmp_path / "data/a", tmp_path / "data", tmp_path / "link", tmp_path / "layers"]
    assert named_volumes(asked, mounts, sysfs) == (NamedVolume(str(tmp_path / "data"), "7:0"),)
    (root,) = named_volumes([tmp_path], mounts, sysfs)
    assert root.backing == "254:0"  # the disk of the partition
    (remote,) = named_volumes([tmp_path / "nfs"], mounts, sysfs)
    assert remote.backing == "0:52"


@pytest.mark.parametrize("name", ["tmp", "missing"])
def test_a_directory_without_a_volume_is_refused(tmp_path, name) -> None:
    mounts, sysfs = mounted(tmp_path)
    with pytest.raises(UsageError, match=name):
        named_volumes([tmp_path / name], mounts, sysfs)


def test_a_calm_host_is_looked_at_less_closely_and_a_busy_one_at_once(host) -> None:
    now_ns = [0]
    reader = reader_of(host, clock_ns=lambda: now_ns[0])
    assert reader.read_news()
    now_ns[0] += 450_000_000
    assert reader.read_news() is None
    now_ns[0] += 50_000_000
    assert reader.read_news()
    host.vmstat(nr_dirty=70, nr_writeback=11)  # of 800
    busy = reader.read_news()
    assert busy
    assert busy.held_bytes == 81 * PAGE
    host.put("/proc/sys/vm/dirty_ratio", 30)
    host.vmstat(nr_dirty_threshold=2400)
    changed = reader.read_news()
    assert changed
    assert changed.values["vm.dirty_ratio"] == 30  # calm, but the thresholds are others
    assert reader.read_news() is None


def test_a_calm_host_on_which_more_becomes_dirty_is_looked_at(host) -> None:
    """A burst that has just begun: its first pages belong to it."""
    many = {"nr_dirty_threshold": 2 << 20, "nr_dirty_background_threshold": 1 << 20}
    host.vmstat(nr_dirty=100, **many)
    reader = reader_of(host, clock_ns=lambda: 0)
    assert reader.read_news()
    host.vmstat(nr_dirty=100 + 256, **many)
    assert reader.read_news() is None
    host.vmstat(nr_dirty=100 + 257, **many)
    assert reader.read_news()
    assert reader.read_news() is None


def test_the_first_news_come_at_once_also_after_a_look(host) -> None:
    """Otherwise what a command writes in its first half second would be of no pair of samples."""
    reader = reader_of(host, clock_ns=lambda: 0)
    assert reader.read()
    assert reader.read_news()
    assert reader.read_news() is None


def test_every_volume_is_one_that_is_mounted_to_write(tmp_path):
    table = (
        TABLE
        + """44 22 7:1 / /snap ro - squashfs /dev/loop1 ro
45 22 7:2 / /frozen rw - ext4 /dev/loop2 ro
46 22 7:0 /sub /again rw - xfs /dev/loop0 rw
47 22 7:3 / /scratch rw - ext4 /dev/loop3 rw
"""
    )
    for device in ("254:1", "7:0", "7:1", "7:2", "7:3"):
        (tmp_path / "dev/block" / device).mkdir(parents=True)
    found = every_volume(parse_mountinfo(table), tmp_path)
    assert [volume.target for volume in found] == ["/", "/data", "/scratch"]
