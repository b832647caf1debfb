"""What systemd does for Writewise: a trial period's timer, and the recovery at boot.

Sources: systemd-run(1), systemd.service(5), systemd.unit(5). Arguments are lists and units are
plain text; nothing goes through a shell.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from contracts.shared.trust import walk
from sysctl.host.applied_host import REVERT_UNIT
from sysctl.host.host import STATE_DIRECTORY, state_directory
from sysctl.host.system import HostError, System, host_errors

RECOVERY_UNIT = "writewise-recover.service"
RECOVERY_PATH = f"/etc/systemd/system/{RECOVERY_UNIT}"
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+,=-]+")
#: What systemd takes in no path of a program (`string_is_safe()`), and what it would substitute.
_REFUSED = set("\"'\\$")


def require_start_by_systemd(system: System, what: str) -> None:
    """Check that systemd runs this host, and may be told to start this program as root.

    Raises HostError, and UntrustedError where others could change what would be started.
    """
    if not system.is_run_by_systemd():
        raise HostError(
            f"{what} needs systemd, which does not run this host",
            "leave the option out, and undo by `writewise rollback`",
        )
    for path in (program()[0], sys.executable, __file__):
        with host_errors(f"use {path}"):
            os.close(walk(path, believe_all=False))


def program() -> tuple[str, ...]:
    """The words that start this Writewise again, whatever the directory."""
    script = Path(sys.executable).with_name("writewise")
    if script.is_file():
        return (str(script),)
    return (sys.executable, "-I", "-m", "profiler.cli.main")


def revert_argv(seconds: int, words: Sequence[str]) -> list[str]:
    """Run `writewise rollback --trial` after so many seconds, whatever becomes of this program.

    Where it fails (a sweep holds the lock), it is tried again every minute. It does nothing once
    the trial period was ended by another `apply`.
    """
    is_elsewhere = bool(os.environ.get("WRITEWISE_STATE_DIRECTORY"))  # may be relative to here
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
    """The unit that takes back at boot what a killed run left; what was applied to stay stays."""
    command = " ".join(_quoted(word) for word in (*words, "rollback", "--interrupted"))
    return f"""# Written by writewise.
# To undo: systemctl disable {RECOVERY_UNIT} && rm {RECOVERY_PATH}
[Unit]
Description=Take back what a killed writewise left on this host
After=local-fs.target
RequiresMountsFor={STATE_DIRECTORY}
ConditionPathExistsGlob={STATE_DIRECTORY}/*.journal

[Service]
Type=oneshot
ExecStart={command}

[Install]
WantedBy=multi-user.target
"""


def _quoted(word: str) -> str:
    """A word of ExecStart=. Raises HostError for one that no unit can hold."""
    if not word.isprintable() or _REFUSED & set(word):
        raise HostError(
            "the path of this program has characters that no unit of systemd can hold",
            "install it in another place, or leave out --install-recovery",
        )
    return word if _PLAIN.fullmatch(word) else '"' + word.replace("%", "%%") + '"'
