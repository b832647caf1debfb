# SPDX-License-Identifier: Apache-2.0
"""Why AWS gave no answer about a volume or an instance, worded for users.

No text of an exception or of an answer is quoted: some contain credentials or account numbers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from contracts.shared.text import printable
from profiler.ec2.aws import LiveError, Scope
from profiler.ec2.permissions import ReadPermission

_CHECK_CREDENTIALS = "check --profile and the credentials (environment, ~/.aws, instance profile)"
_CHECK_NETWORK = "check --region and the network (route, VPC endpoint, security group, proxy)"
_NEW_CREDENTIALS = "get new credentials and try again"

_AGAIN = "try again in a minute"
#: Codes of EC2's and CloudWatch's answers; sentence with {action}, {region} and {asked}; hint.
_BY_CODE: tuple[tuple[tuple[str, ...], str, str, Scope], ...] = (
    (
        ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException"),
        "{action} is denied",
        "allow it in the IAM policy for these credentials, or use --profile for others",
        Scope.REQUEST,
    ),
    (
        ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"),
        "AWS limits the request rate of {action}",
        _AGAIN,
        Scope.REQUEST,
    ),
    (
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired"),
        "the session token has expired",
        "get new credentials and try again",
        Scope.ALL,
    ),
    (
        (
            *("AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException"),
            *("SignatureDoesNotMatch", "InvalidSignatureException", "OptInRequired"),
        ),
        "AWS did not accept the credentials in {region}",
        "check the credentials, this host's clock, and that the account has this region enabled",
        Scope.ALL,
    ),
    (
        ("InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable"),
        "AWS reported an internal error for {action}",
        _AGAIN,
        Scope.REQUEST,
    ),
    (
        ("InvalidVolume.NotFound",),
        "there is no volume {asked} in {region}",
        "check the id; --region looks in another region, --profile in another account",
        Scope.REQUEST,
    ),
    (
        ("InvalidInstanceType",),
        "there is no instance type {asked} in {region}",
        "check --instance-type and --region",
        Scope.REQUEST,
    ),
)
#: Exceptions without an answer; sentence with {host}; hint. The first that fits counts.
_BY_KIND: tuple[tuple[tuple[type[BaseException], ...], str, str, Scope], ...] = (
    (
        (botocore.NoCredentialsError,),
        "no AWS credentials were found",
        "attach an instance profile, pass --profile, or configure them for this user",
        Scope.ALL,
    ),
    (
        (botocore.PartialCredentialsError,),
        "the AWS credentials are incomplete",
        _CHECK_CREDENTIALS,
        Scope.ALL,
    ),
    (
        (botocore.SSOError, botocore.TokenRetrievalError),
        "the SSO session is not valid",
        "run `aws sso login`",
        Scope.ALL,
    ),
    (
        (botocore.CredentialRetrievalError,),
        "AWS credentials could not be retrieved",
        _CHECK_CREDENTIALS,
        Scope.ALL,
    ),
    (
        (botocore.ProfileNotFound,),
        "there is no such AWS profile",
        "check --profile, AWS_PROFILE and ~/.aws/config",
        Scope.ALL,
    ),
    (
        (botocore.ConfigParseError,),
        "the AWS configuration is damaged",
        "fix ~/.aws/config",
        Scope.ALL,
    ),
    (
        (botocore.NoRegionError,),
        "no AWS region is set",
        "pass --region, or set AWS_DEFAULT_REGION",
        Scope.ALL,
    ),
    ((botocore.InvalidRegionError,), "the AWS region is not valid", "check --region", Scope.ALL),
    (
        (botocore.ProxyConnectionError,),
        "the proxy does not answer",
        "check HTTPS_PROXY and NO_PROXY",
        Scope.ALL,
    ),
    (
        (botocore.SSLError,),
        "the TLS connection to {host} failed",
        _CHECK_NETWORK,
        Scope.SERVICE,
    ),
    (
        (botocore.ReadTimeoutError, TimeoutError),
        "{host} did not answer in time",
        _CHECK_NETWORK,
        Scope.SERVICE,
    ),
    (
        (botocore.ConnectTimeoutError, botocore.EndpointConnectionError),
        "{host} cannot be reached",
        _CHECK_NETWORK,
        Scope.SERVICE,
    ),
    (
        (botocore.HTTPClientError,),
        "the connection to {host} failed",
        _CHECK_NETWORK,
        Scope.SERVICE,
    ),
    (
        (ResponseParserError,),
        "{host} does not answer like AWS",
        _CHECK_NETWORK,
        Scope.SERVICE,
    ),
)


def explain(
    error: BaseException, permission: ReadPermission, region: str | None, asked: str
) -> LiveError:
    """Return what `error` means for a request about `asked` that needs `permission`."""
    if isinstance(error, botocore.ClientError):
        return _explain_code(error, permission, region, asked)
    for kinds, message, hint, scope in _BY_KIND:
        if isinstance(error, kinds):
            return LiveError(message.format(host=_host(error, permission, region)), hint, scope)
    return LiveError(
        f"{permission.action} failed ({type(error).__name__})",
        "check the AWS_… environment variables and ~/.aws",
        Scope.SERVICE,
    )


def _explain_code(
    error: botocore.ClientError, permission: ReadPermission, region: str | None, asked: str
) -> LiveError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    where = printable(region) if region else "this region"
    for codes, message, hint, scope in _BY_CODE:
        if code in codes:
            sentence = message.format(action=permission.action, region=where, asked=asked)
            return LiveError(sentence, hint, scope)
    return LiveError(
        f"AWS answered {printable(code)[:60]} to {permission.action}",
        "look up this code in the API reference of EC2 or CloudWatch",
    )


def _host(error: BaseException, permission: ReadPermission, region: str | None) -> str:
    """Return the name of the endpoint's host, without a user or a password."""
    url = getattr(error, "kwargs", {}).get("endpoint_url")
    host = urlsplit(str(url)).hostname if url else None
    return printable(host or f"{permission.service} in {region or 'AWS'}")[:100]
