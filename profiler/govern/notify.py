# SPDX-License-Identifier: Apache-2.0
"""Reports to systemd: ready, alive, ending (sd_notify(3)). Nothing happens without systemd."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping

_US_PER_S = 10**6


class Notifier:
    """Sends messages to the service manager that started this process.

    The watchdog's interval is `WATCHDOG_USEC`, if it is meant for this process.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._clock_s = clock_s
        self._interval_s: float | None = None
        is_mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environment.get("WATCHDOG_USEC", "")
        if is_mine and usec.isdigit() and int(usec):
            self._interval_s = int(usec) / _US_PER_S / 4
        self._due_s = 0.0

    def ready(self, status: str) -> None:
        """Report that the service has started."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """Report what the service is doing, as `systemctl status` shows it."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """Report that the service is ending."""
        self._send("STOPPING=1")

    def alive(self, *, before_long_work: bool = False) -> None:
        """Report that the service is working, if that is due or long work comes next."""
        if self._interval_s is None:
            return
        if before_long_work or self._clock_s() >= self._due_s:
            self._due_s = self._clock_s() + self._interval_s
            self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        """Send it without waiting; a manager that is gone or busy is no failure."""
        if not self._address.startswith(("/", "@")):
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as connection:
            connection.sendto(message.encode(), address)
