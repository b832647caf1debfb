# SPDX-License-Identifier: Apache-2.0
"""Everything on this host that root tests could change, before and after."""

from __future__ import annotations

from pathlib import Path

from tests.root import groups
from tests.root.labs import SYSTEM, caps, processes_with

#: Reading or writing these starts something; they hold no value.
_NO_SETTINGS = ("vm.drop_caches ", "vm.stat_refresh ")
_LISTED = ("etc/sysctl.d/*", "etc/sysctl.d/.*", "etc/systemd/system/*", "tmp/writewise-*")


def whole_host(mark: str) -> dict[str, list[str]]:
    """Return the state by kind, in words. `mark` is an environment variable, `NAME=value`."""
    settings = SYSTEM.run(["sysctl", "--all", "--pattern", "^vm\\."]).splitlines()
    return {
        "sysctls": [line for line in settings if not line.startswith(_NO_SETTINGS)],
        "mounts": sorted(f"{m.target} {m.source} {m.all_options}" for m in SYSTEM.mounts()),
        "loop devices": sorted(SYSTEM.run(["losetup", "--list", "--noheadings"]).splitlines()),
        "mapped devices": sorted(path.name for path in Path("/sys/block").glob("dm-*")),
        "caps": caps(),
        "control groups": sorted(map(str, groups.named("writewise"))),
        "files": sorted(str(path) for name in _LISTED for path in Path("/").glob(name)),
        "state": sorted(str(path) for path in Path("/var/lib/writewise").glob("*")),
        "processes": sorted(processes_with(mark)),
    }


def changes(before: dict[str, list[str]], now: dict[str, list[str]]) -> list[str]:
    """Return in words what was added and what was removed."""
    return [
        f"{kind}: {sign}{each}"
        for kind in before
        for sign, some, others in (("+", now, before), ("-", before, now))
        for each in some[kind]
        if each not in others[kind]
    ]
