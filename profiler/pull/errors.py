"""What can go wrong in a pull, in the user's terms.

`explain` turns the exceptions of boto3, botocore and the file system into one sentence and a
hint. No sentence quotes what an exception says about itself unless it is known to be harmless:
some of botocore's carry signed headers or tokens.
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


class PullError(WritewiseError):
    """A pull that cannot start or go on."""


class PullStoppedError(PullError):
    """A pull that took longer than it was given: its workers live on, its files are gone."""

    def __init__(self, stop_after_s: float) -> None:
        super().__init__(f"the pull was stopped after {stop_after_s:.1f} s")


@dataclass(frozen=True)
class Explanation:
    """One sentence, what to do next, and whether other objects of the pull may still succeed.

    Where they may not, `is_of_destination` says that what has arrived is not safe there either;
    `is_in_doubt` that the error itself does not tell it (`profiler.pull.doubt` does).
    """

    message: str
    hint: str = ""
    concerns_one_object: bool = False
    is_of_destination: bool = False
    is_in_doubt: bool = False

    def as_error(self) -> PullError:
        """The error to raise."""
        return PullError(self.message, self.hint)


#: What a listing means that lacks what S3's always have, or is none at all.
NOT_S3 = Explanation(
    "the endpoint's answer is not S3's", "check --endpoint-url, and AWS_ENDPOINT_URL"
)

_CREDENTIALS = "check the credentials that boto3 finds (environment, ~/.aws, instance profile)"
_SET_REGION = "set AWS_DEFAULT_REGION, or the profile's region"
_RETRY = "pull again; what has arrived complete is replaced only by a complete copy"

#: S3's error codes → sentence with {bucket}, hint. A HEAD has no body: its codes are numbers.
_BY_CODE = {
    "NoSuchBucket": ("bucket {bucket} does not exist", "check the name and the endpoint"),
    "AccessDenied": (
        "access to bucket {bucket} is denied",
        "the credentials need s3:ListBucket on the bucket and s3:GetObject on its objects",
    ),
    "ExpiredToken": ("the session token has expired", "get fresh credentials and pull again"),
    "InvalidToken": ("the session token is not valid", _CREDENTIALS),
    "InvalidAccessKeyId": ("S3 does not know this access key", _CREDENTIALS),
    "SignatureDoesNotMatch": ("the secret key does not fit the access key", _CREDENTIALS),
    "PermanentRedirect": (
        "bucket {bucket} is in another region",
        f"{_SET_REGION}, to the bucket's",
    ),
    "RequestTimeTooSkewed": ("this host's clock is wrong", "set the clock; S3 allows 15 minutes"),
    "SlowDown": (
        "S3 asks to slow down",
        "use fewer workers or a lower max_concurrency, or spread the keys over prefixes",
    ),
    "InternalError": ("S3 had an internal error, also after retries", _RETRY),
    "400": (
        "S3 refuses the request (HTTP 400), as it does when a session token has expired",
        "get fresh credentials and pull again",
    ),
    "NotImplemented": ("the endpoint does not offer what a pull needs", "check --endpoint-url"),
}
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
    "InvalidRequest": "S3 refuses the request, as for an object with a customer's key (SSE-C)",
}
#: A region's name, such as us-gov-east-1.
_REGION = re.compile(r"[a-z]{2,8}(-[a-z]{1,16}){1,3}-[0-9]{1,2}")
#: Codes of KMS's own (DisabledException, NotFoundException, …) come through S3 with this prefix.
_KMS = "KMS."
_KMS_HINT = "look at the key in KMS: its state, and whether these credentials may decrypt with it"
#: These may be S3's answer about one object (a policy can deny a single key) or one moment; the
#: rest of the pull goes on.
_CODES_OF_ONE_OBJECT = ("AccessDenied", "SlowDown", "InternalError")
_CODES_IN_DOUBT = ("400",)


def explain(error: BaseException, bucket: str = "") -> Explanation:
    """What `error` means for a pull from `bucket`."""
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
        return Explanation("the object did not arrive whole, also after retries", _RETRY, True)
    return Explanation(f"the pull failed ({type(error).__name__})", _RETRY, True)


def explain_configuration(error: BaseException) -> Explanation:
    """What `error` means when it came while a client was made: before anything was asked of S3."""
    return _explain_kind(error) or Explanation(
        f"the AWS configuration is not usable: {_configuration_detail(error)}",
        "check the environment and ~/.aws/config",
    )


def _explain_kind(error: BaseException) -> Explanation | None:
    """The sentence for what is known by its class alone."""
    for kind, message, hint in _BY_KIND:
        if isinstance(error, kind):
            sentence = message.format(detail=_harmless_detail(error))
            return Explanation(sentence, hint, is_in_doubt=isinstance(error, _KINDS_IN_DOUBT))
    return None


def _configuration_detail(error: BaseException) -> str:
    """What is wrong, without the value of a setting that may be a secret."""
    text = str(error)
    if isinstance(error, (botocore.InvalidRetryConfigurationError, botocore.InvalidDefaultsMode)):
        return printable(text)[:200]
    if isinstance(error, json.JSONDecodeError):
        return "credential_process printed no valid JSON"
    if isinstance(error, ValueError) and text.startswith("Invalid endpoint"):
        return "AWS_ENDPOINT_URL, or endpoint_url, is no URL"
    if isinstance(error, ValueError) and "for int()" in text:
        return "a setting that must be a number, such as AWS_MAX_ATTEMPTS, is none"
    if isinstance(error, OSError) and error.errno:
        return f"a file or program that it names: {os.strerror(error.errno)}"
    return f"botocore fails on it ({type(error).__name__})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, each once: an error can be its own cause."""
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
    if code in _OBJECT_CODES:
        return Explanation(_OBJECT_CODES[code], "", concerns_one_object=True)
    if code.startswith(_KMS):
        return Explanation(f"its KMS key cannot be used ({printable(code)[:60]})", _KMS_HINT, True)
    known = _SAME_AS.get(code, code)
    if known in _BY_CODE:
        message, hint = _with_region(known, *_BY_CODE[known], _bucket_region(error))
        is_of_one, is_in_doubt = known in _CODES_OF_ONE_OBJECT, known in _CODES_IN_DOUBT
        return Explanation(message.format(bucket=bucket), hint, is_of_one, is_in_doubt=is_in_doubt)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "?")
    return Explanation(
        f"S3 answered {printable(code)[:60]} (HTTP {status}) for bucket {bucket}",
        "look this code up in the S3 API reference, and check bucket, region and endpoint",
        is_in_doubt=True,
    )


