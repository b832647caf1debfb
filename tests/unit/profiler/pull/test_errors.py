# SPDX-License-Identifier: Apache-2.0
"""What an exception becomes; those that a server can provoke are in tests/s3."""

from __future__ import annotations

import errno

import boto3.session
import pytest
from boto3.exceptions import RetriesExceededError
from botocore import exceptions
from botocore.parsers import ResponseParserError
from s3transfer.exceptions import S3DownloadFailedError

from profiler.pull.errors import explain

SECRET = "AKIASECRET"


def client_error(
    code: str, status: int = 400, operation: str = "GetObject", content_type: str = ""
) -> exceptions.ClientError:
    answer = {
        "Error": {"Code": code, "Message": SECRET},
        "ResponseMetadata": {
            "HTTPStatusCode": status,
            "HTTPHeaders": {"content-type": content_type},
        },
    }
    return exceptions.ClientError(answer, operation)


def head_error(status: int) -> exceptions.ClientError:
    """What botocore raises for a refused HEAD, whose answer has no body."""
    return client_error(str(status), status, "HeadObject")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (exceptions.NoCredentialsError(), "no AWS credentials were found"),
        (
            exceptions.PartialCredentialsError(provider="env", cred_var=SECRET),
            "the AWS credentials are incomplete",
        ),
        (
            exceptions.CredentialRetrievalError(provider="p", error_msg=SECRET),
            "AWS credentials could not be retrieved",
        ),
        (exceptions.UnauthorizedSSOTokenError(), "the SSO session is not valid"),
        (exceptions.SSOTokenLoadError(error_msg=SECRET), "the SSO session is not valid"),
        (
            exceptions.EndpointConnectionError(endpoint_url="http://u:p@h:1/b/k?sig=1"),
            "the endpoint http://h:1 does not answer",
        ),
        (
            exceptions.ProxyConnectionError(proxy_url="http://u:p@proxy:3128", error=SECRET),
            "the proxy http://proxy:3128 does not answer",
        ),
        (
            exceptions.SSLError(endpoint_url="https://h", error=SECRET),
            "the TLS connection to https://h failed",
        ),
        (
            exceptions.ReadTimeoutError(endpoint_url="https://h/x", error=SECRET),
            "the endpoint https://h stopped answering",
        ),
        (client_error("AuthorizationHeaderMalformed"), "bucket bk is in another region"),
        (head_error(301), "bucket bk is in another region"),
        (client_error("TokenRefreshRequired"), "the session token has expired"),
        (
            OSError(errno.ENOSPC, "No space"),
            "writing to the destination failed: No space left on device",
        ),
        (OSError(errno.EIO, "x"), "writing to the destination failed: Input/output error"),
        (OSError(errno.EROFS, "x"), "writing to the destination failed: Read-only file system"),
        (
            RetriesExceededError(OSError(errno.ENOSPC, "x")),
            "writing to the destination failed: No space left on device",
        ),
    ],
)
def test_an_error_for_every_object_has_a_sentence_and_a_hint(
    error: Exception, message: str
) -> None:
    found = explain(error, "bk")
    assert found.message == message
    assert found.hint
    assert not found.concerns_one_object
    assert SECRET not in found.message + found.hint


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (client_error("NoSuchKey", 404), "the object no longer exists"),
        (head_error(404), "the object no longer exists"),
        (client_error("InvalidObjectState", 403), "archived"),
        (head_error(403), "access to the object is denied: it needs s3:GetObject"),
        (client_error("AccessDenied", 403), "access to the object is denied: it needs s3:Get"),
        (
            client_error("AccessDenied", 403, "ListObjectsV2"),
            "access to bucket bk is denied: it needs s3:ListBucket",
        ),
        (client_error("SlowDown", 503), "SlowDown"),
        (client_error("502", 502), "internal error"),
        (client_error("InvalidRequest"), "SSE-C"),
        (client_error("KMS.NotFoundException"), "KMS key cannot be used"),
        (S3DownloadFailedError(SECRET), "arrived incomplete"),
        (
            RetriesExceededError(exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2)),
            "arrived incomplete",
        ),
        (exceptions.FlexibleChecksumError(error_msg=SECRET), "arrived incomplete"),
        (RuntimeError(SECRET), r"the pull failed \(RuntimeError\)"),
    ],
)
def test_an_error_for_one_object_leaves_the_others(error: Exception, message: str) -> None:
    found = explain(error, "bk")
    assert found.concerns_one_object
    assert SECRET not in found.message + found.hint
    with pytest.raises(Exception, match=message):
        raise found.as_error()


