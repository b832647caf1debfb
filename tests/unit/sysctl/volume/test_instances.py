# SPDX-License-Identifier: Apache-2.0
"""The table of instance types agrees with its source, and unknown figures stay unknown."""

from __future__ import annotations

import re

import pytest

from contracts.shared.errors import UsageError
from sysctl.volume import instances
from sysctl.volume.limits import LimitedBy
from sysctl.volume.volume_types import DATA

TABLE = instances.table()


def test_it_is_what_the_generator_writes():
    pytest.importorskip("moto")
    from tools.instance_types import render

    text = (DATA / "instance_types.tsv").read_text("utf-8")
    assert render(TABLE.as_of) == text


def test_its_size_date_and_source():
    with_figures = [
        each for each in TABLE.by_name.values() if each.ebs and each.network_peak_gbit_per_s
    ]
    assert len(with_figures) >= 800
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", TABLE.as_of)
    assert "DescribeInstanceTypes" in TABLE.source


def test_no_baseline_is_above_the_maximum():
    for each in TABLE.by_name.values():
        if each.ebs:
            assert 0 < each.ebs.baseline_mb_per_s <= each.ebs.maximum_mb_per_s, each.name
            assert 0 < each.ebs.baseline_iops <= each.ebs.maximum_iops, each.name


def test_bursting_is_a_matter_of_figures_not_of_names():
    bursting = [
        each.name
        for each in TABLE.by_name.values()
        if each.ebs and each.ebs.baseline_mb_per_s < each.ebs.maximum_mb_per_s
    ]
    assert len(bursting) == 543
    assert {"m5.large", "t3.medium"} <= set(bursting)
    assert "m5.4xlarge" not in bursting


def test_unknown_limits_are_no_limits():
    t2 = TABLE.find("t2.micro")
    assert t2.ebs is None
    assert instances.path(t2).ceilings == instances.path(t2).buckets == ()
    assert TABLE.find("p3.2xlarge").network_bytes_per_s(is_bursting=True) is None


def test_bytes_and_ios_have_buckets_of_their_own():
    of_bytes, of_ios = instances.path(TABLE.find("m5.large")).buckets
    assert of_bytes.capacity == (593.75 - 81.25) * 10**6 * 1800
    assert (of_ios.baseline_per_s, of_ios.burst_per_s) == (3600, 18_750)
    assert of_ios.capacity == (18_750 - 3600) * 1800
    assert of_ios.credits_per_byte == 1 / (256 * 2**10)
    assert {of_bytes.owner, of_ios.owner} == {LimitedBy.INSTANCE}


def test_small_random_ios_are_limited_by_iops():
    path = instances.path(TABLE.find("m5.large"), io_bytes=16 * 2**10)
    assert path.rate(path.full()).bytes_per_s == 18_750 * 16 * 2**10


def test_a_misspelled_type():
    with pytest.raises(UsageError, match=r"unknown instance type 'm5.larg'") as raised:
        TABLE.find("m5.larg")
    assert raised.value.hint == "did you mean 'm5.large'?"
    assert TABLE.find("M5.LARGE").name == "m5.large"
