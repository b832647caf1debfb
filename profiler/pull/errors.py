# SPDX-License-Identifier: Apache-2.0
"""The errors of a pull, worded for users.

`explain` turns the exceptions of boto3, botocore and the file system into a sentence and a hint. A
sentence quotes an exception's own text only where that is known to be harmless: some of botocore's
contain signed headers or tokens.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from boto3.exceptions import RetriesExceededError
from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError
from s3transfer.exceptions import RetriesExceededError as TransferRetriesExceededError
from s3transfer.exceptions import S3DownloadFailedError, S3ValidationError

from contracts.shared.errors import WritewiseError
from contracts.shared.text import printable
from profiler.pull.permissions import GET, LIST


class PullError(WritewiseError):
    """A pull that cannot start or continue."""


class PullStoppedError(PullError):
    """A pull that exceeded its time limit: its workers keep running, its files were removed."""

    def __init__(self, stop_after_s: float) -> None:
        super().__init__(f"the pull was stopped after {stop_after_s:.1f} s")


@dataclass(frozen=True)
class Explanation:
    """A sentence, what to do next, and whether other objects of the pull may still succeed.

    If they may not, `is_of_destination` is whether the destination itself failed, so that what has
    arrived is not safe either. `is_ambiguous` is whether the error alone does not show how many
    objects it concerns; `profiler.pull.problem_scope` then finds out.
    """

    message: str
    hint: str = ""
    concerns_one_object: bool = False
    is_of_destination: bool = False
    is_ambiguous: bool = False

    def as_error(self) -> PullError:
        """Return the error to raise."""
        return PullError(self.message, self.hint)


_CHECK_ENDPOINT = (
    "check --endpoint-url and AWS_ENDPOINT_URL, and whether a proxy or a login page answers instead"
)
#: For an answer that is not S3's, such as an HTML page.
NOT_S3 = Explanation("the endpoint does not answer like S3", _CHECK_ENDPOINT)

_CREDENTIALS = "check --profile and the credentials (environment, ~/.aws, instance profile)"
_SET_REGION = "pass --region, or set AWS_DEFAULT_REGION or the profile's region"
_RETRY = "pull again; complete files are replaced only by complete copies"
_ALLOW = "allow it in the IAM or bucket policy for these credentials, or use --profile for others"

#: S3's error codes → sentence with {bucket} and {action}, hint. A HEAD's answer has no body: its
#: codes are HTTP status numbers.
_BY_CODE = {
    "NoSuchBucket": (
        "bucket {bucket} does not exist",
        "check its name, and --endpoint-url if S3 is not AWS's",
    ),
    "AccessDenied": ("access to {target} is denied: it needs {action}", _ALLOW),
    "ExpiredToken": ("the session token has expired", "get new credentials and pull again"),
    "InvalidToken": ("the session token is not valid", _CREDENTIALS),
    "InvalidAccessKeyId": ("S3 does not know this access key", _CREDENTIALS),
    "SignatureDoesNotMatch": ("the secret key does not match the access key", _CREDENTIALS),
    "PermanentRedirect": ("bucket {bucket} is in another region", _SET_REGION),
    "RequestTimeTooSkewed": (
        "this host's clock is wrong by more than 15 minutes",
        "set the clock, or start a time service such as chrony",
    ),
    "SlowDown": (
        "S3 limits the request rate (SlowDown)",
        "use fewer workers or a lower max_concurrency, or spread the keys over prefixes",
    ),
    "InternalError": ("S3 reported an internal error for every attempt", _RETRY),
    "400": (
        "S3 refused the request (HTTP 400); expired session tokens cause this",
        "get new credentials and pull again",
    ),
    "NotImplemented": (
        "the endpoint does not support a request that a pull needs",
        "check --endpoint-url",
    ),
}
#: What a refused request asked for, and the IAM action that allows it.
_LISTING = ("bucket {bucket}", LIST.action)
_READING = ("the object", GET.action)
_SAME_AS = {
    "403": "AccessDenied",
    "AllAccessDisabled": "AccessDenied",
    "AccountProblem": "AccessDenied",
    "TokenRefreshRequired": "ExpiredToken",
    "RequestExpired": "ExpiredToken",
    "301": "PermanentRedirect",
    "TemporaryRedirect": "PermanentRedirect",
    "AuthorizationHeaderMalformed": "PermanentRedirect",
    "IllegalLocationConstraintException": "PermanentRedirect",
    "503": "SlowDown",
    "ServiceUnavailable": "SlowDown",
    "RequestLimitExceeded": "SlowDown",
    "500": "InternalError",
    "502": "InternalError",
    "504": "InternalError",
}
_OBJECT_CODES = {
    "NoSuchKey": "the object no longer exists",
    "404": "the object no longer exists",
    "PreconditionFailed": "the object was replaced while it was pulled",
    "412": "the object was replaced while it was pulled",
    "InvalidObjectState": "the object is archived (Glacier) and must be restored first",
    "InvalidRequest": "S3 refused the request; objects with a customer key (SSE-C) cause this",
}
#: The name of a region, such as us-gov-east-1.
_REGION = re.compile(r"[a-z]{2,8}(-[a-z]{1,16}){1,3}-[0-9]{1,2}")
#: S3 passes on KMS's codes (DisabledException, NotFoundException, …) with this prefix.
_KMS = "KMS."
_KMS_HINT = "check the key's state in KMS, and that these credentials have kms:Decrypt on it"
#: These may concern one object (a policy can deny a single key) or one moment: the pull continues.
_CODES_OF_ONE_OBJECT = ("AccessDenied", "SlowDown", "InternalError")
_AMBIGUOUS_CODES = ("400",)


def explain(error: BaseException, bucket: str = "") -> Explanation:
    """Return what `error` means for a pull from `bucket`."""
    if isinstance(error, WritewiseError):
        return Explanation(error.message, error.hint)
    for cause in _chain(error):
        if isinstance(cause, botocore.ClientError):
            return _explain_code(cause, printable(bucket))
        if isinstance(cause, OSError) and not isinstance(cause, _NETWORK_ERRORS) and cause.errno:
            return _explain_os_error(cause)
    known = _explain_kind(error)
    if known is not None:
        return known
    if isinstance(error, _BROKEN_BODY):
        return Explanation("the object arrived incomplete, also after retries", _RETRY, True)
    return Explanation(f"the pull failed ({type(error).__name__})", _RETRY, True)


def explain_configuration(error: BaseException) -> Explanation:
    """Return what `error` means when it was raised while a client was made, before any request."""
    return _explain_kind(error) or Explanation(
        f"the AWS configuration is not usable: {_configuration_detail(error)}",
        "check the AWS_… environment variables and ~/.aws/config",
    )


def silent_endpoint(url: str, waited_s: float) -> Explanation:
    """Return the explanation for an endpoint that has not answered for `waited_s`."""
    return Explanation(
        f"the endpoint {printable(url)} did not answer within {waited_s:.0f} s", _NETWORK
    )


def _explain_kind(error: BaseException) -> Explanation | None:
    """Return the explanation for an exception whose class says enough; None for others."""
    for kind, message, hint in _BY_KIND:
        if isinstance(error, kind):
            sentence = message.format(detail=_harmless_detail(error))
            return Explanation(sentence, hint, is_ambiguous=isinstance(error, _AMBIGUOUS_KINDS))
    return None


def _configuration_detail(error: BaseException) -> str:
    """Return what is wrong, without the value of a setting that may be a secret."""
    text = str(error)
    if isinstance(error, (botocore.InvalidRetryConfigurationError, botocore.InvalidDefaultsMode)):
        return printable(text)[:200]
    if isinstance(error, json.JSONDecodeError):
        return "credential_process did not print valid JSON"
    if isinstance(error, ValueError) and text.startswith("Invalid endpoint"):
        return "AWS_ENDPOINT_URL or endpoint_url is not a valid URL"
    if isinstance(error, ValueError) and "for int()" in text:
        return "a setting such as AWS_MAX_ATTEMPTS must be a number"
    if isinstance(error, OSError) and error.errno:
        return f"a file or program that it names: {os.strerror(error.errno)}"
    return f"botocore cannot read it ({type(error).__name__})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes, each once: an error can be its own cause."""
    seen: list[BaseException] = []
    while error is not None and not any(error is known for known in seen):
        yield error
        seen.append(error)
        last = getattr(error, "last_exception", None)
        if isinstance(error, S3DownloadFailedError):  # s3transfer: If-Match failed between ranges
            last = error.__context__
        error = last if isinstance(last, BaseException) else error.__cause__


