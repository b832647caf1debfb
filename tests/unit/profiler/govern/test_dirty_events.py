# SPDX-License-Identifier: Apache-2.0
"""Events that cannot be had: the governor polls, and nothing stays open."""

from __future__ import annotations

import os
import platform

import pytest

from contracts.shared import libc
from profiler.govern import dirty_events
from profiler.govern.dirty_events import opened_dirty_events
from sysctl.knobs.writeback import Thresholds

AT_REST = Thresholds(2**30, 2**31)


def refused(*arguments: object) -> int:
    raise PermissionError(1, "Operation not permitted")


def a_file(*arguments: object) -> int:
    return os.open("/proc/self/stat", os.O_RDONLY)


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (dirty_events, "open_tracefs", refused),
        (dirty_events, "tracepoint_id", lambda: 2**40),
        (platform, "machine", lambda: "riscv64"),
    ],
)
def test_without_events_there_is_none(monkeypatch, place, name, value) -> None:
    monkeypatch.setattr(place, name, value)
    before = os.listdir("/proc/self/fd")
    with opened_dirty_events(AT_REST) as events:
        assert events is None
    assert os.listdir("/proc/self/fd") == before


def test_an_event_that_takes_no_filter_is_closed(monkeypatch) -> None:
    monkeypatch.setattr(dirty_events, "tracepoint_id", lambda: 1)
    monkeypatch.setattr(libc, "checked_call", a_file)
    before = os.listdir("/proc/self/fd")
    with opened_dirty_events(AT_REST) as events:
        assert events is None
    assert os.listdir("/proc/self/fd") == before
