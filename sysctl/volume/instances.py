# SPDX-License-Identifier: Apache-2.0
"""The EBS and network limits of EC2 instance types.

`data/instance_types.tsv` is written by `python -m tools.instance_types`; its first lines name the
source and the date. AWS gives MB/s, which are decimal, for EBS, and Gbit/s for the network.

An instance with a lower baseline than maximum can hold the maximum "for 30 minutes at least once
every 24 hours" (Amazon EC2 User Guide, ebs-optimized.md). The size of its buckets, one of bytes
and one of I/Os, is not published: (maximum - baseline) x 30 minutes is inferred from that.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted, suggestion
from sysctl.volume.limits import Bucket, Ceiling, DataPath, LimitedBy
from sysctl.volume.volume_types import DATA, SSD_IO_BYTES, ios_per_byte

MB = 10**6
BURST_S = 1800.0
_BYTES_PER_S_PER_GBIT = 10**9 / 8


@dataclass(frozen=True)
class EbsLimits:
    """An instance's limits for all its volumes together: MB/s (decimal) and IOPS."""

    baseline_mb_per_s: float
    maximum_mb_per_s: float
    baseline_iops: int
    maximum_iops: int


@dataclass(frozen=True)
class Instance:
    """An instance type. None: the source does not have the figure.

    The network's figures are of the default network card.
    """

    name: str
    memory_bytes: int
    ebs: EbsLimits | None
    network_baseline_gbit_per_s: float | None
    network_peak_gbit_per_s: float | None

    def network_bytes_per_s(self, *, is_bursting: bool) -> float | None:
        """Return the network's rate at its peak or its baseline; None if it is unknown."""
        gbit = self.network_peak_gbit_per_s if is_bursting else self.network_baseline_gbit_per_s
        return None if gbit is None else gbit * _BYTES_PER_S_PER_GBIT


@dataclass(frozen=True)
class InstanceTable:
    """All instance types by name, with the date and the source of the figures."""

    as_of: str
    source: str
    by_name: Mapping[str, Instance]

    def find(self, name: str) -> Instance:
        """Return the type with that name. Raises UsageError with the one that may be meant."""
        found = self.by_name.get(name.lower())
        if found is None:
            hint = suggestion(name, self.by_name) or (
                f"the table of {self.as_of} has {len(self.by_name):,} types; omit "
                "--instance-type to plan without the instance's limits"
            )
            raise UsageError(f"unknown instance type {quoted(name)}", hint)
        return found


@functools.cache
def table() -> InstanceTable:
    """Return the table that is part of Writewise."""
    return read((DATA / "instance_types.tsv").read_text("utf-8"))


def read(text: str) -> InstanceTable:
    """Read a table: `# name: value` lines, a line of column names, a line for each type."""
    lines = text.splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    columns = rows.pop(0)
    instances = (_instance(dict(zip(columns, row))) for row in rows)
    return InstanceTable(head["as of"], head["source"], {each.name: each for each in instances})


def _instance(row: Mapping[str, str]) -> Instance:
    has_ebs = row["ebs_baseline_mb_per_s"] != ""
    return Instance(
        name=row["type"],
        memory_bytes=int(row["memory_mib"]) * 2**20,
        ebs=EbsLimits(
            float(row["ebs_baseline_mb_per_s"]),
            float(row["ebs_maximum_mb_per_s"]),
            int(row["ebs_baseline_iops"]),
            int(row["ebs_maximum_iops"]),
        )
        if has_ebs
        else None,
        network_baseline_gbit_per_s=_number(row["network_baseline_gbit_per_s"]),
        network_peak_gbit_per_s=_number(row["network_peak_gbit_per_s"]),
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def path(instance: Instance, io_bytes: int | None = None) -> DataPath:
    """Return the instance's EBS limits: bytes, then I/Os; none if they are unknown."""
    ebs = instance.ebs
    if ebs is None:
        return DataPath(())
    per_byte = ios_per_byte(SSD_IO_BYTES, io_bytes)
    of_bytes = _limit(ebs.baseline_mb_per_s * MB, ebs.maximum_mb_per_s * MB, 1.0)
    return of_bytes + _limit(ebs.baseline_iops, ebs.maximum_iops, per_byte, is_of_ios=True)


def _limit(
    baseline_per_s: float,
    maximum_per_s: float,
    credits_per_byte: float,
    *,
    is_of_ios: bool = False,
) -> DataPath:
    if maximum_per_s <= baseline_per_s:
        return DataPath((Ceiling(LimitedBy.INSTANCE, baseline_per_s / credits_per_byte),))
    capacity = (maximum_per_s - baseline_per_s) * BURST_S
    owner = LimitedBy.INSTANCE
    bucket = Bucket(owner, baseline_per_s, maximum_per_s, capacity, credits_per_byte, is_of_ios)
    return DataPath((), (bucket,))