def _with_region(code: str, message: str, hint: str, region: str | None) -> tuple[str, str]:
    """Message and hint with the bucket's region, where the answer names it and it may matter.

    S3 answers a HEAD that is signed for another region by 400 too, without a code.
    """
    if region and code == "PermanentRedirect":
        hint = f"set AWS_DEFAULT_REGION={region}, or the profile's region to {region}"
        return f"{message}: {region}", hint
    if region and code == "400":
        return message, f"{hint}; the bucket's region is {region}: set AWS_DEFAULT_REGION={region}"
    return message, hint


def _bucket_region(error: botocore.ClientError) -> str | None:
    """The region that S3's answer names for the bucket; None if it names none.

    None, too, if it is not a plausible name: the hint shows it to be typed.
    """
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    named = headers.get("x-amz-bucket-region") or error.response.get("Error", {}).get("Region")
    return str(named) if _REGION.fullmatch(str(named or "")) else None


_OS_HINTS = {
    errno.ENOENT: "create the directory, or mount the volume, and pull again",
    errno.ENOTDIR: "give a directory",
    errno.EACCES: "run as root, or pull to another directory",
    errno.ENOSPC: "free space on the destination, or pull to a larger volume",
    errno.EDQUOT: "raise the quota, or pull to another volume",
    errno.EROFS: "remount the destination for writing; a file system turns read-only after errors",
    errno.EIO: "look at the kernel's log (dmesg): the volume reports errors",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or lower max_concurrency",
}


