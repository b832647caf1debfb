# SPDX-License-Identifier: Apache-2.0
"""The EBS counters of a service: sums that only grow, errors that pass."""

from __future__ import annotations

import errno
import os

from profiler.service.ebs_pages import EbsPages
from tests.log_pages import page, sysfs_with

SECOND_NS = 10**9


class Volume:
    """A volume in memory, and a clock."""

    def __init__(self, tmp_path, **changes):
        self.now_ns, self.answer, self.reads = 0, page(), 0
        self.pages = EbsPages(
            ["nvme1n1"],
            sysfs_with(tmp_path, **changes),
            lambda _: os.open(os.devnull, os.O_RDONLY),
            self.read,
            lambda: self.now_ns,
        )

    def read(self, _descriptor):
        self.reads += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def at(self, second, answer):
        """Return the totals at that time."""
        self.now_ns, self.answer = second * SECOND_NS, answer
        return list(self.pages.totals())


def test_sums_begin_at_zero_and_go_on_after_a_new_attachment(tmp_path) -> None:
    volume = Volume(tmp_path)
    over = "volume_throughput_exceeded_us"
    [first] = volume.at(0, page(**{over: 7_000_000}, queue_length=3))
    assert (first.disk, first.exceeded_s, first.queue_length) == ("nvme1n1", (0, 0, 0, 0), 3)
    [second] = volume.at(1, page(**{over: 9_000_000}))
    assert second.exceeded_s == (0, 2, 0, 0)
    [third] = volume.at(2, page(**{over: 500_000}))  # attached anew
    assert third.exceeded_s == (0, 2.5, 0, 0)
    volume.pages.close()


def test_it_is_read_at_most_once_a_second(tmp_path) -> None:
    volume = Volume(tmp_path)
    for second in (0, 0, 0, 1, 1):
        volume.at(second, page())
    assert volume.reads == 2
    volume.pages.close()


def test_a_failure_is_a_sentence_and_is_tried_again(tmp_path) -> None:
    volume = Volume(tmp_path)
    volume.at(0, page(queue_length=7))
    [kept] = volume.at(1, OSError(errno.ENODEV, os.strerror(errno.ENODEV)))
    assert kept.exceeded_s == (0, 0, 0, 0)
    assert kept.queue_length is None  # of a volume that is gone, nobody knows it
    assert volume.pages.problems == {
        "nvme1n1": "the EBS counters of nvme1n1 cannot be read: No such device"
    }
    volume.at(2, page(magic=1))
    assert "begins with" in volume.pages.problems["nvme1n1"]
    [again] = volume.at(3, page(volume_iops_exceeded_us=1_000_000))
    assert (again.exceeded_s, again.queue_length) == ((0, 0, 0, 0), 0)
    assert volume.pages.problems == {}
    [later] = volume.at(4, page(volume_iops_exceeded_us=1_500_000))
    assert later.exceeded_s == (0.5, 0, 0, 0)
    volume.pages.close()


def test_another_volume_under_the_same_name_adds_only_what_is_new(tmp_path) -> None:
    """Its counters are of days, and would be an hour over the limits within a second."""
    volume, over = Volume(tmp_path), "volume_throughput_exceeded_us"
    volume.at(0, page(**{over: 2_000_000}))
    volume.at(1, OSError(errno.ENODEV, os.strerror(errno.ENODEV)))
    [swapped] = volume.at(2, page(**{over: 3_600_000_000}))
    assert swapped.exceeded_s == (0, 0, 0, 0)
    [later] = volume.at(3, page(**{over: 3_601_000_000}))
    assert later.exceeded_s == (0, 1, 0, 0)
    volume.pages.close()


def test_another_disk_is_sent_no_command(tmp_path) -> None:
    volume = Volume(tmp_path, vendor="0x144d")
    assert volume.at(0, page()) == []
    assert volume.reads == 0
