# SPDX-License-Identifier: Apache-2.0
"""Counts of connections compared with sockets of this process."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.model import CallType, Contract, Measurement, Rule, SizeRange
from profiler.bpf.session import ProfileSession

pytestmark = pytest.mark.side_by_side


@pytest.fixture
def session() -> Iterator[ProfileSession]:
    """Count connects, accepts and both together of this process."""
    types = ((CallType.CONNECT,), (CallType.ACCEPT,), (CallType.CONNECT, CallType.ACCEPT))
    rules = [
        Rule(str(number), "/", call_types, SizeRange(), Measurement.COUNT, 1)
        for number, call_types in enumerate(types)
    ]
    with ProfileSession(Contract(10**9, tuple(rules))) as session:
        session.track(os.getpid())
        yield session


def totals(session: ProfileSession) -> list[tuple[int, int]]:
    """Return each rule's successful and failed calls; check that nothing was lost."""
    snapshot = session.snapshot()
    assert snapshot.losses.total == 0, snapshot.losses
    assert snapshot.in_flight == 0
    return [(stats.count, stats.failed) for stats in snapshot.stats]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_internet(session: ProfileSession, family: int) -> None:
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.socket(family) as listening, socket.socket(family) as client:
        listening.bind((address, 0))
        listening.listen()
        client.setblocking(False)
        assert client.connect_ex(listening.getsockname()) == errno.EINPROGRESS
        listening.accept()[0].close()
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
        assert totals(session) == [(1, 0), (1, 1), (2, 1)]
        unheard = listening.getsockname()
    with socket.socket(family) as client, pytest.raises(ConnectionRefusedError):
        client.connect(unheard)
    assert totals(session) == [(1, 1), (1, 1), (2, 2)]


def test_unix(session: ProfileSession, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(path)
        listening.listen()
        client.connect(path)
        listening.accept()[0].close()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(FileNotFoundError):
        client.connect(f"{path}2")
    assert totals(session) == [(1, 1), (1, 0), (2, 1)]


def test_other_families_and_files_are_no_connections(session: ProfileSession) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as netlink:
        netlink.connect((0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/dev/null") as file:
        assert libc.connect(file.fileno(), None, 0) == -1
        assert ctypes.get_errno() == errno.ENOTSOCK
    assert totals(session) == [(0, 0), (0, 0), (0, 0)]
