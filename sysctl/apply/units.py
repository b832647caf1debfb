# SPDX-License-Identifier: Apache-2.0
"""The units of systemd that Writewise uses: a trial period's timer, and the recovery at boot.

Sources: systemd-run(1), systemd.service(5), systemd.unit(5). Arguments are lists and units are
plain text; no shell is involved.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from contracts.shared.text import quoted
from contracts.shared.trust import walk
from sysctl.host.applied_host import REVERT_UNIT
from sysctl.host.host import STATE_DIRECTORY, state_directory
from sysctl.host.system import HostError, System, host_errors

RECOVERY_UNIT = "writewise-recover.service"
RECOVERY_PATH = f"/etc/systemd/system/{RECOVERY_UNIT}"
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+,=-]+")
#: Characters that systemd refuses in a program's path (`string_is_safe()`) or would substitute.
_REFUSED = set("\"'\\$")


def require_start_by_systemd(system: System, what: str) -> None:
    """Check that systemd runs this host and may start this program as root.

    Raises HostError, and UntrustedError if others could change the program.
    """
    if not system.is_run_by_systemd():
        raise HostError(
            f"{what} needs systemd, which does not run this host",
            "omit the option, and undo the change with `writewise rollback`",
        )
    for path in (program()[0], sys.executable, __file__):
        with host_errors(f"use {path}"):
            os.close(walk(path, trust_all=False))


def program() -> tuple[str, ...]:
    """Return the command that starts this Writewise again, from any directory."""
    script = Path(sys.executable).with_name("writewise")
    if script.is_file():
        return (str(script),)
    return (sys.executable, "-I", "-m", "profiler.cli.main")


def revert_argv(seconds: int, words: Sequence[str]) -> list[str]:
    """Return the command that runs `writewise rollback --trial` after `seconds`.

    If the rollback fails (a sweep holds the lock), it is repeated every minute. It does nothing if
    another `apply` has ended the trial period.
    """
    is_elsewhere = bool(os.environ.get("WRITEWISE_STATE_DIRECTORY"))  # may be a relative path
    return [
        "systemd-run",
        f"--unit={REVERT_UNIT}",
        "--description=End of a trial period of writewise",
        f"--on-active={seconds}s",
        "--timer-property=AccuracySec=1s",
        "--property=Restart=on-failure",
        "--property=RestartSec=60s",
        "--property=StartLimitIntervalSec=0",
        "--collect",
        *([f"--setenv=WRITEWISE_STATE_DIRECTORY={state_directory()}"] if is_elsewhere else []),
        "--",
        *words,
        "rollback",
        "--trial",
    ]


def recovery_unit(words: Sequence[str]) -> str:
    """Return the unit that reverts at boot what a killed run left; applied changes stay."""
    command = quoted_words(*words, "rollback", "--interrupted")
    return f"""# Written by writewise.
# To undo: systemctl disable {RECOVERY_UNIT} && rm {RECOVERY_PATH}
[Unit]
Description=Revert what a killed writewise left on this host
After=local-fs.target
RequiresMountsFor={STATE_DIRECTORY}
ConditionPathExistsGlob={STATE_DIRECTORY}/*.journal

[Service]
Type=oneshot
ExecStart={command}

[Install]
WantedBy=multi-user.target
"""


def quoted_words(*words: object) -> str:
    """Return words for ExecStart= and lists of paths.

    Raises HostError for a word that a unit cannot contain.
    """
    return " ".join(_quoted_word(str(word)) for word in words)


def _quoted_word(word: str) -> str:
    if not word.isprintable() or _REFUSED & set(word):
        raise HostError(
            f"{quoted(word)} has characters that a systemd unit cannot contain",
            "use a path or a name without quotes, backslashes, $ and control characters",
        )
    return word if _PLAIN.fullmatch(word) else '"' + word.replace("%", "%%") + '"'
