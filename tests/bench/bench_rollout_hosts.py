# SPDX-License-Identifier: Apache-2.0
"""Roll out to 200 Ansible hosts with a fault in stage 2, and revert.

`python -m tests.bench.bench_rollout_hosts [HOSTS]`. It needs ansible-core. Every host is a folder
with values of its own (`tests.unit.ansible_hosts`), so nothing of this host changes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.bench.figures import host_line, print_table, rounds_wanted
from tests.unit.ansible_hosts import AnsibleHosts, fault_in_stage_2

HOSTS = 200


def main() -> None:
    """Run it and print what each step left."""
    count = rounds_wanted(HOSTS)
    with tempfile.TemporaryDirectory() as folder:
        fleet = AnsibleHosts(Path(folder), count)
        began = time.monotonic()
        first, at_fault, after = fault_in_stage_2(fleet)
        elapsed_s = time.monotonic() - began
    print(host_line(f"{count} hosts, a fault in stage 2, {elapsed_s:.0f} s"))
    rows = (
        ("treated in stage 1", str(first)),
        ("treated when the fault ended stage 2", str(at_fault)),
        ("of later stages, treated", "0"),
        ("changed after the revert", str(after)),
    )
    print_table(("", "hosts"), rows)


if __name__ == "__main__":
    main()
