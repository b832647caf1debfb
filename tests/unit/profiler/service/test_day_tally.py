# SPDX-License-Identifier: Apache-2.0
"""What a day's samples add up to."""

from __future__ import annotations

import pytest

from profiler.bpf.probes.throttling import Throttled
from profiler.service.day_tally import DayTally, StallSample
from sysctl.knobs.writeback import Thresholds

SECOND, MIB = 10**9, 2**20
#: Writers may be throttled above 150 MiB.
AT = Thresholds(100 * MIB, 200 * MIB)


def sample(at_s, held_mib=0, slept_s=0.0, pauses=0):
    """`slept_s` and `pauses` are since the begin."""
    return StallSample(
        round(at_s * SECOND), held_mib * MIB, AT, Throttled(pauses, round(slept_s * SECOND))
    )


def tallied(*samples):
    tally = DayTally()
    for each in samples:
        tally.add(each)
    return tally


def seconds(tally):
    parts = (tally.watched_ns, tally.burst_ns, tally.above_freerun_ns, tally.stalled_ns)
    return tuple(part / SECOND for part in parts)


def test_nothing_and_one_sample_are_no_time():
    assert seconds(DayTally()) == seconds(tallied(sample(5, 500))) == (0, 0, 0, 0)
    assert DayTally().seconds == tallied(sample(5)).seconds == 0


def test_time_counts_by_the_state_at_the_begin_of_a_sample():
    tally = tallied(sample(0, 50), sample(1, 101), sample(2, 151), sample(3, 151), sample(4, 0))
    assert seconds(tally) == (4, 3, 2, 0)
    assert tally.peak_bytes == 151 * MIB


def test_a_sample_stalls_if_writers_slept_a_tenth_of_it():
    tally = tallied(
        sample(0, 160, 9.0, 100),
        sample(1, 160, 9.09, 101),
        sample(2, 160, 9.19, 103),
        sample(3, 160, 13.0, 110),  # of several writers
        sample(4, 160, 13.0, 110),
    )
    assert seconds(tally) == (4, 4, 4, 2)
    assert (tally.throttled_ns, tally.pauses) == (4 * SECOND, 10)


def test_a_stall_within_a_sample_is_part_of_a_burst():
    tally = tallied(sample(0, 0), sample(1, 0, 0.9))
    assert seconds(tally) == (1, 1, 0, 1)


def test_a_host_that_was_suspended_was_not_watched():
    tally = tallied(sample(0, 160), sample(3600, 160), sample(3601, 160))
    assert seconds(tally) == (6, 6, 6, 0)
    assert tally.seconds == 3601


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_two_days_have_together_what_both_have(cut):
    samples = [sample(at, 40 * at, at / 2, at) for at in range(6)]
    whole, first = tallied(*samples), tallied(*samples[: cut + 1])
    second = first.next_day()
    for each in samples[cut + 1 :]:
        second.add(each)
    sums = tuple(map(sum, zip(seconds(first), seconds(second))))
    assert sums == seconds(whole)
    assert first.pauses + second.pauses == whole.pauses
    assert first.throttled_ns + second.throttled_ns == whole.throttled_ns
    assert first.seconds + second.seconds == whole.seconds == 5
