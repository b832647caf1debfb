# SPDX-License-Identifier: Apache-2.0
"""An error in a pull is one sentence, and leaves nothing under a final name."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest
from botocore.exceptions import ClientError

from profiler.lab.s3_faults import Fault
from profiler.lab.s3_protocol import S3Error, S3Handler
from profiler.lab.s3_server import S3Server
from profiler.pull import access, first_answer
from profiler.pull.access import S3Access
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError, explain
from profiler.pull.measured import PullMeasurement, measure_pull
from profiler.pull.source import Location, PullPlan, list_plan
from tests.s3 import faults
from tests.s3.conftest import BUCKET, pool_for

SMALL = os.urandom(3 << 20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bucket = tmp_path / BUCKET
    bucket.mkdir()
    (bucket / "small").write_bytes(SMALL)
    return tmp_path


def pull(url: str, destination: Path, plan: PullPlan | None = None) -> PullMeasurement:
    plan = plan or list_plan(S3Access(url), Location(BUCKET, ""))
    with pool_for(url, workers=1) as pool:
        return measure_pull(pool, plan, Destination(destination), None)


def grow(root: Path) -> bytes:
    """Make the object so large that it is fetched in ranges, which have no checksum."""
    content = SMALL * 6
    (root / BUCKET / "small").write_bytes(content)
    return content


def test_a_corrupted_range_is_found_by_the_whole_objects_checksum(
    root: Path, destination: Path
) -> None:
    grow(root)
    with faults.serve(faults.Corrupting, root) as url:
        measured = pull(url, destination)
    assert measured.result.objects == 1  # the client has not noticed
    assert [str(failure.key) for failure in measured.verification.failures] == ["small"]
    assert "its CRC-64/NVME checksum does not match" in measured.failures[0].reason
    assert list(destination.iterdir()) == []


def test_a_corrupted_whole_object_fails(root: Path, destination: Path) -> None:
    with faults.serve(faults.Corrupting, root) as url:
        measured = pull(url, destination)
    assert [failure.reason for failure in measured.failures] == [
        "the object arrived incomplete, also after retries"
    ]
    assert list(destination.iterdir()) == []


def test_a_truncated_body_fails(root: Path, destination: Path) -> None:
    with faults.serve(faults.Truncating, root) as url:
        measured = pull(url, destination)
    assert [failure.reason for failure in measured.failures] == [
        "the object arrived incomplete, also after retries"
    ]
    assert list(destination.iterdir()) == []


def test_a_body_truncated_once_is_fetched_again(root: Path, destination: Path) -> None:
    faults.TruncatingOnce.truncated = False
    with faults.serve(faults.TruncatingOnce, root) as url:
        measured = pull(url, destination)
    assert faults.TruncatingOnce.truncated
    assert measured.failures == ()
    assert (destination / "small").read_bytes() == SMALL


def test_a_503_is_retried(root: Path, destination: Path) -> None:
    with faults.serve(S3Handler, root) as url:
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
    refusing = faults.refusing(503, "SlowDown", times=2)
    with faults.serve(refusing, root) as url:
        measured = pull(url, destination, plan)
    assert refusing.answers_left == []
    assert measured.failures == ()
    assert (destination / "small").read_bytes() == SMALL


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (403, "AccessDenied", "access to bucket test-bucket is denied: it needs s3:ListBucket"),
        (400, "ExpiredToken", "the session token has expired"),
        (403, "InvalidAccessKeyId", "S3 does not know this access key"),
        (403, "SignatureDoesNotMatch", "the secret key does not match the access key"),
        (301, "PermanentRedirect", "bucket test-bucket is in another region"),
        (403, "RequestTimeTooSkewed", "this host's clock is wrong"),
        (503, "SlowDown", r"S3 limits the request rate \(SlowDown\)"),
        (418, "Tea&#x9b;2J", r"S3 answered Tea\\x9b2J \(HTTP 418\) for bucket"),
    ],
)
def test_a_refused_listing_is_one_sentence(
    root: Path, status: int, code: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    handler = faults.refusing(status, code)
    with faults.serve(handler, root) as url, pytest.raises(PullError) as refused:
        list_plan(S3Access(url), Location(BUCKET, ""))
    assert "test-secret-key" not in refused.value.message + refused.value.hint
    refused.match(message)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (301, "PermanentRedirect"),
        (400, "AuthorizationHeaderMalformed"),
        (400, "IllegalLocationConstraintException"),
    ],
)
def test_the_region_that_s3_names_is_in_the_hint(root: Path, status: int, code: str) -> None:
    refusal = Fault("refuse", "*", "LIST", status=status, code=code, region="eu-central-1")
    with (
        S3Server(
            root, first_byte_latency_s=None, rate_bytes_per_s=None, faults=[refusal]
        ) as server,
        pytest.raises(PullError) as refused,
    ):
        list_plan(S3Access(server.endpoint_url), Location(BUCKET, ""))
    assert refused.value.message == "bucket test-bucket is in another region: eu-central-1"
    assert "AWS_DEFAULT_REGION=eu-central-1" in refused.value.hint


def test_a_head_refused_with_400_names_the_region_as_a_second_cause(root: Path) -> None:
    refusal = Fault("refuse", "small", "HEAD", status=400, region="eu-central-1")
    with (
        S3Server(
            root, first_byte_latency_s=None, rate_bytes_per_s=None, faults=[refusal]
        ) as server,
        pytest.raises(ClientError) as refused,
    ):
        S3Access(server.endpoint_url).make_client().head_object(Bucket=BUCKET, Key="small")
    found = explain(refused.value, BUCKET)
    assert "HTTP 400" in found.message
    assert found.hint.startswith("get new credentials")
    assert "--region eu-central-1" in found.hint


def test_a_denied_object_fails_and_the_others_arrive(root: Path, destination: Path) -> None:
    with faults.serve(faults.RefusingObjects, root) as url:
        measured = pull(url, destination)
    assert [(failure.key, failure.reason) for failure in measured.failures] == [
        ("small", "access to the object is denied: it needs s3:GetObject")
    ]
    assert list(destination.iterdir()) == []


def test_an_endpoint_that_goes_away_ends_the_pull(root: Path, destination: Path) -> None:
    with faults.serve(S3Handler, root) as url:
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
    with pytest.raises(PullError) as gone:
        pull(url, destination, plan)
    assert gone.value.message == f"small: the endpoint {url} does not answer"
    assert list(destination.iterdir()) == []


def test_an_object_replaced_before_the_pull_is_not_fetched(root: Path, destination: Path) -> None:
    with faults.serve(S3Handler, root) as url:
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
        (root / BUCKET / "small").write_bytes(os.urandom(len(SMALL)))
        measured = pull(url, destination, plan)
    assert measured.result.objects == 0  # If-Match
    assert [failure.reason for failure in measured.failures] == [
        "the object was replaced while it was pulled"
    ]
    assert list(destination.iterdir()) == []


def test_a_listing_with_another_etag_fails_even_without_content_to_compare(
    root: Path, destination: Path
) -> None:
    (root / BUCKET / "small").write_bytes(b"")
    with faults.serve(S3Handler, root) as url:
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
        other = dataclasses.replace(plan.objects[0], etag="0" * 32)
        measured = pull(url, destination, dataclasses.replace(plan, objects=(other,)))
    assert [failure.reason for failure in measured.failures] == [
        "the object was replaced while it was pulled"
    ]


def test_a_silent_endpoint_is_an_error_after_the_read_timeout(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert access.READ_TIMEOUT_S == 20  # botocore's own is 60
    monkeypatch.setattr(access, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    ended = threading.Event()
    silent = type("SilentHere", (faults.Silent,), {"ended": ended})
    with faults.serve(silent, root) as url:
        started_s = time.monotonic()
        with pytest.raises(PullError) as stalled:
            list_plan(S3Access(url), Location(BUCKET, ""))
        ended.set()
    assert stalled.value.message == f"the endpoint {url} stopped answering"
    assert 0.2 <= time.monotonic() - started_s < 5


LISTING = """<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<IsTruncated>false</IsTruncated><Contents>{}</Contents></ListBucketResult>"""


def test_dates_are_not_parsed(root: Path) -> None:
    entry = '<Key>a</Key><Size>1</Size><ETag>"e"</ETag><LastModified>yesterday</LastModified>'
    handler = type("Page", (faults.NoS3,), {"page": LISTING.format(entry).encode()})
    with faults.serve(handler, root) as url:
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
    assert [remote.key for remote in plan.objects] == ["a"]


@pytest.mark.parametrize(
    "page",
    [
        LISTING.format('<Key>a</Key><ETag>"e"</ETag>'),
        LISTING.format("<Key>a</Key><Size>1</Size>"),
        LISTING.format('<Size>1</Size><ETag>"e"</ETag>'),
        LISTING.format('<Key>a</Key><Size>-1</Size><ETag>"e"</ETag>'),
        LISTING.format('<Key>a</Key><Size>one</Size><ETag>"e"</ETag>'),
    ],
)
def test_an_answer_not_from_s3_is_one_sentence(root: Path, page: str) -> None:
    handler = type("Page", (faults.NoS3,), {"page": page.encode()})
    with faults.serve(handler, root) as url, pytest.raises(PullError) as refused:
        list_plan(S3Access(url), Location(BUCKET, ""))
    assert refused.value.message == "the endpoint does not answer like S3"
    assert "--endpoint-url" in refused.value.hint


XHTML = "<html><head><title>Sign in</title></head><body><p>Sign in</p></body></html>"


@pytest.mark.parametrize("text", [XHTML, "<!doctype html><html><br></html>", "OK"])
def test_a_web_page_is_not_an_empty_listing(root: Path, text: str) -> None:
    with faults.serve(faults.page(200, text), root) as url, pytest.raises(PullError) as refused:
        list_plan(S3Access(url), Location(BUCKET, ""))
    assert refused.value.message == "the endpoint does not answer like S3"
    assert "proxy" in refused.value.hint


@pytest.mark.parametrize("status", [400, 403, 404, 407])
@pytest.mark.parametrize("text", [XHTML, "<!doctype html><br>", ""])
def test_a_proxys_refusal_of_the_listing_is_not_attributed_to_s3(
    root: Path, status: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with faults.serve(faults.page(status, text), root) as url, pytest.raises(PullError) as refused:
        list_plan(S3Access(url), Location(BUCKET, ""))
    expected = f"the endpoint answered HTTP {status} without an S3 error code"
    assert refused.value.message == expected
    assert "--endpoint-url" in refused.value.hint


def test_an_endpoint_that_always_redirects_is_one_sentence(root: Path) -> None:
    with faults.serve(faults.page(301, XHTML), root) as url, pytest.raises(PullError) as refused:
        list_plan(S3Access(url), Location(BUCKET, ""))
    assert refused.value.message == "the endpoint redirects every request (HTTP 301)"


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("content_type", ["text/html", ""])
def test_a_proxys_refusal_of_an_object_is_not_attributed_to_s3(
    root: Path, destination: Path, status: int, content_type: str
) -> None:
    fields = {"page": XHTML.encode(), "status": status, "content_type": content_type}
    handler = type("Page", (faults.PageForObjects,), fields)
    with faults.serve(handler, root) as url:
        measured = pull(url, destination)
    assert [failure.reason for failure in measured.failures] == [
        f"the endpoint answered HTTP {status} without an S3 error code"
    ]


def test_an_endpoint_that_hangs_is_reported_within_10_s(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_answer.FIRST_ANSWER_S <= 8  # boto3 alone would take 61 s
    monkeypatch.setattr(first_answer, "FIRST_ANSWER_S", 0.5)
    ended = threading.Event()
    silent = type("SilentHere", (faults.Silent,), {"ended": ended})
    with faults.serve(silent, root) as url:
        started_s = time.monotonic()
        with pytest.raises(PullError) as hung:
            list_plan(S3Access(url), Location(BUCKET, ""))
        took_s = time.monotonic() - started_s
        ended.set()
    assert hung.value.message == f"the endpoint {url} did not answer within 0 s"
    assert "--endpoint-url" in hung.value.hint
    assert 0.5 <= took_s < 5


def test_a_host_that_accepts_no_connection_is_reported_within_10_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_answer, "FIRST_ANSWER_S", 0.5)
    with socket.socket() as listener, contextlib.ExitStack() as opened:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):  # fill its queue: the kernel drops further connections
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(PullError, match="did not answer within"):
            list_plan(S3Access(url), Location(BUCKET, ""))


def test_a_listing_that_has_begun_may_take_longer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first answer has the limit; this one is a refusal, which boto3 retries."""
    monkeypatch.setattr(first_answer, "FIRST_ANSWER_S", 0.5)

    class Slow(faults.Refusing):
        answers_left: ClassVar = [S3Error(503, "SlowDown")]

        def route(self) -> None:
            if not self.answers_left:
                time.sleep(1.0)
            super().route()

    with faults.serve(Slow, root) as url:
        assert list_plan(S3Access(url), Location(BUCKET, "")).bytes == len(SMALL)
