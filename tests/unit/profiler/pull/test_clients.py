# SPDX-License-Identifier: Apache-2.0
"""The pull clients as data: which are installed, the arguments of programs, and their answers."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import cast

import pytest

from contracts.shared.errors import RequirementError, UsageError
from profiler.pull.access import S3Access
from profiler.pull.clients import program
from profiler.pull.clients.catalogue import ALL, DEFAULT, NAMES, by_name, usable
from profiler.pull.clients.interface import Client, PrefixSource
from profiler.pull.clients.mountpoint import CachedMountpointClient, MountpointClient
from profiler.pull.clients.obstore_parts import ObstoreClient
from profiler.pull.clients.program import ProgramClient, program_version
from profiler.pull.clients.programs import AwsCopyClient, AwsSyncClient, RcloneClient, S5cmdClient
from profiler.pull.clients.survey import transfer_client_of_aws
from profiler.pull.errors import PullError
from profiler.pull.settings import TransferSettings

MANY = PrefixSource("bucket", "in/", is_one_object=False, bytes=7)
ONE = PrefixSource("bucket", "in/a b", is_one_object=True, bytes=7)
URL = "http://127.0.0.1:9"
RCLONE_ENDPOINT = "RCLONE_CONFIG_PULL_ENDPOINT"


@pytest.fixture(autouse=True)
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)


def command(
    kind: type[ProgramClient], source: PrefixSource, access: S3Access | None = None
) -> list[str]:
    client = kind(access or S3Access(URL), TransferSettings(max_concurrency=7))
    return list(client.command(source, "/dest"))


def test_names_are_unique_and_every_client_can_go_to_a_worker() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for client in ALL:
        assert pickle.loads(pickle.dumps(client.make)) is client.make
    assert by_name("s5cmd").make is S5cmdClient
    assert DEFAULT.name == "direct"


def test_an_unknown_client_is_named_with_what_it_may_mean() -> None:
    with pytest.raises(UsageError, match="unknown pull client 's5cdm'") as refused:
        by_name("s5cdm")
    assert "s5cmd" in refused.value.hint


def test_a_missing_client_is_refused_with_its_install_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequirementError, match="rclone is not installed") as refused:
        usable("rclone")
    assert refused.value.hint == "install it: apt-get install rclone"
    assert usable(None) is DEFAULT


@pytest.mark.parametrize(
    ("kind", "source", "wanted"),
    [
        (S5cmdClient, MANY, "--endpoint-url http://127.0.0.1:9 cp s3://bucket/in/* /dest/"),
        (S5cmdClient, ONE, "--endpoint-url http://127.0.0.1:9 cp s3://bucket/in/a b /dest/"),
        (AwsSyncClient, MANY, "s3 sync s3://bucket/in/ /dest --only-show-errors"),
        (AwsSyncClient, ONE, "s3 cp s3://bucket/in/a b /dest/a b --only-show-errors"),
        (AwsCopyClient, MANY, "s3 cp --recursive s3://bucket/in/ /dest --only-show-errors"),
        (RcloneClient, MANY, "copy pull:bucket/in/ /dest --config /dev/null --transfers 7"),
        (RcloneClient, ONE, "copyto pull:bucket/in/a b /dest/a b --config /dev/null"),
        (MountpointClient, ONE, "--read-only --foreground --prefix=in/ --endpoint-url"),
        (CachedMountpointClient, MANY, "/cache --read-only --foreground --prefix=in/"),
    ],
)
def test_a_program_gets_the_objects_to_fetch(
    kind: type[ProgramClient], source: PrefixSource, wanted: str
) -> None:
    assert wanted in " ".join(command(kind, source))


@pytest.mark.parametrize("kind", [S5cmdClient, AwsSyncClient, AwsCopyClient])
def test_endpoint_and_signature_are_options(kind: type[ProgramClient]) -> None:
    assert URL in command(kind, MANY)
    assert "--no-sign-request" not in command(kind, MANY)
    unsigned = command(kind, MANY, S3Access(sign_requests=False))
    assert "--no-sign-request" in unsigned and "--endpoint-url" not in unsigned


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", None])
def test_an_endpoint_of_the_environment_or_a_profile_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str | None
) -> None:
    """boto3, which lists and verifies, follows it; not every program does."""
    assert "--endpoint-url" not in command(S5cmdClient, MANY, S3Access())
    if name is None:
        (tmp_path / "config").write_text(f"[default]\nendpoint_url = {URL}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    else:
        monkeypatch.setenv(name, URL)
    assert URL in command(S5cmdClient, MANY, S3Access())


def test_an_endpoint_of_the_environment_reaches_other_clients_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", URL)
    unsigned, settings = S3Access(sign_requests=False), TransferSettings()
    assert RcloneClient(unsigned, settings).environment()[RCLONE_ENDPOINT] == URL
    assert ObstoreClient(unsigned, settings).store_of("b").config["endpoint"] == URL


@pytest.mark.parametrize("endpoint", [URL, None])
def test_an_endpoint_that_only_one_program_would_use_is_ignored(
    monkeypatch: pytest.MonkeyPatch, endpoint: str | None
) -> None:
    for name in ("S3_ENDPOINT_URL", "RCLONE_S3_ENDPOINT", RCLONE_ENDPOINT):
        monkeypatch.setenv(name, "http://elsewhere")
    for kind in (S5cmdClient, RcloneClient):
        environment = kind(S3Access(endpoint), TransferSettings()).all_environment()
        assert "http://elsewhere" not in environment.values()


def test_a_prefix_that_s5cmd_takes_for_a_pattern_is_refused() -> None:
    with pytest.raises(PullError, match="reads this prefix as a pattern"):
        command(S5cmdClient, PrefixSource("bucket", "in[1]/", False, 1))


def test_rclone_gets_a_ca_bundle_only_as_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in the environment, it fails the AWS SDK in rclone: unsupported transport."""
    client = RcloneClient(S3Access(URL), TransferSettings())
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    assert "--ca-cert" not in client.command(MANY, "/dest")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/ca.pem")
    words = list(client.command(MANY, "/dest"))
    assert words[words.index("--ca-cert") + 1] == "/ca.pem"
    assert "AWS_CA_BUNDLE" not in client.all_environment()


