# SPDX-License-Identifier: Apache-2.0
"""The unit of systemd that runs `writewise watch` as a service (systemd.service(5)).

It has no option that needs a mount namespace of its own, for the reason in `governor_unit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from sysctl.apply.units import quoted_words

UNIT = "writewise-watch.service"


def watch_unit(
    program: Sequence[str],
    options: Sequence[str],
    destinations: Sequence[PurePath],
    *,
    is_local: bool,
) -> str:
    """Return the unit for absolute destinations; if `is_local`, no packet leaves the host.

    Raises HostError for a path that a unit cannot contain.
    """
    command = quoted_words(*program, "watch", *options, "--", *destinations)
    needed = quoted_words("/sys/kernel/tracing", *destinations)
    # A program that is not of a package may be in a home directory that only its user can read.
    reads = "" if program[0].startswith("/usr/") else " CAP_DAC_READ_SEARCH"
    local = "IPAddressDeny=any\nIPAddressAllow=localhost\n" if is_local else ""
    return f"""# Printed by writewise watch --print-unit.
# To install: save it as /etc/systemd/system/{UNIT}, then
# systemctl daemon-reload && systemctl enable --now {UNIT}
[Unit]
Description=Export metrics on write-back and its stalls
# The probes need tracefs, which the service may not mount.
RequiresMountsFor={needed}
# It shows whether probes of calls may attach to functions, which costs less than tracepoints.
Wants=sys-kernel-debug.mount
After=sys-kernel-debug.mount
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
Restart=on-failure
RestartSec=30
WatchdogSec=180
TimeoutStartSec=120
TimeoutStopSec=20
Nice=5
# The compiler of the probes takes 200 MiB for two seconds.
MemoryMax=512M
# Loading probes, and the counters of EBS volumes, need CAP_SYS_ADMIN.
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_BPF CAP_PERFMON{reads}
# Before Linux 5.11 BPF maps count as locked memory.
LimitMEMLOCK=infinity
NoNewPrivileges=yes
{local}RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
# For the counters of EBS volumes.
DevicePolicy=closed
DeviceAllow=block-blkext r
ProtectClock=yes
ProtectHostname=yes
SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @resources @swap
SystemCallErrorNumber=EPERM
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
"""