def _explain_code(error: botocore.ClientError, bucket: str) -> Explanation:
    code = str(error.response.get("Error", {}).get("Code", ""))
    if not _is_from_s3(error, code):
        return _explain_other_server(error)
    if code in _OBJECT_CODES:
        return Explanation(_OBJECT_CODES[code], "", concerns_one_object=True)
    if code.startswith(_KMS):
        return Explanation(f"its KMS key cannot be used ({printable(code)[:60]})", _KMS_HINT, True)
    known = _SAME_AS.get(code, code)
    if known in _BY_CODE:
        message, hint = _with_region(known, *_BY_CODE[known], _bucket_region(error))
        target, action = _LISTING if error.operation_name in LIST.operations else _READING
        sentence = message.format(bucket=bucket, target=target.format(bucket=bucket), action=action)
        is_ambiguous = known in _AMBIGUOUS_CODES
        return Explanation(sentence, hint, known in _CODES_OF_ONE_OBJECT, is_ambiguous=is_ambiguous)
    return Explanation(
        f"S3 answered {printable(code)[:60]} (HTTP {_status(error)}) for bucket {bucket}",
        "look up this code in the S3 API reference; check the bucket, the region and the endpoint",
        is_ambiguous=True,
    )


def _is_from_s3(error: botocore.ClientError, code: str) -> bool:
    """Return whether S3 itself answered, not a proxy or a web server with a page of its own.

    S3 sends a code in the body of every error, and HEAD's answer has no body; some front ends send
    HTTP 5xx without a code. S3 never sends HTML.
    """
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if str(headers.get("content-type", "")).startswith("text/html"):
        return False
    if not code or code.isdigit():
        is_listing = error.operation_name in LIST.operations
        is_head = error.operation_name.startswith("Head")
        return is_head or (code.startswith("5") and not is_listing)
    return True