@pytest.mark.parametrize(
    ("version", "preferred", "wanted"),
    [
        ("aws-cli/1.46.2 Python/3.11", "crt", "classic"),
        ("aws-cli/2.37.0 Python/3.13", "", "auto"),
        ("aws-cli/2.37.0 Python/3.13", "crt", "crt"),
        ("aws-cli/2.37.0 Python/3.13", "junk", "auto"),
        ("", "crt", "-"),
    ],
)
def test_what_the_aws_cli_transfers_by(version: str, preferred: str, wanted: str) -> None:
    assert transfer_client_of_aws(version, preferred) == wanted


STAND_IN = """#!/bin/sh
printf 'partial' > "$3/a"
echo "first line"; echo "the last $1" >&2
exit {exit_code}
"""


class StandIn(ProgramClient):
    program = "stand-in"

    def command(self, source: PrefixSource, directory: str) -> list[str]:
        return ["word", source.url, directory]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "bin" / "stand-in"
    path.parent.mkdir(mode=0o755)
    path.write_text(STAND_IN.format(exit_code=3))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


def test_a_program_that_fails_answers_by_its_last_line(stand_in: Path, tmp_path: Path) -> None:
    client = StandIn(S3Access(URL), TransferSettings())
    counted: list[int] = []
    answer = client.download_all(MANY, str(tmp_path), counted.append)
    assert answer == "stand-in failed (exit 3): the last word"
    assert sum(counted) == 7  # of the file that it wrote


def test_a_program_that_succeeds_answers_nothing(stand_in: Path, tmp_path: Path) -> None:
    stand_in.write_text(STAND_IN.format(exit_code=0))
    client = StandIn(S3Access(URL), TransferSettings())
    assert client.download_all(MANY, str(tmp_path), lambda amount: None) == ""


