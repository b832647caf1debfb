# SPDX-License-Identifier: Apache-2.0
"""Print the EBS prices of a region for `--prices`: `python -m tools.ebs_prices REGION > FILE`.

The source is the AWS Price List (pricing:GetProducts), which needs credentials and is served in
few regions: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

#: Where the Price List is served.
API_REGION = "us-east-1"
TYPES = ("gp2", "gp3", "io1", "io2", "st1", "sc1")
#: Product family, unit and group of a product; the unit of our table; how many of ours one has.
#: One GiBps (binary) is 1,024 MiB/s.
_UNITS = {
    ("Storage", "GB-Mo", None): ("gib_month", 1),
    ("System Operation", "IOPS-Mo", "EBS IOPS"): ("iops_month", 1),
    ("System Operation", "IOPS-Mo", "EBS IOPS Tier 2"): ("iops_month_above_32000", 1),
    ("System Operation", "IOPS-Mo", "EBS IOPS Tier 3"): ("iops_month_above_64000", 1),
    ("Provisioned Throughput", "GiBps-mo", None): ("mib_per_s_month", 1024),
}


def document(region: str, products: Iterable[Mapping[str, Any]], as_of: str) -> dict[str, Any]:
    """Return the prices file. Raises ValueError for a product that the table does not know."""
    volumes: dict[str, dict[str, float]] = {name: {} for name in TYPES}
    for product in products:
        name, unit, usd = _price(product)
        if volumes[name].setdefault(unit, usd) != usd:
            raise ValueError(f"{name} has two prices for {unit}: {volumes[name][unit]} and {usd}")
    return {
        "as_of": as_of,
        "region": region,
        "sources": [f"AWS Price List, pricing:GetProducts, {as_of}"],
        "unverified": [],
        "volumes": volumes,
    }


def _price(product: Mapping[str, Any]) -> tuple[str, str, float]:
    """Return volume type, unit of our table and price in USD."""
    attributes = product["product"]["attributes"]
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    family, unit = product["product"]["productFamily"], dimension["unit"]
    group = attributes.get("group") if family == "System Operation" else None
    if (family, unit, group) not in _UNITS:
        raise ValueError(f"unknown product: {family}, {unit}, {group}")
    name, count = _UNITS[family, unit, group]
    return attributes["volumeApiName"], name, float(dimension["pricePerUnit"]["USD"]) / count


def products_of(client: Any, region: str) -> Iterator[Mapping[str, Any]]:
    """Yield the products of all volume types in a region."""
    pages = client.get_paginator("get_products")
    families = {family for family, _, _ in _UNITS}
    for name in TYPES:
        wanted = {"regionCode": region, "volumeApiName": name}
        filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in wanted.items()]
        for page in pages.paginate(ServiceCode="AmazonEC2", Filters=filters):
            products = map(json.loads, page["PriceList"])
            yield from (each for each in products if each["product"]["productFamily"] in families)


if __name__ == "__main__":
    import boto3

    found = products_of(boto3.client("pricing", region_name=API_REGION), sys.argv[1])
    today = datetime.now(timezone.utc).date().isoformat()
    print(json.dumps(document(sys.argv[1], found, today), indent=2))
