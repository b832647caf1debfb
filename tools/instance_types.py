# SPDX-License-Identifier: Apache-2.0
"""Write sysctl/volume/data/instance_types.tsv: `python -m tools.instance_types DATE`.

The source is moto's `ec2/resources/instance_types.json.gz`: the raw answer of
ec2:DescribeInstanceTypes (moto: Apache-2.0, in the extra `test`). DATE is when it was read. What
moto lacks and AWS documents is in `_DOCUMENTED`.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "sysctl" / "volume" / "data" / "instance_types.tsv"
COLUMNS = (
    "type",
    "memory_mib",
    "ebs_baseline_mb_per_s",
    "ebs_maximum_mb_per_s",
    "ebs_baseline_iops",
    "ebs_maximum_iops",
    "network_baseline_gbit_per_s",
    "network_peak_gbit_per_s",
)
#: Amazon EC2 User Guide, ebs-optimized.md (awsdocs/amazon-ec2-user-guide@0147f87, 2021); the
#: network's baseline is not documented.
_DOCUMENTED = {
    "p3.2xlarge": (62464, 218.75, 218.75, 10000, 10000, "", ""),
    "p3.8xlarge": (249856, 875, 875, 40000, 40000, "", ""),
    "p3.16xlarge": (499712, 1750, 1750, 80000, 80000, "", ""),
}


def render(as_of: str) -> str:
    """Return the table."""
    version = importlib.metadata.version("moto")
    rows = {name: _row(entry) for name, entry in _described().items()}
    for name, row in _DOCUMENTED.items():
        rows.setdefault(name, row)
    return "\n".join(
        [
            f"# as of: {as_of}",
            f"# source: ec2:DescribeInstanceTypes, as in moto {version}; p3: EC2 User Guide, 2021",
            "\t".join(COLUMNS),
            *("\t".join([name, *map(_text, rows[name])]) for name in sorted(rows)),
            "",
        ]
    )


def _described() -> dict[str, Any]:
    import moto

    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    types: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return types


def _row(entry: dict[str, Any]) -> tuple[object, ...]:
    return (entry["MemoryInfo"]["SizeInMiB"], *_ebs(entry), *_network(entry))


def _ebs(entry: dict[str, Any]) -> Iterator[object]:
    info = entry.get("EbsInfo", {}).get("EbsOptimizedInfo", {})
    for name in ("ThroughputInMBps", "Iops"):
        for kind in ("Baseline", "Maximum"):
            yield info.get(kind + name, "")


def _network(entry: dict[str, Any]) -> Iterator[object]:
    """Yield the figures of the default card: the one that reaches S3."""
    info = entry["NetworkInfo"]
    card = info["NetworkCards"][info.get("DefaultNetworkCardIndex", 0)]
    yield card.get("BaselineBandwidthInGbps", "")
    yield card.get("PeakBandwidthInGbps", "")


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    TABLE.write_text(render(sys.argv[1]), encoding="utf-8")