def test_looking_at_what_has_arrived_takes_a_small_part_of_the_time(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the program's own cores; nothing is looked at once it has succeeded."""
    looks: list[str] = []

    def look(directory: str) -> int:
        looks.append(directory)
        time.sleep(0.05)
        return 3

    monkeypatch.setattr(program, "LOOK_S", 0.01)
    monkeypatch.setattr(program, "bytes_below", look)
    stand_in.write_text("#!/bin/sh\nsleep 0.5\n")
    counted: list[int] = []
    client = StandIn(S3Access(URL), TransferSettings())
    assert client.download_all(MANY, str(tmp_path), counted.append) == ""
    assert len(looks) == 1
    assert len(counted) > 10  # the pull can be stopped between the looks
    assert [amount for amount in counted if amount] == [3, 4]


def test_an_error_in_the_count_ends_the_program(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.write_text("#!/bin/sh\nprintf $$ > pid; exec sleep 60\n")
    monkeypatch.setattr(program, "LOOK_S", 0.01)
    monkeypatch.chdir(tmp_path)

    def stop(amount: int) -> None:
        if (tmp_path / "pid").exists():
            raise InterruptedError

    client = StandIn(S3Access(URL), TransferSettings())
    with pytest.raises(InterruptedError):
        client.download_all(MANY, str(tmp_path), stop)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_program_that_others_can_change_is_not_used(stand_in: Path, tmp_path: Path) -> None:
    stand_in.write_text("#!/bin/sh\necho stand-in 1.2\n")
    assert program_version("stand-in") == "stand-in 1.2"
    elsewhere = tmp_path / "elsewhere"
    stand_in.rename(elsewhere)
    stand_in.symlink_to(elsewhere)
    assert program_version("stand-in") == "stand-in 1.2"
    elsewhere.chmod(0o777)
    assert program_version("stand-in") is None


def test_a_program_in_another_users_directory_is_not_used(stand_in: Path, tmp_path: Path) -> None:
    assert program_version("stand-in") is None  # exit code 3
    stand_in.write_text("#!/bin/sh\necho stand-in 1.2\n")
    assert program_version("stand-in") == "stand-in 1.2"
    stand_in.parent.chmod(0o777)
    assert program_version("stand-in") is None
    client = StandIn(S3Access(URL), TransferSettings())
    with pytest.raises(PullError, match="stand-in is not on PATH"):
        client.download_all(MANY, str(tmp_path), lambda amount: None)


def test_obstore_gets_an_endpoint_only_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    for endpoint_url in (None, URL):
        client = ObstoreClient(S3Access(endpoint_url, sign_requests=False), TransferSettings())
        assert client.store_of("bucket") is client.store_of("bucket")


def test_what_a_program_prints_is_shown_without_credentials(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret_key, signature = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "ab01" * 16
    monkeypatch.setenv("AWS_SESSION_TOKEN", "short-token")
    line = f"InvalidToken: short-token AKIAIOSFODNN7EXAMPLE {secret_key} Signature={signature}"
    stand_in.write_text(f"#!/bin/sh\necho '{line}'; exit 1\n")
    client = StandIn(S3Access(URL), TransferSettings())
    said = client.download_all(MANY, str(tmp_path), lambda amount: None)
    assert said == "stand-in failed (exit 1): InvalidToken: *** *** *** ***"


@pytest.mark.parametrize("client", ALL, ids=NAMES)
def test_the_catalogue_knows_the_kind_of_each_client(client: Client) -> None:
    made = cast(type, client.make)
    assert client.takes_prefixes == hasattr(made, "download_all")
    assert client.takes_prefixes != hasattr(made, "download")


def test_errors_of_other_libraries_mean_the_same_as_s3s() -> None:
    exceptions = pytest.importorskip("obstore.exceptions")
    from awscrt.exceptions import AwsCrtError

    from profiler.pull.clients import crt, obstore_parts
    from profiler.pull.errors import explain

    quoted = "Client error: <Error><Code>ExpiredToken</Code><Message>x</Message></Error>"
    for error, said in (
        (exceptions.GenericError(quoted), "the session token has expired"),
        (
            FileNotFoundError("Object at location k not found: 404: <Code>NoSuchKey</Code>"),
            "the object no longer exists",
        ),
        (
            FileNotFoundError("Object at location k not found: 404: <html>"),
            "the endpoint answered HTTP 404 without an S3 error code",
        ),
        (
            exceptions.GenericError("HttpError {\n kind: Connect,\n source: reqwest::Error"),
            "the endpoint http://localhost:9 does not answer",
        ),
    ):
        with pytest.raises(Exception) as raised, obstore_parts.explained("http://localhost:9"):
            raise error
        assert explain(raised.value).message == said
    slow = AwsCrtError(14346, "AWS_ERROR_S3_SLOW_DOWN", "Response code indicates throttling")
    refused = AwsCrtError(1047, "AWS_IO_SOCKET_CONNECTION_REFUSED", "socket connection refused.")
    for error, said in (
        (slow, "S3 limits the request rate (SlowDown)"),
        (refused, "the endpoint http://localhost:9 does not answer"),
    ):
        assert explain(crt.explained(error, "http://localhost:9")).message == said
