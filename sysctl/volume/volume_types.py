# SPDX-License-Identifier: Apache-2.0
"""The EBS volume types: their possible size, IOPS and throughput, and what they deliver.

The figures are in `data/volume_types.json`, with their sources and date. A value above a maximum
is a warning, since AWS raises maxima; a value below a minimum or beyond a ratio is an error.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted, suggestion
from sysctl.volume.limits import GIB, MIB, Bucket, Ceiling, DataPath, LimitedBy

DATA = Path(__file__).parent / "data"
#: The largest I/O that counts as one (Amazon EC2 User Guide, "I/O characteristics"). Sequential
#: ones are merged up to it, larger ones are split.
SSD_IO_BYTES, HDD_IO_BYTES = 256 * 2**10, 2**20
#: HDD volumes deliver 90 % of their burst rate 99 % of the time (hdd-vols.md).
HDD_MARGIN = 0.9
_GIB_PER_TIB = 1024
#: io1: 500 MiB/s up to this many IOPS, then 16 KiB for each; below 2,000 IOPS 256 KiB for each.
_IO1_FLAT_IOPS, _IO1_FLAT_BYTES_PER_S, _IO1_MAX_BYTES_PER_S = 32_000, 500 * MIB, 1000 * MIB
#: io2 Block Express: 0.256 MiB/s for each, up to 4,000 MiB/s.
_IO2_BYTES_PER_IOPS, _IO2_MAX_BYTES_PER_S = 0.256 * MIB, 4000 * MIB


@dataclass(frozen=True)
class EbsVolume:
    """A volume to plan for. `iops` and `bytes_per_s` are None if the type does not offer a choice.

    `size_gib` is None if it is unknown and only affects the price.
    """

    type: str
    size_gib: int | None = None
    iops: int | None = None
    mib_per_s: float | None = None


@dataclass(frozen=True)
class Checked:
    """A volume with its defaults filled in, and the warnings about it."""

    volume: EbsVolume
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@functools.cache
def table() -> Mapping[str, Any]:
    """Return the table of volume types, with its date and sources."""
    document: Mapping[str, Any] = json.loads((DATA / "volume_types.json").read_text("utf-8"))
    return document


def names() -> tuple[str, ...]:
    """Return the names of all types."""
    return tuple(table()["types"])


def is_hdd(volume: EbsVolume) -> bool:
    """Return whether the volume is of a type with credits in bytes."""
    return bool(table()["types"][volume.type]["model"] == "hdd")


def maximum_iops(type_name: str) -> int:
    """Return the table's maximum IOPS for a type whose IOPS can be chosen."""
    return int(table()["types"][type_name]["iops"][1])


def size_range_gib(type_name: str) -> tuple[int, int]:
    """Return the smallest and the largest size of a type."""
    least, most = table()["types"][type_name]["size_gib"]
    return least, most


