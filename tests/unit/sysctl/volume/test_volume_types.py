# SPDX-License-Identifier: Apache-2.0
"""Volumes that AWS refuses are errors, figures above the table are warnings."""

from __future__ import annotations

import re

import botocore.session
import pytest

from contracts.shared.errors import UsageError
from sysctl.volume.limits import MIB
from sysctl.volume.volume_types import EbsVolume, check, path, table


def rate(volume, io_bytes=None):
    limits = path(check(volume).volume, io_bytes)
    return limits.rate(limits.full()).bytes_per_s


@pytest.mark.parametrize(
    ("volume", "message", "hint"),
    [
        (EbsVolume("gp4"), "unknown volume type 'gp4'", "did you mean 'gp3'?"),
        (EbsVolume("st1", 50), "st1 of 50 GiB is too small", "st1 has at least 125 GiB"),
        (
            EbsVolume("st1"),
            "the rate of st1 depends on its size, which is unknown",
            "--volume-size",
        ),
        (EbsVolume("st1", 500, 3000), "IOPS of st1 cannot be chosen", "omit --iops"),
        (EbsVolume("sc1", 500, None, 90.0), "throughput of sc1 cannot be chosen", "--throughput"),
        (EbsVolume("io1", 100), "depends on its IOPS, which are unknown", "add --iops"),
        (EbsVolume("io1", 100, 5001), "io1 of 100 GiB cannot have 5,001 IOPS", "need 101 GiB"),
        (EbsVolume("io2", 10, 10_001), "io2 of 10 GiB cannot have 10,001 IOPS", "need 11 GiB"),
        (EbsVolume("io2", 100, 99), "io2 with 99 IOPS is below the minimum", "at least 100 IOPS"),
        (EbsVolume("io2", 100, 2000, 500.0), "throughput of io2 cannot be chosen", "--throughput"),
        (EbsVolume("gp3", 100, 2999), "gp3 with 2,999 IOPS is below the minimum", "3,000 IOPS"),
        (EbsVolume("gp3", 100, None, 124.0), "gp3 with 124 MiB/s is below", "at least 125 MiB/s"),
        (EbsVolume("gp3", 10, 5001), "gp3 of 10 GiB cannot have 5,001 IOPS", "need 11 GiB"),
        (EbsVolume("gp3", 100, 3000, 751.0), "with 3,000 IOPS cannot have 751 MiB/s", "750 MiB/s"),
    ],
)
def test_refused(volume, message, hint):
    with pytest.raises(UsageError) as raised:
        check(volume)
    assert message in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("volume", "asked"),
    [
        (EbsVolume("gp3", 500, 100_000), "100,000 IOPS"),
        (EbsVolume("gp3", 500, 10_000, 2500.0), "2,500 MiB/s"),
        (EbsVolume("st1", 20_000), "20,000 GiB"),
        (EbsVolume("io2", 1000, 300_000), "300,000 IOPS"),
    ],
)
def test_above_the_table_is_a_warning(volume, asked):
    (warning,) = check(volume).warnings
    assert f"{volume.type} with {asked} is above the maximum of" in warning


@pytest.mark.parametrize(
    "volume",
    [
        EbsVolume("gp3", 1),
        EbsVolume("io2", 11, 11_000),
        EbsVolume("io1", 4, 200),
        EbsVolume("st1", 125),
    ],
)
def test_at_the_edge(volume):
    assert check(volume).warnings == ()


def test_gp3_gets_the_iops_that_its_throughput_needs():
    checked = check(EbsVolume("gp3", 500, None, 2000.0))
    assert checked.volume.iops == 8000
    assert checked.notes == ("2000 MiB/s need 8,000 IOPS, which are planned and priced",)
    assert check(EbsVolume("gp3", 500)).volume == EbsVolume("gp3", 500, 3000, 125.0)


@pytest.mark.parametrize(
    ("volume", "mib_per_s"),
    [
        (EbsVolume("io1", 1000, 1000), 250),
        (EbsVolume("io1", 1000, 2000), 500),
        (EbsVolume("io1", 1000, 32_000), 500),
        (EbsVolume("io1", 2000, 64_000), 1000),
        (EbsVolume("io2", 100, 10_000), 2500),
        (EbsVolume("io2", 100, 64_000), 4000),
        (EbsVolume("gp2", 170), 128),
        (EbsVolume("gp2", 171), 250),
        (EbsVolume("gp2", 16_384), 250),
        (EbsVolume("st1", 16_384), 500),
        (EbsVolume("sc1", 16_384), 250),
    ],
)
def test_sequential_rates(volume, mib_per_s):
    assert rate(volume) == pytest.approx(mib_per_s * MIB)


@pytest.mark.parametrize(
    ("volume", "io_bytes", "mib_per_s"),
    [
        (EbsVolume("gp3", 100), 4096, 3000 * 4096 / MIB),
        (EbsVolume("gp3", 100), MIB, 125),
        (EbsVolume("gp2", 100), 257 * 1024, 128),
        (EbsVolume("st1", 1024), 64 * 1024, 250 / 16),
        (EbsVolume("st1", 1024), MIB, 250),
        (EbsVolume("st1", 1024), MIB + 1, 125),
    ],
)
def test_random_rates(volume, io_bytes, mib_per_s):
    assert rate(volume, io_bytes) == pytest.approx(mib_per_s * MIB, rel=1e-5)


def ranges(member):
    """The ranges of each type that botocore documents for CreateVolume."""
    model = botocore.session.Session().get_service_model("ec2")
    shape = model.operation_model("CreateVolume").input_shape.members[member]
    text = re.sub(r"<[^>]+>", "", shape.documentation)
    pattern = r"\b(\w{3}(?: and \w{3})?): ([\d,]+)(?: \(default\))? - ([\d,]+)"
    for names, least, most in re.findall(pattern, text):
        for name in names.split(" and "):
            yield name, [int(figure.replace(",", "")) for figure in (least, most)]


def test_the_table_is_what_its_source_says():
    named = f"botocore {botocore.__version__},"
    if not any(each.startswith(named) for each in table()["sources"]):
        pytest.skip(f"the table is not from botocore {botocore.__version__}")
    types = table()["types"]
    assert dict(ranges("Size")) == {name: entry["size_gib"] for name, entry in types.items()}
    assert dict(ranges("Iops")) == {name: types[name]["iops"] for name in ("gp3", "io1", "io2")}
