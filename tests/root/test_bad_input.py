# SPDX-License-Identifier: Apache-2.0
"""Bad input to `pull` and `sweep`: an exit code, a clear sentence, and nothing lost or changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from profiler.lab.s3_server import S3Server
from tests.root.labs import MIB, guarded, volume, writewise
from tests.root.profiling import mounted

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
COMMANDS = ("pull", "sweep")
#: Nothing listens on the discard port.
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[S3Server]:
    root = tmp_path_factory.mktemp("root")
    (root / "bucket" / "in").mkdir(parents=True)
    for number in range(3):
        (root / "bucket" / "in" / str(number)).write_bytes(os.urandom(MIB))
    with S3Server(root, first_byte_latency_s=None, rate_bytes_per_s=None) as server:
        yield server


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with guarded(tmp_path) as state:
        yield state


@pytest.fixture
def destination(tmp_path) -> Path:
    folder = tmp_path / "destination"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    return folder


def refused(name, source, destination, endpoint_url, *options, exit_code=1):
    """Run it in an empty folder; check that its error is one sentence, and return that."""
    home = destination.parent / "home"
    home.mkdir(exist_ok=True)
    words = (name, source, destination, "--endpoint-url", endpoint_url, *options)
    done = writewise(*words, cwd=home)
    assert done.returncode == exit_code, done.stderr
    lines = done.stderr[done.stderr.index("writewise: ") :].splitlines()
    assert all(line.startswith("  ") for line in lines[1:]), "a sentence, its list and its hint"
    assert list(home.iterdir()) == []
    assert "Traceback" not in done.stdout + done.stderr
    return lines[0].partition(": ")[2]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("source", "said", "exit_code"),
    [
        ("s3://no-such-bucket/in", "bucket no-such-bucket does not exist", 1),
        ("s3://bucket/none", "s3://bucket/none has no objects", 1),
        ("s3://b\x1b[2Jucket/in", "S3 does not allow this bucket name", 1),
        ("bucket/in", "invalid S3 address 'bucket/in'", 2),
    ],
)
def test_a_source_that_is_not_there(server, destination, name, source, said, exit_code):
    got = refused(name, source, destination, server.endpoint_url, exit_code=exit_code)
    assert got == said
    assert [path.name for path in destination.iterdir()] == ["precious"]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_credentials(server, destination, monkeypatch, name):
    for variable in CREDENTIALS:
        monkeypatch.delenv(variable)
    said = refused(name, "s3://bucket/in", destination, server.endpoint_url)
    assert said == "no AWS credentials were found"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_endpoint_that_is_down(destination, name):
    said = refused(name, "s3://bucket/in", destination, NOBODY)
    assert said == f"the endpoint {NOBODY} does not answer"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_destination_that_is_no_directory(server, destination, name):
    said = refused(
        name, "s3://bucket/in", destination / "missing", server.endpoint_url, exit_code=2
    )
    assert said.endswith("missing cannot be used: No such file or directory")
    said = refused(
        name, "s3://bucket/in", destination / "precious", server.endpoint_url, exit_code=2
    )
    assert said.endswith("precious cannot be used: Not a directory")
    assert (destination / "precious").read_text() == "mine"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_destination_that_is_full_or_read_only(server, tmp_path, name):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=2m", "tmpfs") as disk:
        said = refused(name, "s3://bucket/in", disk, server.endpoint_url)
        assert "has 3.00 MiB, but" in said
        assert said.endswith("has only 2.00 MiB free")
        assert list(disk.iterdir()) == []
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        said = refused(name, "s3://bucket/in", disk, server.endpoint_url)
        assert said == f"the destination {disk} is on a read-only file system"


def test_mount_options_on_the_root_file_system(server, destination):
    options = ("--mount-options", "noatime")
    said = refused("sweep", "s3://bucket/in", destination, server.endpoint_url, *options)
    assert said == f"{destination} is on /, whose mount options are never changed"


def test_mount_options_that_are_none(server, tmp_path):
    with volume(tmp_path / "own") as own:
        for word in ("remount,ro", "bind", "no at"):
            options = ("--mount-options", word)
            said = refused("sweep", "s3://bucket/in", own, server.endpoint_url, *options)
            assert "mount" in said


def test_mount_options_of_a_file_system_that_is_not_known(server, tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "tmpfs") as disk:
        options = ("--mount-options", "noatime")
        said = refused("sweep", "s3://bucket/in", disk, server.endpoint_url, *options)
        assert said == "this version supports only mount options of XFS and ext4, not of tmpfs"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--dirty-ratio", "101", "--dirty-ratio: 101 is out of range"),
        ("--dirty-bytes", "4096", "--dirty-bytes: 4096 is out of range"),
        ("--transfer", "x=1", "--transfer: unknown transfer setting 'x'"),
        ("--endpoint-url", "ftp://x", "--endpoint-url is not an http or https URL"),
        ("--output", "/proc/x.json", "cannot write /proc/x.json: "),
        ("--output", "/dev/null", "/dev/null already exists"),
        ("--contract", "/no/such.yaml", "cannot read the contract /no/such.yaml: No such file"),
    ],
)
def test_an_option_that_cannot_be(server, destination, option, value, said):
    got = refused(
        "sweep", "s3://bucket/in", destination, server.endpoint_url, option, value, exit_code=2
    )
    assert got.startswith(said)


def test_ratio_and_bytes_of_one_threshold(server, destination):
    options = ("--dirty-ratio", "20", "--dirty-bytes", "8388608")
    said = refused("sweep", "s3://x/y", destination, server.endpoint_url, *options, exit_code=2)
    assert (
        said == "--dirty-ratio and --dirty-bytes set the same threshold; the kernel keeps only one"
    )


def test_thresholds_that_no_kernel_takes(server, destination):
    options = ("--dirty-ratio", "5", "--dirty-background-ratio", "5,10")
    url = server.endpoint_url
    said = refused("sweep", "s3://bucket/in", destination, url, *options, exit_code=2)
    assert said.startswith("there is nothing to try: dirty_ratio=5 dirty_background_ratio=5: ")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (bytes(range(256)), "is a binary file, not a contract file"),
        (b"\xff\xfe\xfa" * 9, "is not UTF-8 text: byte 0xff at offset 0"),
        (100 * MIB, "is larger than 1 MiB, the limit for a contract file"),
        (None, "is a directory, not a contract file"),
        (b"timeframe: 1s\nrules: [\n", "1 error"),
    ],
)
def test_a_contract_that_is_none(server, destination, tmp_path, name, content, said):
    path = tmp_path / "contract.yaml"
    if content is None:
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(content) if isinstance(content, int) else file.write(content)
    options = ("--contract", path)
    got = refused(name, "s3://bucket/in", destination, server.endpoint_url, *options, exit_code=2)
    assert got.endswith(said)


def test_advice_on_what_is_no_results_file(tmp_path):
    for content, said in (
        (b"", "is empty"),
        (b"{", "is not a results file, or it is truncated"),
        (b"[]", "is not a results file of `writewise sweep`"),
        (b"\xff", "is not UTF-8 text"),
        (b'{"format": "writewise-results", "version": 2}', "is damaged: 'context' is missing"),
        (b"[" * 100_000, "is not a results file"),
        (
            b'{"format": "writewise-results", "version": 9}',
            "has version 9; this version of Writewise reads 2",
        ),
    ):
        path = tmp_path / "results.json"
        path.write_bytes(content)
        done = writewise("advise", path, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert path.read_bytes() == content