def least_size_gib(type_name: str, iops: int) -> int:
    """Return the smallest size that can have that many IOPS; any size has the type's default."""
    entry = table()["types"][type_name]
    least = int(entry["size_gib"][0])
    if iops <= entry.get("default_iops", 0):
        return least
    return max(least, -(-iops // int(entry["iops_per_gib"])))


def check(volume: EbsVolume, *, exists: bool = False) -> Checked:
    """Fill in defaults. Raises UsageError for a volume that AWS would refuse.

    For a volume that `exists` the table is what is wrong, which is a warning.
    """
    if volume.type not in names():
        hint = suggestion(volume.type, names()) or f"types are {', '.join(names())}"
        raise UsageError(f"unknown volume type {quoted(volume.type)}", hint)
    entry = table()["types"][volume.type]
    warnings = list(_check_size(volume, entry, exists=exists))
    if entry["model"] != "provisioned":
        _refuse_choices(volume)
        return Checked(volume, tuple(warnings))
    complete, notes = _with_defaults(volume, entry)
    warnings += _check_provisioned(complete, entry, exists=exists)
    return Checked(complete, tuple(warnings), tuple(notes))


def path(volume: EbsVolume, io_bytes: int | None = None) -> DataPath:
    """Return the limits of a checked volume.

    `io_bytes` is the size of random I/Os, which are never merged; None is sequential I/O.
    """
    entry = table()["types"][volume.type]
    if entry["model"] == "hdd":
        return _hdd(volume, entry, io_bytes)
    per_byte = ios_per_byte(SSD_IO_BYTES, io_bytes)
    if entry["model"] == "gp2":
        return _gp2(volume, entry, per_byte)
    rate = min(_provisioned_bytes_per_s(volume), (volume.iops or 0) / per_byte)
    return DataPath((Ceiling(LimitedBy.VOLUME, rate),))


def ios_per_byte(unit_bytes: int, io_bytes: int | None) -> float:
    """Return how many I/Os of at most `unit_bytes` a byte counts as."""
    if io_bytes is None:
        return 1 / unit_bytes
    return -(-io_bytes // unit_bytes) / io_bytes


def _hdd(volume: EbsVolume, entry: Mapping[str, Any], io_bytes: int | None) -> DataPath:
    size_tib = (volume.size_gib or 0) / _GIB_PER_TIB
    baseline = min(entry["mib_per_s_per_tib"] * size_tib, entry["mib_per_s_max"]) * MIB
    burst = min(entry["burst_mib_per_s_per_tib"] * size_tib, entry["burst_mib_per_s_max"]) * MIB
    cost = ios_per_byte(HDD_IO_BYTES, io_bytes) * HDD_IO_BYTES  # a small I/O costs 1 MiB
    if burst <= baseline:
        return DataPath((Ceiling(LimitedBy.VOLUME, baseline / cost),))
    capacity = size_tib * _GIB_PER_TIB * GIB
    return DataPath((), (Bucket(LimitedBy.VOLUME, baseline, burst, capacity, cost),))


def _gp2(volume: EbsVolume, entry: Mapping[str, Any], ios_per_byte: float) -> DataPath:
    size_gib = volume.size_gib or 0
    least, most = entry["iops"]
    iops = max(least, min(most, entry["iops_per_gib"] * size_gib))
    steps = entry["mib_per_s"]
    mib_per_s = next((rate for up_to, rate in steps if size_gib <= up_to), steps[-1][1])
    ceilings = [Ceiling(LimitedBy.VOLUME, mib_per_s * MIB)]
    if iops >= entry["burst_iops"]:
        ceilings.append(Ceiling(LimitedBy.VOLUME, iops / ios_per_byte))
        return DataPath(tuple(ceilings))
    bucket = Bucket(
        LimitedBy.VOLUME, iops, entry["burst_iops"], float(entry["credits"]), ios_per_byte
    )
    return DataPath(tuple(ceilings), (bucket,))


def _provisioned_bytes_per_s(volume: EbsVolume) -> float:
    """Return the chosen throughput, or the one that follows from the volume's IOPS."""
    iops = volume.iops or 0
    if volume.mib_per_s is not None:
        return volume.mib_per_s * MIB
    if volume.type == "io2":
        return min(_IO2_BYTES_PER_IOPS * iops, _IO2_MAX_BYTES_PER_S)
    if iops > _IO1_FLAT_IOPS:
        return min(16 * 2**10 * iops, _IO1_MAX_BYTES_PER_S)
    return min(SSD_IO_BYTES * iops, _IO1_FLAT_BYTES_PER_S)


def _check_size(volume: EbsVolume, entry: Mapping[str, Any], *, exists: bool) -> Iterator[str]:
    """Yield a warning for a size above the table's. Raises UsageError."""
    least, most = entry["size_gib"]
    if volume.size_gib is None:
        if entry["model"] != "provisioned":
            raise UsageError(
                f"the rate of {volume.type} depends on its size, which is unknown",
                "add --volume-size, such as --volume-size 500GiB",
            )
        return
    if volume.size_gib < least:
        yield from _refused(
            f"{volume.type} of {volume.size_gib} GiB is too small",
            f"{volume.type} has at least {least} GiB",
            exists=exists,
        )
    if volume.size_gib > most:
        yield _above(volume.type, f"{volume.size_gib:,} GiB", f"{most:,} GiB")


def _refused(message: str, hint: str, *, exists: bool) -> Iterator[str]:
    """Yield that the table does not allow an existing volume. Raises UsageError for others."""
    if not exists:
        raise UsageError(message, hint)
    yield f"{message} by the table of {table()['as_of']} ({hint}); planned as it is"


def _above(type_name: str, asked: str, most: str) -> str:
    return (
        f"{type_name} with {asked} is above the maximum of {most} in the table of "
        f"{table()['as_of']}; planned as asked"
    )


#: What an option chooses, in words.
_CHOICES = {"--iops": "number of IOPS", "--throughput": "throughput"}


def _refuse_choices(volume: EbsVolume) -> None:
    for flag, value in (("--iops", volume.iops), ("--throughput", volume.mib_per_s)):
        if value is not None:
            raise UsageError(
                f"the {_CHOICES[flag]} of {volume.type} cannot be chosen: it follows from its size",
                f"omit {flag}, or choose --volume-type gp3",
            )


def _with_defaults(volume: EbsVolume, entry: Mapping[str, Any]) -> tuple[EbsVolume, list[str]]:
    if "mib_per_s" not in entry:
        if volume.mib_per_s is not None:
            raise UsageError(
                f"the throughput of {volume.type} cannot be chosen: it follows from the IOPS",
                "omit --throughput, or choose --volume-type gp3",
            )
        if volume.iops is None:
            raise UsageError(
                f"the rate of {volume.type} depends on its IOPS, which are unknown",
                "add --iops, such as --iops 4000",
            )
        return volume, []
    notes = []
    mib_per_s = volume.mib_per_s
    if mib_per_s is None:
        mib_per_s = float(entry["mib_per_s"][0])
        notes.append(f"the throughput is not given: {volume.type}'s default, {mib_per_s:g} MiB/s")
    iops = volume.iops
    if iops is None:
        iops = max(entry["default_iops"], -int(-mib_per_s // entry["mib_per_s_per_iops"]))
        if iops > entry["default_iops"]:
            notes.append(f"{mib_per_s:g} MiB/s need {iops:,} IOPS, which are planned and priced")
    return replace(volume, mib_per_s=mib_per_s, iops=iops), notes


def _check_provisioned(
    volume: EbsVolume, entry: Mapping[str, Any], *, exists: bool
) -> Iterator[str]:
    """Yield warnings for figures above a maximum. Raises UsageError for others."""
    figures = [("IOPS", volume.iops or 0, *entry["iops"])]
    if "mib_per_s" in entry:
        figures.append(("MiB/s", volume.mib_per_s or 0, *entry["mib_per_s"]))
    for unit, value, least, most in figures:
        if value < least:
            yield from _refused(
                f"{volume.type} with {value:,g} {unit} is below the minimum",
                f"{volume.type} has at least {least:,} {unit}",
                exists=exists,
            )
        if value > most:
            yield _above(volume.type, f"{value:,g} {unit}", f"{most:,} {unit}")
    yield from _check_ratios(volume, entry, exists=exists)


def _check_ratios(volume: EbsVolume, entry: Mapping[str, Any], *, exists: bool) -> Iterator[str]:
    iops, per_gib = volume.iops or 0, entry["iops_per_gib"]
    if volume.size_gib is not None and volume.size_gib < least_size_gib(volume.type, iops):
        yield from _refused(
            f"{volume.type} of {volume.size_gib} GiB cannot have {iops:,} IOPS",
            f"at {per_gib:,} IOPS per GiB it has at most {per_gib * volume.size_gib:,}; "
            f"{iops:,} IOPS need {least_size_gib(volume.type, iops)} GiB",
            exists=exists,
        )
    per_iops = entry.get("mib_per_s_per_iops")
    if per_iops and (volume.mib_per_s or 0) > per_iops * iops:
        yield from _refused(
            f"{volume.type} with {iops:,} IOPS cannot have {volume.mib_per_s:g} MiB/s",
            f"it has at most {per_iops:g} MiB/s per IOPS: {per_iops * iops:g} MiB/s",
            exists=exists,
        )