def _explain_os_error(error: OSError) -> Explanation:
    reason = os.strerror(error.errno or 0)
    hint = _OS_HINTS.get(error.errno or 0, "check the destination")
    sentence = f"writing to the destination failed: {reason}"
    return Explanation(sentence, hint, is_of_destination=True)


def _harmless_detail(error: BaseException) -> str:
    """The endpoint, profile or file that an exception names, without a URL's user and query."""
    given = getattr(error, "kwargs", {})
    names = ("endpoint_url", "proxy_url", "profile", "path")
    text = str(next((given[name] for name in names if given.get(name)), ""))
    scheme, separator, rest = text.partition("://")
    if separator:
        text = scheme + separator + rest.partition("/")[0].rpartition("@")[2]
    return printable(text)[:200]


_NETWORK = "check the network and --endpoint-url"
_NETWORK_ERRORS = (botocore.HTTPClientError, botocore.ConnectionError, ConnectionError)
_BROKEN_BODY = (
    *(RetriesExceededError, TransferRetriesExceededError, S3DownloadFailedError),
    *(S3ValidationError, botocore.IncompleteReadError, botocore.FlexibleChecksumError),
    *(botocore.ChecksumError, botocore.ResponseStreamingError),
)
#: Exceptions → sentence with {detail}, hint; the first that fits counts.
_BY_KIND: tuple[tuple[type[BaseException], str, str], ...] = (
    (botocore.NoCredentialsError, "no AWS credentials were found", _CREDENTIALS),
    (botocore.PartialCredentialsError, "the AWS credentials are incomplete", _CREDENTIALS),
    (botocore.CredentialRetrievalError, "AWS credentials could not be retrieved", _CREDENTIALS),
    (botocore.SSOError, "the SSO session is not valid", "run `aws sso login`"),
    (botocore.TokenRetrievalError, "the SSO session is not valid", "run `aws sso login`"),
    (botocore.ProfileNotFound, "there is no AWS profile {detail}", "check AWS_PROFILE"),
    (
        botocore.ConfigParseError,
        "the AWS configuration in {detail} is damaged",
        "mend that file; AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name others than those in "
        "~/.aws",
    ),
    (botocore.NoRegionError, "no AWS region is set", _SET_REGION),
    (botocore.InvalidRegionError, "the AWS region is not valid", "check AWS_DEFAULT_REGION"),
    (botocore.ProxyConnectionError, "the proxy {detail} does not answer", "check HTTPS_PROXY"),
    (botocore.SSLError, "the TLS connection to {detail} failed", _NETWORK),
    (botocore.EndpointConnectionError, "the endpoint {detail} does not answer", _NETWORK),
    (botocore.ConnectTimeoutError, "connecting to {detail} timed out", _NETWORK),
    (botocore.ReadTimeoutError, "the endpoint {detail} stopped answering", _NETWORK),
    (botocore.ConnectionClosedError, "the endpoint {detail} closed the connection", _NETWORK),
    (botocore.HTTPClientError, "the connection to the endpoint failed", _NETWORK),
    (botocore.ParamValidationError, "S3 does not allow this bucket name", "check the address"),
    (botocore.PaginationError, NOT_S3.message, NOT_S3.hint),
    (ResponseParserError, NOT_S3.message, NOT_S3.hint),
    (botocore.EndpointProviderError, "bucket and endpoint do not fit together", _NETWORK),
)
#: Of these a proxy or one server of many may be the cause, for one object or one moment.
_KINDS_IN_DOUBT = (
    botocore.ReadTimeoutError,
    botocore.ConnectionClosedError,
    ResponseParserError,
)


def explain_local(error: OSError, what: str) -> PullError:
    """The error of an operation on the destination; `what` names its object, made printable."""
    explanation = _explain_os_error(error)
    return PullError(f"{what}: {os.strerror(error.errno or 0)}", explanation.hint)
