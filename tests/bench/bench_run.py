# SPDX-License-Identifier: Apache-2.0
"""A pull under `writewise run --dirty-ratio 80`, next to the same pull at rest, on the lab.

40 objects of 12 MiB, a volume of 62.5 MiB/s, 1 GiB of memory. The pull is a program of its own with
boto3, as jobs have: it returns when its last write has. (`writewise pull` itself waits until all is
durable.) Its time is that of the whole command, with its start: both orders in turn (ABBA). Before
each pull the files of the last are deleted and all is on the device. Run as root, on an idle host:
`python -m tests.bench.bench_run [PAIRS]`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from profiler.lab import lab
from sysctl.evidence.protocol import abba
from sysctl.evidence.statistics import ratio_interval
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import System
from tests.bench.figures import host_line, print_table, rounds_wanted

PAIRS = 5
MIB = 2**20
SPEC = lab.LabSpec(memory_bytes=2**30, volume_bytes=2**31, object_count=40, object_bytes=12 * MIB)
SETTINGS = ("--dirty-ratio", "80")
_SELF = (sys.executable, "-m", "profiler.cli.main")
_PULL = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import boto3
from botocore import UNSIGNED
from botocore.config import Config
url, bucket, prefix, destination = sys.argv[1:]
options = {"endpoint_url": url, "region_name": "us-east-1"}
client = boto3.client("s3", config=Config(signature_version=UNSIGNED), **options)
found = client.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
def fetch(key):
    client.download_file(bucket, key, str(Path(destination, key.replace("/", "-"))))
with ThreadPoolExecutor(8) as threads:
    print(len(list(threads.map(fetch, [each["Key"] for each in found]))))
"""


@dataclass(frozen=True)
class Pulled:
    """A pull: when its command returned; under `run` also when all was durable, and the peak."""

    return_s: float
    durable_s: float | None = None
    peak_bytes: int | None = None


def pull_of(present: lab.Lab) -> list[str]:
    """Return the words of a pull of all objects."""
    place = (present.endpoint_url, lab.BUCKET, lab.PREFIX, present.destination)
    return [sys.executable, "-c", _PULL, *place]


def at_rest(present: lab.Lab) -> Pulled:
    """Pull with the host's own settings."""
    began_s = time.monotonic()
    subprocess.run(pull_of(present), check=True, stdout=subprocess.DEVNULL)
    return Pulled(time.monotonic() - began_s)


def under_run(present: lab.Lab) -> Pulled:
    """Pull under `writewise run`."""
    words = [*_SELF, "run", *SETTINGS, "--json", "--", *pull_of(present)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(done.stdout)
    return Pulled(found["return_s"], found["durable_s"], found["peak_at_risk_bytes"])


def clean(present: lab.Lab) -> None:
    """Delete the files and write back what is dirty."""
    subprocess.run(["sync"], check=True)
    subprocess.run(["find", present.destination, "-mindepth", "1", "-delete"], check=True)
    subprocess.run(["sync"], check=True)


def main() -> None:
    """Measure and print."""
    pairs = rounds_wanted(PAIRS)
    system = System()
    before = read_writeback(system)
    found: dict[str, list[Pulled]] = {"at rest": [], "under run": []}
    with lab.running(SPEC) as present:
        for pair in range(pairs):
            for name, pull in abba([("at rest", at_rest), ("under run", under_run)], pair):
                clean(present)
                found[name].append(pull(present))
                assert read_writeback(system) == before, "the originals are not in force"
        clean(present)
    print_found(found)


def print_found(found: dict[str, list[Pulled]]) -> None:
    """Print every pull and the ratio with its 95 % interval."""
    rest, run = found["at rest"], found["under run"]
    print(host_line("40 x 12 MiB, 62.5 MiB/s, 1 GiB of memory; times of whole commands"))
    rows = [
        [
            str(number),
            *(f"{time_s:.2f}" for time_s in (a.return_s, b.return_s, b.durable_s or 0)),
            *(f"{(b.peak_bytes or 0) / MIB:.0f}", f"{b.return_s / a.return_s:.3f}"),
        ]
        for number, (a, b) in enumerate(zip(rest, run), 1)
    ]
    header = ["Pair", "Return at rest, s", "Return under run, s", "Durable, s", "Peak, MiB"]
    print_table([*header, "Ratio"], rows)
    ratio = ratio_interval([b.return_s / a.return_s for a, b in zip(rest, run)])
    medians = (median(each.return_s for each in side) for side in (rest, run))
    print("median {:.2f} s at rest, {:.2f} s under run;".format(*medians), end=" ")
    print(f"ratio {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], {ratio.count} pairs")


if __name__ == "__main__":
    main()
