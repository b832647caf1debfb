# SPDX-License-Identifier: Apache-2.0
"""OTLP: the request, strictly parsed by the official protobuf, and an endpoint of every kind."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from contracts.shared.errors import UsageError
from profiler.metrics import definitions as metrics
from profiler.metrics.definitions import MetricKind
from profiler.metrics.otlp import request_of
from profiler.metrics.otlp_push import OtlpPusher
from profiler.metrics.otlp_settings import VARIABLES, settings_from
from tests.unit.profiler.metrics.samples import BUCKETS, every_value

RESOURCE = {"service.name": "writewise", "host.name": "a"}


def request():
    return request_of(every_value(), RESOURCE, "1.0", start_unix_ns=10**18, now_unix_ns=10**18 + 5)


def test_the_official_protobuf_parses_it_strictly() -> None:
    parsed = json_format.Parse(json.dumps(request()), ExportMetricsServiceRequest())
    [resource] = parsed.resource_metrics
    assert {e.key: e.value.string_value for e in resource.resource.attributes} == RESOURCE
    [scope] = resource.scope_metrics
    assert len(scope.metrics) == len(metrics.OF_A_SERVICE)
    for sent, defined in zip(scope.metrics, metrics.OF_A_SERVICE):
        assert sent.name == defined.name.removesuffix("_total")
        kind = sent.WhichOneof("data")
        data = getattr(sent, kind)
        [point] = data.data_points
        assert (point.start_time_unix_nano, point.time_unix_nano) == (10**18, 10**18 + 5)
        assert [e.key for e in point.attributes] == list(defined.labels)
        if defined.kind is MetricKind.HISTOGRAM:
            assert kind == "histogram"
            assert (point.count, point.sum) == (BUCKETS, 3.0)
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        else:
            expected = {MetricKind.COUNTER: "sum"}.get(defined.kind, "gauge")
            assert kind == expected
            assert point.as_double == (1 if defined.kind is MetricKind.INFO else 1.5)
        if kind != "gauge":
            assert data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        if kind == "sum":
            assert data.is_monotonic


def test_a_wrong_field_would_be_found() -> None:
    wrong = request()
    wrong["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["colour"] = "red"
    with pytest.raises(json_format.ParseError):
        json_format.Parse(json.dumps(wrong), ExportMetricsServiceRequest())


def test_units_are_in_ucum() -> None:
    sent = request()["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    units = {each["name"]: each["unit"] for each in sent}
    assert units["writewise_throttle_seconds"] == "s"
    assert units["writewise_call_bytes"] == units["writewise_dirty_memory_bytes"] == "By"
    assert units["writewise_throttle_pauses"] == ""


def test_a_collector_finds_prometheus_s_names_again() -> None:
    """By the rules of "Prometheus and OpenMetrics Compatibility": units and types are suffixes."""
    suffixes = {"s": "_seconds", "By": "_bytes", "1": "_ratio"}
    found = []
    for sent in request()["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
        name, suffix = sent["name"], suffixes.get(sent["unit"], "")
        if not (suffix == "_ratio" and "gauge" not in sent):
            name = name.removesuffix(suffix) + suffix
        found.append(f"{name}_total" if "sum" in sent else name)
    assert found == [each.name for each in metrics.OF_A_SERVICE]


@pytest.mark.parametrize(
    ("variables", "url", "shown"),
    [
        ({}, None, "http://localhost:4318/v1/metrics"),
        ({}, "http://127.0.0.1:9/base/", "http://127.0.0.1:9/base/v1/metrics"),
        ({"ENDPOINT": "https://o.example"}, None, "https://o.example:443/v1/metrics"),
        ({"METRICS_ENDPOINT": "http://o:8/x?k=s"}, None, "http://o:8/x"),
        ({"METRICS_ENDPOINT": "http://o:8/x"}, "http://[::1]:5", "http://[::1]:5/v1/metrics"),
    ],
)
def test_the_endpoint(variables, url, shown) -> None:
    named = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    assert settings_from(named, url, {}).shown == shown


def test_a_query_of_a_base_stays_behind_the_path() -> None:
    found = settings_from({}, "https://o.example/otlp/?api=s", {})
    assert found.path == "/otlp/v1/metrics?api=s"
    assert found.shown == "https://o.example:443/otlp/v1/metrics"


def test_the_other_variables() -> None:
    found = settings_from(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "a=general",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-key=s%3Decret , y=2",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1500",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.pem",
            "OTEL_METRIC_EXPORT_INTERVAL": "15000",
            "OTEL_RESOURCE_ATTRIBUTES": "host.name=b%2Cc,rack=7",
            "OTEL_SERVICE_NAME": "mine",
        },
        None,
        RESOURCE,
    )
    assert found.headers == {"x-key": "s=ecret", "y": "2"}
    assert (found.timeout_s, found.interval_s, found.is_compressed) == (1.5, 15, True)
    assert found.certificate == "/ca.pem"
    assert found.resource == {"service.name": "mine", "host.name": "b,c", "rack": "7"}
    assert "ecret" not in repr(found)


def test_attributes_with_a_mistake_are_discarded_as_a_whole() -> None:
    variables = {"OTEL_RESOURCE_ATTRIBUTES": "rack=7,oops"}
    assert settings_from(variables, None, RESOURCE).resource == RESOURCE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://:4318"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:99999"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:0"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/a b?key=hunter2"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hunter2@h"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ahunter2: x"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "9999999999999"),
    ],
)
def test_a_wrong_variable_is_refused_and_shows_no_secret(name, value) -> None:
    with pytest.raises(UsageError) as caught:
        settings_from({name: value}, None, {})
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"
    assert name in VARIABLES


@pytest.mark.parametrize(
    "name",
    [
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
        "OTEL_METRIC_EXPORT_INTERVAL",
    ],
)
def test_a_wrong_time_names_its_variable(name) -> None:
    with pytest.raises(UsageError, match=f"invalid time 'abc' in {name}$"):
        settings_from({name: "abc"}, None, {})


class Endpoint:
    """A server that answers with `status` and `body`, and keeps what it got."""

    def __init__(self, status=200, body=b"{}"):
        self.status, self.body = status, body
        self.got: list[tuple] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), content))
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def pusher(self, said, **variables):
        return pusher(self.server.server_port, said, **variables)


def pusher(port, said, **variables):
    named = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    settings = settings_from(named, f"http://127.0.0.1:{port}", RESOURCE)
    return OtlpPusher(settings, request, said.append)


def test_a_push_arrives_whole() -> None:
    said: list[str] = []
    with Endpoint() as endpoint:
        assert endpoint.pusher(said, COMPRESSION="gzip", HEADERS="k=v").push()
    [(path, headers, content)] = endpoint.got
    assert (path, headers["k"], said) == ("/v1/metrics", "v", [])
    assert headers["Content-Type"] == "application/json"
    assert json.loads(gzip.decompress(content)) == request()


def test_a_failure_is_said_once_and_so_is_its_end() -> None:
    said: list[str] = []
    with Endpoint(status=503) as endpoint:
        pushing = endpoint.pusher(said)
        assert [pushing.push(), pushing.push()] == [False, False]
        endpoint.status = 200
        assert [pushing.push(), pushing.push()] == [True, True]
    assert len(said) == 2
    assert "answers with HTTP status 503; measuring continues" in said[0]
    assert said[1].endswith("again")


def test_a_redirection_is_not_followed() -> None:
    said: list[str] = []
    with Endpoint(status=307) as endpoint:
        assert not endpoint.pusher(said).push()
    assert len(endpoint.got) == 1
    assert "status 307" in said[0]


def test_what_is_rejected_is_said() -> None:
    body = {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too\x1b[2J many"}}
    said: list[str] = []
    with Endpoint(body=json.dumps(body).encode()) as endpoint:
        endpoint.pusher(said).push()
    assert "rejects a part of the metrics: 3 data points" in said[0]
    assert "\x1b" not in said[0]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"partialSuccess": ' * 3_000,
        b'{"partialSuccess": {"rejectedDataPoints": 1e999}}',
        b'{"partialSuccess": {"rejectedDataPoints": []}}',
        b'{"partialSuccess": 3}',
        b"\xff",
    ],
    ids=["deep lists", "deep objects", "infinite", "a list", "a number", "binary"],
)
def test_an_answer_in_another_form_does_not_end_the_pushes(body) -> None:
    said: list[str] = []
    with Endpoint(body=body) as endpoint:
        assert endpoint.pusher(said).push()
    assert said == []


def test_an_endpoint_that_refuses_costs_a_sentence() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert not pusher(port, said).push()
    assert "Connection refused; measuring continues" in said[0]


@pytest.mark.parametrize("drip", [False, True], ids=["silent", "byte by byte"])
@pytest.mark.parametrize("resolves_s", [0, 0.6], ids=["", "after a slow name server"])
def test_an_endpoint_that_hangs_costs_its_time_and_a_sentence(
    drip, resolves_s, monkeypatch
) -> None:
    said: list[str] = []
    over = threading.Event()
    resolve = socket.getaddrinfo

    def resolve_slowly(*arguments, **named):
        time.sleep(resolves_s)
        return resolve(*arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_slowly)

    def answer(listener):
        connection, _ = listener.accept()
        with connection:
            while not over.wait(0.05):
                try:
                    if drip:
                        connection.send(b"H")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        end = threading.Timer(6, over.set)
        end.start()
        began_s = time.monotonic()
        assert not pusher(listener.getsockname()[1], said, TIMEOUT="300").push()
        assert time.monotonic() - began_s < 5
        end.cancel()
        over.set()
        thread.join()
    assert "does not answer in time" in said[0]
