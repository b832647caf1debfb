# SPDX-License-Identifier: Apache-2.0
"""The lab's S3 server can be reached only from this host."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from profiler.lab.s3_server import S3Server

LOOPBACK = "0100007F"  # 127.0.0.1 in /proc/net/tcp, as a little-endian number
LISTENING = "0A"


def sockets_of(pid: int) -> set[str]:
    links = Path(f"/proc/{pid}/fd").iterdir()
    names = (os.readlink(link) for link in links)
    return {name[len("socket:[") : -1] for name in names if name.startswith("socket:[")}


def addresses(table: str, inodes: set[str]) -> list[tuple[str, ...]]:
    rows = [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return [tuple(row[1].split(":")) for row in rows if row[9] in inodes and row[3] == LISTENING]


def test_the_server_listens_only_on_127_0_0_1(tmp_path: Path) -> None:
    with S3Server(tmp_path, worker_processes=1) as server:
        port = int(server.endpoint_url.rpartition(":")[2])
        inodes = sockets_of(server.pid)
        assert addresses("tcp", inodes) == [(LOOPBACK, f"{port:04X}")]
        assert addresses("tcp6", inodes) == []
        for address in other_addresses():
            with socket.socket() as client, pytest.raises(OSError):
                client.settimeout(1)
                client.connect((address, port))


def other_addresses() -> set[str]:
    """Return this host's outside addresses, and a loopback address without a listener."""
    found = {"127.0.0.2"}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # sends nothing; shows which of our addresses would be used
            found.add(probe.getsockname()[0])
        except OSError:
            pass
    return found - {"127.0.0.1"}
