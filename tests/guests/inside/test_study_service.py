# SPDX-License-Identifier: Apache-2.0
"""A canary as a service of systemd, with the unit of the how-to page and a real PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from sysctl.apply.units import program, quoted_words
from sysctl.fleet.claims import ClaimState
from sysctl.host.sysctls import read_writeback
from tests.guests.inside import services
from tests.guests.inside.services import said, shown
from tests.guests.inside.volumes import run
from tests.postgresql.server import running
from tests.root.joining import HIGH, PRESENT, Studies, throttled_lab
from tests.root.labs import SYSTEM, wait_until
from tests.shared_study_page import NAME, PROGRAM, shown_unit


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    folder = tmp_path_factory.mktemp("studies")
    with running() as server, throttled_lab(folder) as throttled:
        yield Studies(server, throttled, folder)


@contextlib.contextmanager
def installed(words: list[str]) -> Iterator[None]:
    """Start the page's unit with this study, and without the wait before it starts again."""
    destination = words[6]
    command = f"ExecStart={quoted_words(*program(), *words)}"
    text = re.sub(r"^ExecStart=(.*\\\n)*.*$", lambda _: command, shown_unit(), flags=re.MULTILINE)
    text = text.replace(PROGRAM, quoted_words(*program())).replace("RestartSec=60", "RestartSec=1")
    text = text.replace("MountsFor=/data", f"MountsFor={quoted_words(destination)}")
    try:
        services.install_text(NAME, text)
        run("systemctl", "start", NAME)
        yield
    finally:
        services.remove(NAME)


def thresholds() -> dict[str, int]:
    found = read_writeback(SYSTEM)
    return {name: found[name] for name in PRESENT}


def wait_until_it_measures() -> None:
    assert wait_until(lambda: thresholds()["vm.dirty_bytes"] == HIGH, 60), said(NAME)


def test_it_is_killed_starts_again_and_ends_with_its_blocks(studies: Studies) -> None:
    with installed(studies.create("service", "--blocks", "1")):
        wait_until_it_measures()
        begun_s = time.monotonic()
        os.kill(int(shown(NAME, "MainPID")), signal.SIGKILL)
        assert wait_until(lambda: thresholds() == PRESENT, 10), said(NAME)
        print(f"the host was as before {time.monotonic() - begun_s:.1f} s after SIGKILL")
        assert wait_until(lambda: shown(NAME, "ActiveState") == "inactive", 180), said(NAME)
        assert shown(NAME, "Result") == "success", said(NAME)
        assert int(shown(NAME, "NRestarts")) >= 1
        assert "this node has measured all its blocks" in said(NAME)
        assert thresholds() == PRESENT
    states = [record.state for record in studies.records("service")]
    assert sorted(states, key=str) == [ClaimState.LOST, ClaimState.TOLD]


def test_a_stop_restores_the_host_and_is_no_failure(studies: Studies) -> None:
    with installed(studies.create("stopped")):
        wait_until_it_measures()
        run("systemctl", "stop", NAME)
        assert thresholds() == PRESENT
        assert (shown(NAME, "ActiveState"), shown(NAME, "Result")) == ("inactive", "success")
    assert [record.state for record in studies.records("stopped")] == [ClaimState.LOST]