@pytest.mark.parametrize(
    "error",
    [
        head_error(400),
        client_error("RequestTimeout"),
        client_error("511", 511),
        exceptions.ReadTimeoutError(endpoint_url="https://h/x", error=SECRET),
        exceptions.ConnectionClosedError(endpoint_url="https://h/x"),
        ResponseParserError(SECRET),
    ],
)
def test_an_error_for_one_object_or_all_is_ambiguous(error: Exception) -> None:
    found = explain(error, "bk")
    assert found.is_ambiguous
    assert not found.concerns_one_object
    assert found.hint
    assert SECRET not in found.message + found.hint


@pytest.mark.parametrize(
    "error",
    [
        *map(client_error, ("ExpiredToken", "InvalidAccessKeyId", "NoSuchBucket")),
        head_error(301),
    ],
)
def test_an_error_known_to_affect_all_is_not_ambiguous(error: Exception) -> None:
    assert not explain(error, "bk").is_ambiguous


@pytest.mark.parametrize(
    "error",
    [
        client_error("404", 404),  # a proxy's page for a GET or a listing
        client_error("403", 403, "ListObjectsV2"),
        client_error("", 404),  # XHTML, which botocore reads as an error without a code
        client_error("404", 404, "HeadObject", "text/html; charset=utf-8"),
    ],
)
def test_an_answer_without_an_s3_error_code_is_not_attributed_to_s3(
    error: exceptions.ClientError,
) -> None:
    found = explain(error, "bk")
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    assert found.message == f"the endpoint answered HTTP {status} without an S3 error code"
    assert "proxy" in found.hint
    assert found.is_ambiguous
    assert not found.concerns_one_object


def test_a_gateways_page_does_not_end_the_pull() -> None:
    found = explain(client_error("503", 503, "ListObjectsV2", "text/html"), "bk")
    assert found.message == "the endpoint answered HTTP 503 without an S3 error code"
    assert found.concerns_one_object


def test_an_endpoint_that_always_redirects_is_one_sentence() -> None:
    found = explain(RecursionError(), "bk")
    assert found.message == "the endpoint redirects every request (HTTP 301)"
    assert "https://" in found.hint


def test_an_unknown_code_is_reported_and_made_printable() -> None:
    found = explain(client_error("New\x1bCode", 418), "b\x07")
    assert found.message == "S3 answered New\\x1bCode (HTTP 418) for bucket b\\x07"


def test_an_error_that_is_its_own_cause_is_explained() -> None:
    error = RuntimeError("of a runtime in C")
    error.__cause__ = error
    assert explain(error).message == "the pull failed (RuntimeError)"


def answer_naming(region: str) -> exceptions.ClientError:
    error = client_error("PermanentRedirect", 301)
    error.response["ResponseMetadata"]["HTTPHeaders"] = {"x-amz-bucket-region": region}
    return error


def test_the_body_names_the_region_where_no_header_does() -> None:
    error = client_error("AuthorizationHeaderMalformed")
    error.response["Error"]["Region"] = "us-gov-east-1"
    assert "AWS_DEFAULT_REGION=us-gov-east-1" in explain(error, "bk").hint


@pytest.mark.parametrize("region", ["", "x;reboot", "eu-west-1 $(id)", "\x1b[2J", "a" * 99 + "-1"])
def test_an_implausible_region_name_is_not_shown(region: str) -> None:
    found = explain(answer_naming(region), "bk")
    assert found.message == "bucket bk is in another region"
    assert found.hint == "pass --region, or set AWS_DEFAULT_REGION or the profile's region"


def test_the_variable_is_the_one_that_boto3_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = explain(exceptions.NoRegionError()).hint
    variable = next(word for word in hint.split() if word.startswith("AWS_"))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "eu-central-1")
    assert boto3.session.Session().region_name == "eu-central-1"
