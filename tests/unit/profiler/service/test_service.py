# SPDX-License-Identifier: Apache-2.0
"""The loop: samples, escalation and its failures, a port in use, sentences said once."""

from __future__ import annotations

import errno
import http.client
import socket
import threading

import pytest

from contracts.shared.errors import RequirementError
from profiler.bpf.probes.throttling import Throttled
from profiler.govern.notify import Notifier
from profiler.recording.stopping import Stop
from profiler.service.desk import Desk
from profiler.service.escalation import Escalation
from profiler.service.exporting import Exporters, ListenAddress, resource_of
from profiler.service.service import WatchService
from tests.unit.profiler.service.watching import SECOND_NS, Watched, contract


class Running:
    """A service whose steps are called by the test."""

    def __init__(self, tmp_path, listen=None, escalation=None, of=None, records=None):
        self.watched, self.desk = Watched(tmp_path, of), Desk()
        self.said: list[str] = []
        self.exporters = Exporters(
            self.desk, self.watched.watch.values, "1.0", self.said.append, listen,
            clock_ns=lambda: self.watched.now_ns,
        )  # fmt: skip
        self.service = WatchService(
            self.watched.watch, self.desk, self.exporters, self.said.append, Notifier({}),
            escalation, records, clock_ns=lambda: self.watched.now_ns,
        )  # fmt: skip

    def step(self, planned_ns=0):
        """Let a second pass, with so much throttling."""
        self.watched.now_ns += SECOND_NS
        now = self.watched.stalls.counted.planned_ns
        self.watched.stalls.counted = Throttled(planned_ns=now + planned_ns)
        self.service.step()


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_stalls_attach_the_probes_for_a_while(tmp_path) -> None:
    running = Running(tmp_path, escalation=Escalation(10 * SECOND_NS), of=contract())
    running.step()
    assert running.watched.sessions == []
    running.step(planned_ns=800_000_000)
    assert running.watched.calls.is_attached
    for _ in range(12):
        running.step()
    assert not running.watched.calls.is_attached
    assert running.said == [
        "writers are throttled: calls are counted for a while",
        "calls are no longer counted",
    ]


def test_probes_that_cannot_be_attached_cost_a_sentence_and_a_try_a_minute(tmp_path) -> None:
    running = Running(tmp_path, escalation=Escalation(90 * SECOND_NS), of=contract())
    calls, tried = running.watched.calls, []
    attach = calls.attach

    def fail(now_ns):
        tried.append(now_ns)
        raise RequirementError("not enough memory", "")

    calls.attach = fail
    running.step()
    for _ in range(60):
        running.step(planned_ns=800_000_000)
    assert running.said == ["calls cannot be counted: not enough memory"]
    assert running.watched.values()["writewise_up",] == 0
    assert len(tried) == 1
    calls.attach = attach
    running.step(planned_ns=800_000_000)
    assert calls.is_attached
    assert running.watched.values()["writewise_up",] == 1


def test_a_host_without_room_for_the_compiler_costs_a_sentence(tmp_path, monkeypatch) -> None:
    """A full disk is what a watch should see, not what ends it: `tempfile` raises an OSError."""
    running = Running(tmp_path, escalation=Escalation(90 * SECOND_NS), of=contract())

    def fail(now_ns):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(running.watched.calls, "attach", fail)
    running.step()
    for _ in range(3):
        running.step(planned_ns=800_000_000)
    [said] = running.said
    assert said == "calls cannot be counted: No usable temporary directory found in ['/tmp']"
    assert running.watched.values()["writewise_up",] == 0


def test_calls_that_are_no_longer_wanted_are_no_failure(tmp_path) -> None:
    running = Running(tmp_path, escalation=Escalation(5 * SECOND_NS), of=contract())

    def fail(now_ns):
        raise RequirementError("not enough memory", "")

    running.watched.calls.attach = fail
    running.step()
    running.step(planned_ns=800_000_000)
    assert running.watched.values()["writewise_up",] == 0
    for _ in range(6):
        running.step()
    assert running.watched.values()["writewise_up",] == 1


def test_a_port_in_use_is_a_sentence_and_opened_later(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = ListenAddress("127.0.0.1", listener.getsockname()[1])
        running = Running(tmp_path, address)
        running.exporters.start()
        for _ in range(30):
            running.step()
        assert len(running.said) == 1
        assert f"cannot listen on {address}: Address already in use" in running.said[0]
        assert "measuring continues" in running.said[0]
    for _ in range(11):
        running.step()
    assert running.said[1:] == [f"listening on {address} now"]
    assert running.exporters.port == address.port
    running.exporters.close()


def test_each_host_is_an_instance_of_its_own() -> None:
    """Prometheus makes the labels job and instance of these two, and no others of a resource."""
    one, other = (resource_of("1.0", node) for node in ("a", "b"))
    assert (one["service.name"], one["service.instance.id"]) == ("writewise", "a")
    assert one["service.instance.id"] != other["service.instance.id"]


def test_a_scrape_is_answered_by_the_loop_until_it_is_stopped(tmp_path, free_port) -> None:
    running = Running(tmp_path, ListenAddress("127.0.0.1", free_port))
    running.exporters.start()
    stop, answers = Stop(), []

    def scrape():
        connection = http.client.HTTPConnection("127.0.0.1", free_port, timeout=10)
        connection.request("GET", "/metrics")
        answers.append(connection.getresponse().read().decode())
        stop.set()

    thread = threading.Thread(target=scrape)
    thread.start()
    running.service.run(stop)
    thread.join()
    running.exporters.close()
    assert "\nwritewise_up 1.0\n" in answers[0]


def test_each_sample_is_given_to_the_records_of_days(tmp_path) -> None:
    samples = []

    class Records:
        def add(self, sample):
            samples.append(sample)

    running = Running(tmp_path, records=Records())
    for _ in range(3):
        running.step(planned_ns=200_000_000)
    assert [each.at_ns // SECOND_NS for each in samples] == [1, 2, 3]
    assert samples[-1].throttled.planned_ns == 600_000_000
