# SPDX-License-Identifier: Apache-2.0
"""The unit of systemd that runs `writewise govern` as a service (systemd.service(5)).

It has no option that needs a mount namespace of its own: a copy of a volume's mount would keep the
volume busy after it is unmounted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from sysctl.apply.units import quoted_words

UNIT = "writewise-govern.service"
_RECOVERY = """
# After any end, SIGKILL included: restores what a killed governor had raised.
ExecStopPost="""
_ROLLBACK = ("rollback", "--interrupted")


def governor_unit(
    program: Sequence[str], options: Sequence[str], destinations: Sequence[PurePath]
) -> str:
    """Return the unit for absolute destinations.

    That of a dry run changes nothing at its end either. Raises HostError for a path that a unit
    cannot contain.
    """
    command = quoted_words(*program, "govern", *options, "--", *destinations)
    recovery = "" if "--dry-run" in options else _RECOVERY + quoted_words(*program, *_ROLLBACK)
    return f"""# Printed by writewise govern --print-unit.
# To install: save it as /etc/systemd/system/{UNIT}, then
# systemctl daemon-reload && systemctl enable --now {UNIT}
[Unit]
Description=Raise the dirty thresholds while a burst is written
RequiresMountsFor={quoted_words(*destinations)}
# What these set at boot is the host's own, not a change by another program.
After=systemd-sysctl.service tuned.service saptune.service
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}{recovery}
# Again if another command holds the host. Not after wrong options (2), without a requirement (3),
# or when another program set the same sysctls (5).
Restart=on-failure
RestartPreventExitStatus=2 3 5
RestartSec=5
# A governor that hangs is killed; 3 s, a second of recovery, and the host is at rest.
WatchdogSec=3
WatchdogSignal=SIGKILL
TimeoutStopSec=10
OOMScoreAdjust=-900
Nice=-5
# Mounting debugfs needs CAP_SYS_ADMIN, once; then the governor drops it.
# Reading what other users' processes wrote (/proc/PID/io) needs CAP_SYS_PTRACE.
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_READ_SEARCH CAP_SYS_PTRACE
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
IPAddressDeny=any
UMask=0077

[Install]
WantedBy=multi-user.target
"""
