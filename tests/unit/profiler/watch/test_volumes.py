# SPDX-License-Identifier: Apache-2.0
"""The counters of EBS volumes during a run, with injected readings."""

from __future__ import annotations

import errno
import os
from itertools import count

import pytest

from profiler.watch.volumes import EbsVolumes, VolumeRecorder
from sysctl.evidence.over_limit import OverLimit
from tests.log_pages import page, sysfs_with

SECOND_NS = 10**9
MIB = 2**20


class Disks:
    """Disks in memory: `pages` are the answers, the last one for good; errors are raised."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.opened, self.read_from = [], []

    def open(self, disk):
        self.opened.append(disk)
        return os.open(os.devnull, os.O_RDONLY)

    def read(self, descriptor):
        self.read_from.append(descriptor)
        answer = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def volumes(tmp_path, disks, names=("nvme1n1",), **changes):
    return EbsVolumes(names, sysfs_with(tmp_path, **changes), disks.open, disks.read)


def clock(step_ns=SECOND_NS):
    moments = count(5 * SECOND_NS, step_ns)
    return lambda: next(moments)


def recorded(opened, readings, step_ns=SECOND_NS):
    """Return the only volume's use after this many readings, one each second."""
    with opened:
        recorder = opened.recorder(clock(step_ns))
        recorder.begin()
        for _ in range(readings - 2):
            for beat in recorder.beats:
                beat.run()
        recorder.end()
        [use] = recorder.uses()
        return use


def throttled(second, rate_mib=100, ops=400):
    """The page after so many seconds over the volume's throughput limit."""
    return page(
        write_bytes=1000 * MIB + second * rate_mib * MIB,
        write_ops=7 + second * ops,
        volume_throughput_exceeded_us=3 + second * 10**6,
        instance_iops_exceeded_us=second * 10**5,
    )


def test_the_time_over_each_limit_and_what_was_let_through(tmp_path):
    use = recorded(volumes(tmp_path, Disks(*map(throttled, range(5)))), 5)
    assert (use.volume.volume_id, use.problem) == ("vol-0123456789abcdef0", None)
    assert use.over_limit == OverLimit(
        observed_s=4.0,
        volume_throughput_s=4.0,
        instance_iops_s=0.4,
        at_limit_s=4.0,
        at_limit_rate_bytes_per_s=100 * MIB,
        at_limit_ops_per_s=400,
        rate_bytes_per_s=100 * MIB,
    )


def test_only_intervals_at_the_limit_show_what_it_lets_through(tmp_path):
    idle = page(write_bytes=5000 * MIB)
    busy = page(write_bytes=5080 * MIB, write_ops=9, volume_iops_exceeded_us=900_000)
    use = recorded(volumes(tmp_path, Disks(page(), idle, busy)), 3)
    assert use.over_limit.at_limit_s == 1
    assert use.over_limit.at_limit_rate_bytes_per_s == 80 * MIB
    assert use.over_limit.rate_bytes_per_s == 2540 * MIB


def test_a_last_interval_that_is_short_is_part_of_the_one_before(tmp_path):
    """The counters advance by a whole second in it, which is no rate of its own."""
    disks = Disks(*map(throttled, range(4)))
    with volumes(tmp_path, disks) as opened:
        moments = iter((0, SECOND_NS, 2 * SECOND_NS, 2 * SECOND_NS + 10**7))
        recorder = opened.recorder(lambda: next(moments))
        for _ in range(4):
            recorder.begin()
        over = recorder.uses()[0].over_limit
    assert over.at_limit_s == pytest.approx(2.01)
    assert over.at_limit_rate_bytes_per_s == pytest.approx(300 * MIB / 2.01)


@pytest.mark.parametrize(
    "changes", [{"vendor": "0x1b36"}, {"model": "QEMU NVMe Ctrl"}, {"serial": "AWS0123"}]
)
def test_other_disks_are_neither_opened_nor_read(tmp_path, changes):
    disks = Disks(page())
    with volumes(tmp_path, disks, **changes) as opened:
        recorder = opened.recorder()
        recorder.begin()
        recorder.end()
    assert (recorder.uses(), recorder.beats, opened.volumes) == ((), (), ())
    assert (disks.opened, disks.read_from) == ([], [])


def test_a_volume_that_nobody_asked_about_is_left_alone(tmp_path):
    disks = Disks(page())
    with volumes(tmp_path, disks, names=("vda", "nvme2n1")) as opened:
        assert opened.volumes == ()
    assert disks.opened == []


def test_a_volume_that_cannot_be_opened_has_its_reason(tmp_path):
    def refuse(disk):
        raise PermissionError(errno.EACCES, "Permission denied")

    opened = EbsVolumes(["nvme1n1"], sysfs_with(tmp_path), refuse, Disks(page()).read)
    use = recorded(opened, 3)
    assert use.over_limit is None
    assert use.problem == "the log page cannot be read (Permission denied)"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([OSError(errno.EACCES, "Permission denied")], "Permission denied"),
        ([page(), OSError(errno.ENODEV, "No such device")], "No such device"),
        ([page(magic=1)], "begins with 0x00000001"),
        ([page(), page()[:100]], "has 100 of 4096 bytes"),
        ([page(write_bins=[(0, 1, 1)] * 65)], "has 65 bins"),
        ([throttled(9), throttled(0)], "attached anew"),
        ([throttled(5), throttled(9), throttled(7)], "attached anew"),
    ],
    ids=["refused", "unplugged", "magic", "short", "bins", "back to zero", "back in between"],
)
def test_a_failed_reading_is_one_reason_and_ends_the_readings(tmp_path, answers, says):
    disks = Disks(*answers)
    use = recorded(volumes(tmp_path, disks), 8)
    assert says in use.problem
    assert use.over_limit is None
    assert len(disks.read_from) == len(answers)


def test_the_next_run_tries_again(tmp_path):
    disks = Disks(OSError(errno.EIO, "Input/output error"), throttled(0), throttled(1))
    opened = volumes(tmp_path, disks)
    with opened:
        first, second = opened.recorder(clock()), opened.recorder(clock())
        for recorder in (first, second):
            recorder.begin()
            recorder.end()
    assert first.uses()[0].over_limit is None
    assert second.uses()[0].over_limit.volume_throughput_s == 1


def test_it_reads_at_most_once_a_second_however_slow_the_controller(tmp_path):
    with volumes(tmp_path, Disks(page())) as opened:
        [beat] = opened.recorder().beats
        assert beat.interval_ns == SECOND_NS
        beat.start(0)
        beat.ran(SECOND_NS, SECOND_NS + SECOND_NS // 2)
        assert beat.due_ns >= 10 * SECOND_NS


def test_a_run_of_days_keeps_a_bounded_number_of_readings(tmp_path):
    use = recorded(volumes(tmp_path, Disks(*map(throttled, range(9000)))), 9000)
    assert 2000 <= len(use.readings) <= 4000
    assert use.over_limit.volume_throughput_s == 8999
    assert use.over_limit.at_limit_rate_bytes_per_s == 100 * MIB


def test_descriptors_are_closed(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with volumes(tmp_path, Disks(page())):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


def test_nothing_is_recorded_of_no_volumes():
    recorder = VolumeRecorder()
    recorder.begin()
    recorder.end()
    assert recorder.uses() == ()
