# SPDX-License-Identifier: Apache-2.0
"""Volumes on the guest's devices, and sweeps onto them from a small S3 server."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from profiler.lab import lab
from sysctl.advice.advise import advise
from sysctl.host.mount_table import mount_at
from sysctl.host.sysctls import dirtyable_bytes
from tests.root.labs import SYSTEM, endpoint_arguments, writewise
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio

NVME = "/dev/nvme0n1"
NVME_SERIAL = "vol0123456789abcdef"
MIB = 2**20
#: An emulated CPU is tens of times slower than a real one.
TIMEOUT_S = 1200


def run(*argv: object, check: bool = True) -> str:
    """Run a command and return its output; a failure shows its output."""
    words = [str(word) for word in argv]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 or not check, f"{words}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def formatted(device: str, target: Path, fstype: str = "xfs") -> Iterator[Path]:
    """Make a file system on a device and mount it."""
    run(f"mkfs.{fstype}", "-q", "-f" if fstype == "xfs" else "-F", device)
    target.mkdir(parents=True, exist_ok=True)
    run("mount", device, target)
    try:
        yield target
    finally:
        while mount_at(SYSTEM.mounts(), str(target)):
            run("umount", target)


def sweep(
    source: lab.Lab, target: Path, output: Path, *options: object
) -> subprocess.CompletedProcess[str]:
    """Sweep a pull onto `target`; eight trials are the fewest that can give an advice."""
    return writewise(
        *("sweep", source.source, target, *endpoint_arguments(source), "--output", output),
        *("--budget", 8, *options),
        timeout=TIMEOUT_S,
    )


def recommended_knobs(
    target: Path,
    knobs: Mapping[str, str],
    present: Mapping[str, str],
    folder: Path,
    **identity: str,
) -> Path:
    """Write a recommendation of only these knobs for the NVMe disk below `target`.

    `identity` replaces the identity of that disk: its device, name, serial and wwid.
    """
    document = change_in(advise(Study().tried(ratio(60), 3.6).results)).to_json()
    document["sysctls"] = []
    document["disk"] = {
        "target": str(target),
        "device": NVME,
        "knobs": [
            {"name": name, "value": value, "present": present[name], "reason": "why"}
            for name, value in knobs.items()
        ],
        **{"name": "nvme0n1", "serial": NVME_SERIAL, "wwid": ""},
        **identity,
    }
    return written(document, folder)


def recommended_sysctls(values: Mapping[str, int], folder: Path) -> Path:
    """Write a recommendation of only these sysctls, measured with this host's memory."""
    document = change_in(advise(Study().tried(ratio(60), 3.6).results)).to_json()
    document["evidence"]["dirtyable_bytes"] = dirtyable_bytes(SYSTEM)
    document["sysctls"] = [
        {"name": name, "value": value, "present": 0, "reason": "why"}
        for name, value in values.items()
    ]
    return written(document, folder)


def written(document: object, folder: Path) -> Path:
    """Write a recommendation file that `apply` trusts: no other user may write it."""
    path = folder / "recommendation.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path
