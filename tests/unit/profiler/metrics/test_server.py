# SPDX-License-Identifier: Apache-2.0
"""The port for Prometheus: what it answers, and its bounds."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import threading
import time

import pytest

from profiler.metrics.exposition import registry_of, text_of
from profiler.metrics.server import MOST_CONNECTIONS, ExportServer
from tests.unit.profiler.metrics.samples import every_value


@contextlib.contextmanager
def serving(read=every_value, connection_s=5.0, host="127.0.0.1"):
    server = ExportServer((host, 0), registry_of(read), connection_s=connection_s)
    server.start()
    try:
        yield server
    finally:
        server.close()


def get(server, path="/metrics", method="GET", headers=None, host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, server.port, timeout=10)
    connection.request(method, path, headers=headers or {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_a_scrape_has_every_value() -> None:
    with serving() as server:
        response, body = get(server)
        assert response.status == 200
        assert body.decode() == text_of(every_value())
        response, body = get(server, headers={"Accept-Encoding": "gzip"})
        assert gzip.decompress(body).decode() == text_of(every_value())
        open_metrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
        response, body = get(server, headers=open_metrics)
        assert response.getheader("Content-Type").startswith("application/openmetrics-text")
        assert body.endswith(b"# EOF\n")


def test_a_selection_of_names_is_not_an_empty_answer() -> None:
    with serving() as server:
        assert get(server, "/metrics?name[]=writewise_up")[1] == get(server)[1]


def test_each_scrape_reads_anew() -> None:
    reads = []
    with serving(lambda: reads.append(1) or []) as server:
        assert reads == []
        get(server)
        get(server)
    assert len(reads) == 2


def test_other_paths_and_methods() -> None:
    with serving() as server:
        assert get(server, "/")[0].status == 404
        assert get(server, "/metrics/../etc")[0].status == 404
        assert get(server, method="POST")[0].status == 405


def test_values_that_cannot_be_read_are_an_answer_without_a_traceback(capfd) -> None:
    def read():
        raise TimeoutError("the measuring thread is busy")

    with serving(read) as server:
        response, body = get(server)
    assert response.status == 500
    assert body == b"no metrics: the measuring thread is busy\n"
    assert capfd.readouterr() == ("", "")


def test_it_listens_on_that_address_alone() -> None:
    with serving() as server:
        addresses = {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), 0)}
        for address in addresses - {"127.0.0.1", "::1"}:
            with pytest.raises(OSError), socket.create_connection((address, server.port), 1):
                pass
        with pytest.raises(OSError), socket.create_connection(("127.0.0.2", server.port), 1):
            pass


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6() -> None:
    try:
        with serving(host="::1") as server:
            assert get(server, host="::1")[0].status == 200
    except OSError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")


def test_a_port_in_use_is_an_os_error() -> None:
    with serving() as server, pytest.raises(OSError, match="in use"):
        ExportServer(("127.0.0.1", server.port), registry_of(list))


def test_slow_clients_are_cut_and_take_no_more_than_their_places() -> None:
    with serving(connection_s=1.0) as server, contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
            for _ in range(MOST_CONNECTIONS)
        ]
        for each in slow:
            each.send(b"GET /metrics HTTP/1.1\r\nX: ")
        time.sleep(0.3)
        assert get(server)[0].status == 503  # no place is left
        began_s = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began_s < 5:  # a byte now and then is not enough to stay
                slow[0].send(b"a")
                time.sleep(0.1)
        assert time.monotonic() - began_s < 4
        deadline_s = time.monotonic() + 5
        while get(server)[0].status != 200:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


@pytest.mark.parametrize("failing", ["scrape", "timer"])
def test_threads_that_cannot_be_started_cost_no_place(failing, monkeypatch, capfd) -> None:
    start = threading.Thread.start

    def refuse(thread):
        if isinstance(thread, threading.Timer) == (failing == "timer"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with serving() as server:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(MOST_CONNECTIONS + 1):
                with pytest.raises((OSError, http.client.HTTPException)):
                    get(server)
        assert get(server)[0].status == 200
    assert capfd.readouterr() == ("", "")


def test_a_request_that_is_no_http_disturbs_nobody(capfd) -> None:
    with serving() as server:
        for garbage in (b"\x00\xff" * 50 + b"\r\n\r\n", b"GET\r\n\r\n", b"A" * 70_000):
            address = ("127.0.0.1", server.port)
            with contextlib.suppress(OSError), socket.create_connection(address, 10) as connection:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
        assert get(server)[0].status == 200
    assert capfd.readouterr() == ("", "")
