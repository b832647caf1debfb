# SPDX-License-Identifier: Apache-2.0
"""The volume that the lab emulates: the limits of the plan, with smaller buckets."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from contracts.shared.errors import UsageError
from profiler.lab.emulated import Emulated, from_record
from sysctl.volume import timeline
from sysctl.volume.limits import GIB, MIB
from sysctl.volume.volume_types import EbsVolume, check

ST1 = Emulated(EbsVolume("st1", 256), time_scale=1024)
GP2 = Emulated(EbsVolume("gp2", 100), "m5.large", 60, 0.5, 0.25)


def test_the_rates_are_kept_and_the_bucket_is_divided() -> None:
    (bucket,) = ST1.path().buckets
    assert (bucket.baseline_per_s, bucket.burst_per_s) == (10 * MIB, 62.5 * MIB)
    assert bucket.capacity == 256 * GIB / 1024
    assert ST1.levels() == (256 * MIB,)
    course = timeline.pull(ST1.path(), 1 * GIB, ST1.levels())
    assert course.falls_at_s == pytest.approx(256 / 52.5)


def test_the_instances_buckets_count_too_and_have_their_own_level() -> None:
    of_bytes, of_ios, volume = GP2.path().buckets
    assert (of_bytes.credits_per_byte, of_ios.capacity) == (1.0, (18_750 - 3_600) * 1800 / 60)
    assert volume.capacity == 5_400_000 / 60
    shares = [level / each.capacity for level, each in zip(GP2.levels(), GP2.path().buckets)]
    assert shares == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("emulated", [ST1, GP2, Emulated(check(EbsVolume("gp3", 30)).volume)])
def test_a_record_reads_back_as_it_was(emulated: Emulated) -> None:
    assert from_record(json.loads(json.dumps(asdict(emulated)))) == emulated


def test_a_lab_without_a_volume_type_has_none() -> None:
    assert from_record(None) is None


@pytest.mark.parametrize("scale", [0.5, 0, -1, float("nan"), float("inf")])
def test_a_time_scale_below_one_is_refused(scale: float) -> None:
    with pytest.raises(UsageError, match="--time-scale must be at least 1"):
        replace(ST1, time_scale=scale)


def test_a_bucket_that_lasts_no_second_is_refused_with_the_largest_scale() -> None:
    with pytest.raises(UsageError, match="leaves credits for less than 1 s of burst") as caught:
        replace(ST1, time_scale=1e6)
    assert caught.value.hint == "use --time-scale 4993 or less"
    replace(ST1, time_scale=4993)
