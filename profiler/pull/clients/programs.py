# SPDX-License-Identifier: Apache-2.0
"""The arguments of programs that people pull with: s5cmd, the AWS CLI and rclone.

They take credentials, profile and region from the environment and ~/.aws.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from profiler.pull.clients.interface import PrefixSource
from profiler.pull.clients.program import ProgramClient
from profiler.pull.errors import PullError

_RETRIES = "4"  # as botocore; s5cmd's default of 10 takes 46 s if nothing answers
_CA_BUNDLE = "AWS_CA_BUNDLE"
_GLOB_CHARACTERS = "*?[]\\"


class S5cmdClient(ProgramClient):
    """`s5cmd cp`: Go, one pool of workers for all objects."""

    program = "s5cmd"

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See ProgramClient. Raises PullError for a prefix that s5cmd reads as a pattern."""
        if any(character in source.prefix for character in _GLOB_CHARACTERS):
            raise PullError("s5cmd reads this prefix as a pattern", "use another --client")
        options = ["--log", "error", "--retry-count", _RETRIES]
        if self.access.endpoint_url:
            options += ["--endpoint-url", self.access.endpoint_url]
        if not self.access.sign_requests:
            options.append("--no-sign-request")
        address = source.url if source.is_one_object else f"{source.url}*"
        return [*options, "cp", address, f"{directory}/"]


class AwsClient(ProgramClient):
    """What `aws s3 sync` and `aws s3 cp` share. Their concurrency is set only in ~/.aws/config."""

    program = "aws"

    def _options(self) -> list[str]:
        options = ["--only-show-errors"]
        if self.access.endpoint_url:
            options += ["--endpoint-url", self.access.endpoint_url]
        if not self.access.sign_requests:
            options.append("--no-sign-request")
        return options

    def environment(self) -> Mapping[str, str]:
        """See ProgramClient."""
        return {"AWS_PAGER": ""}


class AwsSyncClient(AwsClient):
    """`aws s3 sync`; a single object is copied, because sync only takes prefixes."""

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See ProgramClient."""
        if source.is_one_object:
            return _copy(source, directory, self._options())
        return ["s3", "sync", source.url, directory, *self._options()]


class AwsCopyClient(AwsClient):
    """`aws s3 cp --recursive`."""

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See ProgramClient."""
        if source.is_one_object:
            return _copy(source, directory, self._options())
        return ["s3", "cp", "--recursive", source.url, directory, *self._options()]


def _copy(source: PrefixSource, directory: str, options: Sequence[str]) -> Sequence[str]:
    return ["s3", "cp", source.url, f"{directory}/{source.file_name}", *options]


class RcloneClient(ProgramClient):
    """`rclone copy`; the environment defines the remote, and no configuration file is read."""

    program = "rclone"

    def command(self, source: PrefixSource, directory: str) -> Sequence[str]:
        """See ProgramClient."""
        concurrency = str(self.settings.max_concurrency)
        options = ["--config", "/dev/null", "--transfers", concurrency, "--log-level", "ERROR"]
        options += ["--retries", "1", "--low-level-retries", _RETRIES, "--contimeout", "10s"]
        if _CA_BUNDLE in os.environ:
            options += ["--ca-cert", os.environ[_CA_BUNDLE]]
        address = f"pull:{source.bucket}/{source.prefix}"
        if source.is_one_object:
            return ["copyto", address, f"{directory}/{source.file_name}", *options]
        return ["copy", address, directory, *options]

    def all_environment(self) -> dict[str, str]:
        """See ProgramClient. rclone's AWS SDK fails on the variable for the CA bundle."""
        environment = super().all_environment()
        environment.pop(_CA_BUNDLE, None)
        return environment

    def environment(self) -> Mapping[str, str]:
        """See ProgramClient."""
        endpoint = self.access.endpoint_url
        is_signed = "true" if self.access.sign_requests else "false"
        return {
            "RCLONE_CONFIG_PULL_TYPE": "s3",
            "RCLONE_CONFIG_PULL_PROVIDER": "Other" if endpoint else "AWS",
            "RCLONE_CONFIG_PULL_ENV_AUTH": is_signed,
            "RCLONE_CONFIG_PULL_LIST_VERSION": "2",  # the default is 1, unless the provider is AWS
            **({"RCLONE_CONFIG_PULL_ENDPOINT": endpoint} if endpoint else {}),
        }