def _explain_other_server(error: botocore.ClientError) -> Explanation:
    """Return the explanation for an answer that is not S3's."""
    status = _status(error)
    is_busy = status.startswith("5") and status != "500"  # a gateway's: the next request may pass
    message = f"the endpoint answered HTTP {status} without an S3 error code"
    if status == "500":  # botocore also reports a page with HTTP 200 as 500
        message = NOT_S3.message
    return Explanation(message, _CHECK_ENDPOINT, is_busy, is_ambiguous=not is_busy)


def _status(error: botocore.ClientError) -> str:
    return str(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "?"))


def _with_region(code: str, message: str, hint: str, region: str | None) -> tuple[str, str]:
    """Message and hint with the bucket's region, where the answer names it and it may matter.

    S3 answers a HEAD that is signed for another region by 400 too, without a code.
    """
    if region and code == "PermanentRedirect":
        return f"{message}: {region}", f"pass --region {region}, or set AWS_DEFAULT_REGION={region}"
    if region and code == "400":
        return message, f"{hint}; if the region is wrong, pass --region {region}"
    return message, hint


def _bucket_region(error: botocore.ClientError) -> str | None:
    """Return the region that S3's answer names for the bucket, or None.

    A name that is not plausible counts as none, because the hint asks the user to type it.
    """
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    named = headers.get("x-amz-bucket-region") or error.response.get("Error", {}).get("Region")
    return str(named) if _REGION.fullmatch(str(named or "")) else None


_OS_HINTS = {
    errno.ENOENT: "create the directory, or mount the volume, and pull again",
    errno.ENOTDIR: "pass a directory",
    errno.EACCES: "run as root, or pull to another directory",
    errno.ENOSPC: "free space on the destination, or pull to a larger volume",
    errno.EDQUOT: "raise the quota, or pull to another volume",
    errno.EROFS: "remount the destination for writing; a file system turns read-only after errors",
    errno.EIO: "check the kernel log (dmesg): the volume reports errors",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or lower max_concurrency",
}


def _explain_os_error(error: OSError) -> Explanation:
    reason = os.strerror(error.errno or 0)
    hint = _OS_HINTS.get(error.errno or 0, "check the destination")
    sentence = f"writing to the destination failed: {reason}"
    return Explanation(sentence, hint, is_of_destination=True)


