# SPDX-License-Identifier: Apache-2.0
"""The monthly prices of volumes, from a dated table or from a user's file of the same form.

volumes:
  gp3: {gib_month: 0.08, iops_month: 0.005, mib_per_s_month: 0.04}
  st1: {gib_month: 0.045}
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from contracts.shared.errors import InvalidFileError
from contracts.shared.files import FileKind
from contracts.shared.text import printable, quoted, suggestion
from sysctl.volume import volume_types
from sysctl.volume.volume_types import DATA, EbsVolume

#: The region of the table that is part of Writewise.
REGION = "us-east-1"
_GIB, _IOPS, _MIB_PER_S = "gib_month", "iops_month", "mib_per_s_month"
#: io2's price of an IOPS falls above these numbers of them.
_IO2_TIERS = {0: _IOPS, 32_000: "iops_month_above_32000", 64_000: "iops_month_above_64000"}
_UNVERIFIED_TIERS = "io2 above 32,000 IOPS"
_HEAD_KEYS = ("as_of", "region", "sources", "unverified", "volumes")
#: The prices that each type needs.
_NEEDED = {
    "gp2": (_GIB,),
    "gp3": (_GIB, _IOPS, _MIB_PER_S),
    "io1": (_GIB, _IOPS),
    "io2": (_GIB, _IOPS),
    "st1": (_GIB,),
    "sc1": (_GIB,),
}
_OPTIONAL = {"io2": tuple(_IO2_TIERS.values())[1:]}
_FILE = FileKind("prices", 2**20, "see docs/how-to/plan.md for its form")


@dataclass(frozen=True)
class Prices:
    """Prices in USD per month by type and unit. `origin` has their source and date."""

    origin: str
    by_type: Mapping[str, Mapping[str, float]]
    unverified: tuple[str, ...] = ()

    def gaps(self) -> tuple[str, ...]:
        """Return the missing prices in words: `gp2`, `gp3 iops_month`."""
        return tuple(self._gaps())

    def _gaps(self) -> Iterator[str]:
        for name, needed in _NEEDED.items():
            missing = [unit for unit in needed if unit not in self.by_type.get(name, {})]
            if missing == list(needed):
                yield name
            else:
                yield from (f"{name} {unit}" for unit in missing)

    def monthly_usd(self, volume: EbsVolume) -> float | None:
        """Return a checked volume's monthly price; None if the size or a price is missing."""
        rates = self.by_type.get(volume.type, {})
        if volume.size_gib is None or _GIB not in rates:
            return None
        total = volume.size_gib * rates[_GIB]
        for cost in (_iops_usd(volume, rates), _throughput_usd(volume, rates)):
            if cost is None:
                return None
            total += cost
        return total

    def is_unverified(self, volume: EbsVolume) -> bool:
        """Return whether the price of this volume could not be verified."""
        is_above = volume.type == "io2" and (volume.iops or 0) > 32_000
        return volume.type in self.unverified or (is_above and _UNVERIFIED_TIERS in self.unverified)


def _iops_usd(volume: EbsVolume, rates: Mapping[str, float]) -> float | None:
    """Return the price of the IOPS; None if a price is missing."""
    included = int(volume_types.table()["types"][volume.type].get("default_iops", 0))
    iops = max(0, (volume.iops or 0) - included)
    tiers = _IO2_TIERS if volume.type == "io2" else {0: _IOPS}
    total = 0.0
    for first, end in zip(tiers, [*list(tiers)[1:], iops]):
        count = min(iops, max(end, first)) - first
        if count > 0 and tiers[first] not in rates:
            return None
        total += max(0, count) * rates.get(tiers[first], 0.0)
    return total


def _throughput_usd(volume: EbsVolume, rates: Mapping[str, float]) -> float | None:
    """Return the price of the throughput above the included one; None without a price for it."""
    if volume.mib_per_s is None:
        return 0.0
    included = float(volume_types.table()["types"][volume.type]["mib_per_s"][0])
    if volume.mib_per_s <= included:
        return 0.0
    return (volume.mib_per_s - included) * rates[_MIB_PER_S] if _MIB_PER_S in rates else None


@functools.cache
def us_east_1() -> Prices:
    """Return the table that is part of Writewise."""
    document = json.loads((DATA / "prices_us_east_1.json").read_text("utf-8"))
    origin = f"{document['region']}, {document['as_of']}"
    return Prices(origin, document["volumes"], tuple(document["unverified"]))


def load(path: str) -> Prices:
    """Read a price file, YAML or JSON. Raises UsageError, or InvalidFileError with every error."""
    text = _FILE.read_text(path)
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = str(getattr(error, "problem", None) or type(error).__name__)
        raise InvalidFileError(printable(path), [f"invalid YAML or JSON: {words}"]) from None
    problems = list(_problems(document))
    if problems:
        raise InvalidFileError(printable(path), problems)
    return Prices(printable(path), document["volumes"])


def _problems(document: Any) -> Iterator[str]:
    if not isinstance(document, dict) or not isinstance(document.get("volumes"), dict):
        yield "volumes: missing; it maps each volume type to its prices"
        return
    yield from _unknown(document, _HEAD_KEYS, "")
    yield from _unknown(document["volumes"], tuple(_NEEDED), "volumes.")
    for name, rates in document["volumes"].items():
        if name not in _NEEDED:
            continue
        if not isinstance(rates, dict):
            yield f"volumes.{name}: must map units, such as {_GIB}, to prices in USD"
            continue
        yield from _unknown(rates, _NEEDED[name] + _OPTIONAL.get(name, ()), f"volumes.{name}.")
        yield from _wrong_prices(name, rates)


def _wrong_prices(name: str, rates: Mapping[Any, Any]) -> Iterator[str]:
    for unit, price in rates.items():
        is_number = isinstance(price, (int, float)) and not isinstance(price, bool)
        if not is_number or not math.isfinite(price) or price < 0:
            yield f"volumes.{name}.{printable(str(unit))}: invalid price {quoted(str(price))}"


def _unknown(found: Mapping[Any, Any], known: tuple[str, ...], place: str) -> Iterator[str]:
    for key in found:
        if key not in known:
            hint = suggestion(str(key), known) or f"use {', '.join(known)}"
            yield f"{place}{printable(str(key))}: unknown; {hint}"
