# SPDX-License-Identifier: Apache-2.0
"""A service of systemd in the guest: installed as `--print-unit` prints it, and what is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.guests.inside.volumes import run
from tests.root.labs import writewise


def install(unit: str, *words: object) -> None:
    """Install the unit that a command prints with `--print-unit`, and enable it."""
    printed = writewise(*words, "--print-unit")
    assert printed.returncode == 0, printed.stderr
    install_text(unit, printed.stdout)


def install_text(unit: str, text: str) -> None:
    """Install a unit with that text, and enable it."""
    _path(unit).write_text(text)
    run("systemctl", "daemon-reload")
    run("systemctl", "enable", unit)


def remove(unit: str) -> None:
    """Stop, disable and delete the unit."""
    run("systemctl", "disable", "--now", unit, check=False)
    _path(unit).unlink(missing_ok=True)
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", unit, check=False)


@contextlib.contextmanager
def started(unit: str, *words: object) -> Iterator[None]:
    """Start the service and wait until it is ready; remove it at the end."""
    try:
        install(unit, *words)
        run("systemctl", "start", unit)
        yield
    finally:
        remove(unit)


def shown(unit: str, name: str) -> str:
    """Return a property of the service, as `systemctl show` prints it."""
    return run("systemctl", "show", "--value", "--property", name, unit).strip()


def said(unit: str) -> str:
    """Return the last lines in the journal of the service."""
    run("journalctl", "--sync")
    return run("journalctl", "--no-pager", "--output=cat", "--lines=25", "--unit", unit)


def _path(unit: str) -> Path:
    return Path("/etc/systemd/system") / unit
