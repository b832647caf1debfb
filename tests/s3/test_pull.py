# SPDX-License-Identifier: Apache-2.0
"""The same pulls from our server and from moto's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from contracts.shared.errors import WritewiseError
from profiler.pull.access import S3Access
from profiler.pull.clients.catalogue import by_name
from profiler.pull.destination import Destination
from profiler.pull.errors import PullError
from profiler.pull.measured import PullMeasurement, Verify, measure_pull
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, UnsafeKeysError, list_plan, parse_location
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, MIB, LabBackend, MotoBackend, ServedTests, forked

CONTENT = {
    "images/a.bin": os.urandom(20 * MIB + 17),  # ranges of 8 MiB and more
    "images/deep/er/b.bin": os.urandom(8 * MIB),  # exactly the threshold
    "images/deep/c d+e%20é.txt": b"a name that must be encoded",
    "images/empty": b"",
    "images-other/not-below": b"beside",
    "single": b"one object alone",
    **{f"many/{number:04}": b"x" for number in range(1203)},
    "evil/../../out": b"x",
    "evil/good": b"x",
    "absolute//etc/passwd": b"x",
    "long/" + "n" * 256: b"x",
    "both/name": b"x",
    "both/name/below": b"x",
}


class PullTests(ServedTests):
    """Tests of pulls from any server."""

    content: ClassVar = CONTENT
    #: Methods of verification for the objects above.
    method: ClassVar[str]

    def plan(self, endpoint: str, address: str) -> PullPlan:
        return list_plan(S3Access(endpoint), parse_location(f"s3://{BUCKET}/{address}"))

    def pull(
        self, pool: WorkerPool, endpoint: str, address: str, destination: Path, **options: object
    ) -> PullMeasurement:
        plan = self.plan(endpoint, address)
        return measure_pull(pool, plan, Destination(destination), None, **options)  # type: ignore[arg-type]

    def test_every_object_arrives_below_its_prefix_and_is_verified(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        measured = self.pull(pool, endpoint, "images", destination)
        wanted = {
            key[len("images/") :]: content
            for key, content in CONTENT.items()
            if key.startswith("images/")
        }
        assert contents(destination) == wanted
        assert measured.result.bytes == sum(map(len, wanted.values()))
        assert measured.result.objects == 4
        assert dict(measured.verification.count_by_method) == {self.method: 4}
        assert measured.failures == ()
        assert measured.durable_s is not None
        assert 0 < measured.return_s <= measured.durable_s

    def test_an_exact_key_is_one_object(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        self.pull(pool, endpoint, "single", destination)
        assert contents(destination) == {"single": CONTENT["single"]}

    def test_a_listing_of_several_pages_is_complete(self, endpoint: str) -> None:
        plan = self.plan(endpoint, "many/")
        assert [remote.relative_path for remote in plan.objects] == [
            f"{number:04}" for number in range(1203)
        ]

    def test_without_keep_no_file_remains(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        measured = self.pull(pool, endpoint, "images/", destination, keep=False, verify=Verify.SIZE)
        assert dict(measured.verification.count_by_method) == {"size only": 4}
        assert list(destination.iterdir()) == []

    def test_a_file_is_replaced_and_a_symlink_is_not_followed(
        self, pool: WorkerPool, endpoint: str, destination: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("untouched")
        (destination / "single").symlink_to(outside)
        self.pull(pool, endpoint, "single", destination)
        assert (destination / "single").read_bytes() == CONTENT["single"]
        assert not (destination / "single").is_symlink()
        assert outside.read_text() == "untouched"

    @pytest.mark.parametrize(
        ("address", "reason"),
        [
            ("evil", "evil/../../out: has the component '..'"),
            ("absolute", "absolute//etc/passwd: is absolute"),
            ("long", ": has a component longer than 255 bytes"),
            ("both", "both/name: is both a file and a directory"),
            ("", "evil/../../out: has the component '..'"),
        ],
    )
    def test_an_unsafe_key_is_refused_by_name(
        self, endpoint: str, address: str, reason: str
    ) -> None:
        with pytest.raises(UnsafeKeysError) as refused:
            self.plan(endpoint, address)
        assert reason in refused.value.message
        assert "good" not in refused.value.message

    @pytest.mark.parametrize("address", ["nothing", "nothing/", "image", "images/a.bin/"])
    def test_a_prefix_without_objects_is_an_error(self, endpoint: str, address: str) -> None:
        with pytest.raises(PullError, match="has no objects"):
            self.plan(endpoint, address)

    def test_an_unknown_bucket_is_an_error(self, endpoint: str) -> None:
        with pytest.raises(PullError, match="bucket no-such-bucket does not exist"):
            list_plan(S3Access(endpoint), Location("no-such-bucket", ""))

    def test_an_object_deleted_after_the_listing_fails_and_the_others_arrive(
        self, pool: WorkerPool, endpoint: str, destination: Path
    ) -> None:
        known = self.plan(endpoint, "images").objects
        gone = type(known[0])("images/gone", "gone", 1, "0" * 32)
        plan = PullPlan(Location(BUCKET, "images/"), (gone, *known))
        measured = measure_pull(pool, plan, Destination(destination), None)
        assert [(failure.key, failure.reason) for failure in measured.failures] == [
            ("images/gone", "the object no longer exists")
        ]
        assert len(contents(destination)) == 4

    def test_requests_can_go_unsigned(self, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        location = Location(BUCKET, "single")
        assert list_plan(S3Access(endpoint, sign_requests=False), location).bytes == 16
        with pytest.raises(PullError, match="no AWS credentials were found"):
            list_plan(S3Access(endpoint), location)


@pytest.mark.parametrize("client", ["direct", "transfer-manager"])
def test_without_threads_an_object_in_parts_arrives(client: str, destination: Path) -> None:
    name = "images/a.bin"
    with LabBackend({name: CONTENT[name]}).serve() as url:
        plan = list_plan(S3Access(url), Location(BUCKET, ""))
        settings = TransferSettings(use_threads=False, max_concurrency=1, multipart_chunksize=MIB)
        with forked(), WorkerPool(S3Access(url), settings, 1, by_name(client).make) as pool:
            measured = measure_pull(pool, plan, Destination(destination), None)
    assert measured.failures == ()
    assert contents(destination) == {name: CONTENT[name]}
    assert measured.result.requests.count == (20 if client == "direct" else 21)


class TestPullFromTheLab(PullTests):
    backend = LabBackend
    method = "CRC-64/NVME"


class TestPullFromMoto(PullTests):
    backend = MotoBackend
    method = "MD5"


def contents(folder: Path) -> dict[str, bytes]:
    """Relative path → content of every file below `folder`, hidden ones included."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_endpoint_that_is_down_is_one_sentence() -> None:
    with pytest.raises(WritewiseError) as down:
        list_plan(S3Access("http://127.0.0.1:9"), Location(BUCKET, ""))
    assert down.value.message == "the endpoint http://127.0.0.1:9 does not answer"
    assert "--endpoint-url" in down.value.hint


def test_a_name_that_does_not_resolve_is_one_sentence() -> None:
    with pytest.raises(
        PullError, match=r"the endpoint http://no-such-host.invalid does not answer"
    ):
        list_plan(S3Access("http://no-such-host.invalid"), Location(BUCKET, ""))


def test_a_bucket_name_that_s3_does_not_allow_is_one_sentence() -> None:
    with pytest.raises(PullError, match="S3 does not allow this bucket name"):
        list_plan(S3Access("http://127.0.0.1:9"), Location("no|bucket", ""))