def _harmless_detail(error: BaseException) -> str:
    """Return the endpoint, profile or file that an exception names, without a URL's user or query.

    An exception that names none gives an empty text.
    """
    given = getattr(error, "kwargs", {})
    names = ("endpoint_url", "proxy_url", "profile", "path")
    text = str(next((given[name] for name in names if given.get(name)), ""))
    scheme, separator, rest = text.partition("://")
    if separator:
        text = scheme + separator + rest.partition("/")[0].rpartition("@")[2]
    return printable(text)[:200]


_NETWORK = "check the region, --endpoint-url and the network (route to S3, security group, proxy)"
_NETWORK_ERRORS = (botocore.HTTPClientError, botocore.ConnectionError, ConnectionError)
_BROKEN_BODY = (
    *(RetriesExceededError, TransferRetriesExceededError, S3DownloadFailedError),
    *(S3ValidationError, botocore.IncompleteReadError, botocore.FlexibleChecksumError),
    *(botocore.ChecksumError, botocore.ResponseStreamingError),
)
#: Exceptions → sentence with {detail}, hint; the first that fits counts.
_BY_KIND: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        botocore.NoCredentialsError,
        "no AWS credentials were found",
        "configure them for the user that runs this (root under sudo), pass --profile, or use "
        "--no-sign-request for a public bucket",
    ),
    (botocore.PartialCredentialsError, "the AWS credentials are incomplete", _CREDENTIALS),
    (botocore.CredentialRetrievalError, "AWS credentials could not be retrieved", _CREDENTIALS),
    (botocore.SSOError, "the SSO session is not valid", "run `aws sso login`"),
    (botocore.TokenRetrievalError, "the SSO session is not valid", "run `aws sso login`"),
    (
        botocore.ProfileNotFound,
        "there is no AWS profile {detail}",
        "check --profile, AWS_PROFILE and ~/.aws/config (root's under sudo)",
    ),
    (
        botocore.ConfigParseError,
        "the AWS configuration in {detail} is damaged",
        "fix that file; AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name files other than "
        "those in ~/.aws",
    ),
    (botocore.NoRegionError, "no AWS region is set", _SET_REGION),
    (
        botocore.InvalidRegionError,
        "the AWS region is not valid",
        "check --region, AWS_DEFAULT_REGION and the profile's region",
    ),
    (
        botocore.ProxyConnectionError,
        "the proxy {detail} does not answer",
        "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
    ),
    (botocore.SSLError, "the TLS connection to {detail} failed", _NETWORK),
    (botocore.EndpointConnectionError, "the endpoint {detail} does not answer", _NETWORK),
    (botocore.ConnectTimeoutError, "connecting to {detail} timed out", _NETWORK),
    (botocore.ReadTimeoutError, "the endpoint {detail} stopped answering", _NETWORK),
    (botocore.ConnectionClosedError, "the endpoint {detail} closed the connection", _NETWORK),
    (botocore.HTTPClientError, "the connection to the endpoint failed", _NETWORK),
    (
        botocore.ParamValidationError,
        "S3 does not allow this bucket name",
        "check the address: s3://BUCKET/PREFIX",
    ),
    (botocore.PaginationError, NOT_S3.message, NOT_S3.hint),
    (ResponseParserError, NOT_S3.message, NOT_S3.hint),
    (  # botocore asks for the bucket's region again and again
        RecursionError,
        "the endpoint redirects every request (HTTP 301)",
        "check --endpoint-url: it may need https:// instead of http://",
    ),
    (
        botocore.EndpointProviderError,
        "this bucket cannot be used with this endpoint or region",
        "check the bucket, the region and --endpoint-url",
    ),
)
#: A proxy, or one server of many, may cause these for one object or one moment.
_AMBIGUOUS_KINDS = (
    botocore.ReadTimeoutError,
    botocore.ConnectionClosedError,
    ResponseParserError,
)


def explain_local(error: OSError, what: str) -> PullError:
    """Return the error for a failed operation on the destination; `what` says which, printable."""
    explanation = _explain_os_error(error)
    return PullError(f"{what}: {os.strerror(error.errno or 0)}", explanation.hint)
