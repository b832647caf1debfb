# SPDX-License-Identifier: Apache-2.0
"""Prices: the table, and user files with missing prices."""

from __future__ import annotations

import pytest

from contracts.shared.errors import InvalidFileError, UsageError
from sysctl.volume.prices import load, us_east_1
from tests.unit.sysctl.volume.pulls import volume


def test_the_table_has_a_date_and_no_gaps():
    prices = us_east_1()
    assert prices.origin == "us-east-1, 2026-08-12"
    assert prices.gaps() == ()


@pytest.mark.parametrize(
    ("of_volume", "usd"),
    [
        (volume("gp3", 100, 4000, 225.0), 8 + 5 + 4),
        (volume("io1", 100, 1000), 12.5 + 65),
        (volume("io2", 100, 40_000), 12.5 + 32_000 * 0.065 + 8000 * 0.0455),
        (
            volume("io2", 100, 70_000),
            12.5 + 32_000 * 0.065 + 32_000 * 0.0455 + 6000 * 0.03185,
        ),
        (volume("gp3"), None),
        (volume("sc1", 1000), 15),
    ],
)
def test_a_month(of_volume, usd):
    assert us_east_1().monthly_usd(of_volume) == (None if usd is None else pytest.approx(usd))


def test_what_could_not_be_verified_is_known():
    prices = us_east_1()
    assert prices.is_unverified(volume("sc1", 500))
    assert prices.is_unverified(volume("io2", 100, 40_000))
    assert not prices.is_unverified(volume("io2", 100, 32_000))
    assert not prices.is_unverified(volume("st1", 500))


@pytest.mark.parametrize(
    "text",
    [
        '{"volumes": {"st1": {"gib_month": 0.05}, "gp3": {"gib_month": 0.1, "iops_month": 0}}}',
        "volumes:\n  st1: {gib_month: 0.05}\n  gp3: {gib_month: 0.1, iops_month: 0}\n",
    ],
)
def test_a_file_with_gaps_names_them(tmp_path, text):
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    prices = load(str(path))
    assert prices.gaps() == ("gp2", "gp3 mib_per_s_month", "io1", "io2", "sc1")
    assert prices.monthly_usd(volume("st1", 200)) == pytest.approx(10)
    assert prices.monthly_usd(volume("gp3", 200)) == pytest.approx(20)  # all it has is included
    assert prices.monthly_usd(volume("gp3", 200, 4000)) == pytest.approx(20)
    assert prices.monthly_usd(volume("gp3", 200, None, 250.0)) is None
    assert prices.monthly_usd(volume("gp2", 200)) is None


def test_every_error_is_reported_at_once(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(
        "volume_prices: 1\nvolumes:\n  gp4: {gib_month: 1}\n  st1: {gib_mont: 1}\n  sc1: 3\n"
        "  gp3: {gib_month: -1, iops_month: true, mib_per_s_month: .nan}\n"
    )
    with pytest.raises(InvalidFileError) as raised:
        load(str(path))
    assert raised.value.problems == (
        "volume_prices: unknown; did you mean 'volumes'?",
        "volumes.gp4: unknown; did you mean 'gp3'?",
        "volumes.st1.gib_mont: unknown; did you mean 'gib_month'?",
        "volumes.sc1: must map units, such as gib_month, to prices in USD",
        "volumes.gp3.gib_month: invalid price '-1'",
        "volumes.gp3.iops_month: invalid price 'True'",
        "volumes.gp3.mib_per_s_month: invalid price 'nan'",
    )


@pytest.mark.parametrize("text", ["- 1\n", "volumes: 3\n", "volumes: [", "a: {", "3", "!!x y"])
def test_what_is_not_a_price_file(tmp_path, text):
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(UsageError):
        load(str(path))
