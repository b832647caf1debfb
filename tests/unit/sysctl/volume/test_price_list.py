# SPDX-License-Identifier: Apache-2.0
"""The prices of a region from the AWS Price List, with answers of its documented form."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from sysctl.volume import prices
from sysctl.volume.volume_types import EbsVolume
from tools.ebs_prices import TYPES, document, products_of

#: us-east-1 on 2022-02-10: volume type, product family, unit, group, USD.
PRODUCTS = [
    ("gp2", "Storage", "GB-Mo", None, "0.1000000000"),
    ("gp3", "Storage", "GB-Mo", None, "0.0800000000"),
    ("gp3", "System Operation", "IOPS-Mo", "EBS IOPS", "0.0050000000"),
    ("gp3", "Provisioned Throughput", "GiBps-mo", "EBS Throughput", "40.9600000000"),
    ("io1", "Storage", "GB-Mo", None, "0.1250000000"),
    ("io1", "System Operation", "IOPS-Mo", "EBS IOPS", "0.0650000000"),
    ("io2", "Storage", "GB-Mo", None, "0.1250000000"),
    ("io2", "System Operation", "IOPS-Mo", "EBS IOPS", "0.0650000000"),
    ("io2", "System Operation", "IOPS-Mo", "EBS IOPS Tier 2", "0.0455000000"),
    ("io2", "System Operation", "IOPS-Mo", "EBS IOPS Tier 3", "0.0318500000"),
    ("st1", "Storage", "GB-Mo", None, "0.0450000000"),
    ("sc1", "Storage", "GB-Mo", None, "0.0150000000"),
]


def product(name: str, family: str, unit: str, group: str | None, usd: str) -> dict[str, Any]:
    attributes = {"volumeApiName": name, **({"group": group} if group else {})}
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    term = {"priceDimensions": {"SKU.TERM.RATE": dimension}}
    return {
        "product": {"productFamily": family, "attributes": attributes},
        "terms": {"OnDemand": {"SKU.TERM": term}},
    }


def test_the_file_has_every_price_and_plan_reads_it(tmp_path) -> None:
    client = boto3.client(
        "pricing", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stubber:
        for name in TYPES:
            found = [product(*each) for each in PRODUCTS if each[0] == name]
            found.append(product(name, "Fee", "Hrs", None, "1"))
            answer = {"PriceList": [json.dumps(each) for each in found]}
            expected = {"ServiceCode": "AmazonEC2", "Filters": ANY}
            stubber.add_response("get_products", answer, expected)
        made = document("us-east-1", products_of(client, "us-east-1"), "2022-02-10")
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(made))
    read, ours = prices.load(str(file)), prices.us_east_1()
    assert list(read.gaps()) == []
    assert read.by_type == ours.by_type
    volume = EbsVolume("io2", size_gib=1000, iops=100_000)
    assert read.monthly_usd(volume) == pytest.approx(
        1000 * 0.125 + 32_000 * 0.065 + 32_000 * 0.0455 + 36_000 * 0.03185
    )


@pytest.mark.parametrize(
    "other",
    [
        ("gp3", "Storage", "GB-Mo", None, "0.09"),  # a second price
        ("gp3", "System Operation", "IOPS-Mo", "EBS IOPS Tier 9", "0.1"),
    ],
)
def test_a_price_that_the_table_cannot_hold_is_an_error(other) -> None:
    with pytest.raises(ValueError, match=r"gp3 has two prices|unknown product"):
        document("us-east-1", [product(*each) for each in (*PRODUCTS, other)], "2022-02-10")
