# SPDX-License-Identifier: Apache-2.0
"""Every fault of the server: the object arrives intact, or the pull names the key that failed.

The objects without a fault must arrive, bit by bit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from profiler.lab.s3_faults import Fault
from profiler.lab.s3_protocol import S3Handler
from profiler.lab.s3_server import S3Server
from profiler.pull import distribution
from profiler.pull.access import S3Access
from profiler.pull.clients.program import ProgramClient
from profiler.pull.destination import Destination
from profiler.pull.errors import Explanation, PullError
from profiler.pull.measured import PullMeasurement, measure_pull
from profiler.pull.resume import find_missing
from profiler.pull.settings import TransferSettings
from profiler.pull.source import Location, PullPlan, UnsafeKeysError, list_plan
from profiler.pull.workers import WorkerPool
from tests.s3.conftest import BUCKET, MIB, LabBackend, MotoBackend, pool_for
from tests.s3.faults import serve as serve_by

CONTENT = {
    "bad": os.urandom(MIB),
    "good": os.urandom(MIB),
    "large": os.urandom(20 * MIB + 1),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / BUCKET).mkdir()
    for key, content in CONTENT.items():
        (tmp_path / BUCKET / key).write_bytes(content)
    return tmp_path


@contextlib.contextmanager
def serve(root: Path, *faults: Fault) -> Iterator[str]:
    with S3Server(root, first_byte_latency_s=None, rate_bytes_per_s=None, faults=faults) as server:
        yield server.endpoint_url


def plan_of(url: str) -> PullPlan:
    return list_plan(S3Access(url), Location(BUCKET, ""))


def pull(url: str, destination: Path, plan: PullPlan | None = None) -> PullMeasurement:
    with pool_for(url) as pool:
        return measure_pull(pool, plan or plan_of(url), Destination(destination), None)


def has_exactly(destination: Path, keys: Sequence[str]) -> bool:
    """Return whether exactly these objects are there, bit by bit, and no other file."""
    found = {path.name: path.read_bytes() for path in destination.iterdir()}
    return found == {key: CONTENT[key] for key in keys}


#: Permanent faults, each for its own key.
LASTING = {
    "slow-down": Fault("refuse", status=503, code="SlowDown"),
    "internal-error": Fault("refuse", status=500, code="InternalError"),
    "denied": Fault("refuse", status=403, code="AccessDenied"),
    "vanished": Fault("refuse", status=404, code="NoSuchKey"),
    "customer-key": Fault("refuse", status=400, code="InvalidRequest"),
    "kms-key": Fault("refuse", status=400, code="KMS.DisabledException"),
    "bad-gateway": Fault("refuse", status=504, code="GatewayTimeout"),
    "unknown-code": Fault("refuse", status=418, code="NobodyKnowsIt"),
    "reset": Fault("reset", after_bytes=1000),
    "truncated": Fault("truncate", after_bytes=1000),
    "corrupt": Fault("corrupt", after_bytes=1000),
    "wrong-checksum": Fault("wrong-checksum"),
}
#: Faults that a client survives by a retry; `large` comes in ranges.
PASSING = {
    "slow-down": Fault("refuse", times=2, status=503, code="SlowDown"),
    "internal-error": Fault("refuse", times=2, status=500, code="InternalError"),
    "reset": Fault("reset", times=1, after_bytes=1000),
    "truncated": Fault("truncate", times=1, after_bytes=1000),
    "trickle": Fault("trickle", times=1, after_bytes=MIB - 20, pause_s=0.02),
    "large-reset": Fault("reset", times=2, after_bytes=100_000),
    "large-truncated": Fault("truncate", times=2, after_bytes=100_000),
}


def put(root: Path, faults: dict[str, Fault]) -> list[Fault]:
    """Put an object for each fault, named after its content; return the faults."""
    for name in faults:
        content = CONTENT["large" if name.startswith("large") else "bad"]
        (root / BUCKET / f"bad-{name}").write_bytes(content)
    return [dataclasses.replace(fault, key=f"bad-{name}") for name, fault in faults.items()]


def test_permanent_faults_fail_only_their_keys_and_a_second_pull_repairs_them(
    root: Path, destination: Path
) -> None:
    bad = sorted(f"bad-{name}" for name in LASTING)
    with serve(root, *put(root, LASTING)) as url:
        measured = pull(url, destination)
    assert sorted(failure.key for failure in measured.failures) == bad
    assert has_exactly(destination, list(CONTENT))
    with serve(root) as url, pool_for(url) as pool:
        resumed = find_missing(pool, plan_of(url), Destination(destination))
        assert [remote.key for remote in resumed.missing.objects] == bad
        assert measure_pull(pool, resumed.missing, Destination(destination), None).failures == ()
    for key in bad:
        assert (destination / key).read_bytes() == CONTENT["bad"]


def test_temporary_faults_are_survived(root: Path, destination: Path) -> None:
    with serve(root, *put(root, PASSING)) as url:
        measured = pull(url, destination)
    assert measured.failures == ()
    assert measured.result.objects == len(CONTENT) + len(PASSING)
    for name in PASSING:
        wanted = CONTENT["large" if name.startswith("large") else "bad"]
        assert (destination / f"bad-{name}").read_bytes() == wanted


def test_an_endless_answer_is_given_up_and_the_others_arrive(
    root: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert distribution.MAX_SILENCE_S == 120
    monkeypatch.setattr(distribution, "MAX_SILENCE_S", 1.0)
    endless = [
        Fault("trickle", "bad", after_bytes=10, pause_s=0.1),  # a day for the rest of it
        Fault("silence", "large", after_bytes=10),
    ]
    with serve(root, *endless) as url:
        measured = pull(url, destination)
    assert sorted((each.key, each.reason) for each in measured.failures) == [
        ("bad", "the object was given up: nothing arrived for 1 s"),
        ("large", "the object was given up: nothing arrived for 1 s"),
    ]
    assert has_exactly(destination, ["good"])


def test_a_corrupted_range_is_found_although_ranges_have_no_checksum(
    root: Path, destination: Path
) -> None:
    with serve(root, Fault("corrupt", "large", times=1, after_bytes=5)) as url:
        measured = pull(url, destination)
    assert [failure.key for failure in measured.failures] == ["large"]
    assert has_exactly(destination, ["bad", "good"])


#: For each object and for a listing of one, but not for the listing that a pull begins with.
EXPIRED = Fault("refuse", key="?*", method="*", status=400, code="ExpiredToken")


def test_expired_credentials_end_the_pull_with_a_remedy(root: Path, destination: Path) -> None:
    with serve(root, EXPIRED) as url:
        expired = pytest.raises(PullError, match="the session token has expired")
        with expired as error:
            pull(url, destination)
    assert "new credentials" in error.value.hint
    assert has_exactly(destination, [])


def test_credentials_that_expire_during_the_pull_keep_what_arrived(
    root: Path, destination: Path
) -> None:
    for key in ("not-asked", "nor-this"):
        (root / BUCKET / key).write_bytes(CONTENT["bad"])
    missing = ["large", "nor-this", "not-asked"]
    expired = dataclasses.replace(EXPIRED, key="[ln]*")
    with serve(root, expired) as url, pool_for(url, workers=1, max_concurrency=1) as pool:
        measured = measure_pull(pool, plan_of(url), Destination(destination), None)
        with pytest.raises(PullError, match="the session token has expired"):
            measure_pull(pool, plan_of(url), Destination(destination), None, keep=False)
    assert [(each.key, each.reason) for each in measured.failures] == [
        (key, "the session token has expired") for key in missing
    ]
    assert measured.result.ended_by is not None
    assert "new credentials" in measured.result.ended_by.hint
    assert has_exactly(destination, ["bad", "good"])
    with serve(root) as url, pool_for(url) as pool:
        resumed = find_missing(pool, plan_of(url), Destination(destination))
    assert [remote.key for remote in resumed.missing.objects] == missing


def test_objects_before_the_credentials_expired_are_verified_without_s3(
    root: Path, destination: Path
) -> None:
    """`large` came in ranges: only the listing's MD5 covers the whole object."""
    not_md5 = "an ETag that is no MD5"
    with serve(root) as url:
        plan = plan_of(url)
    expired = [dataclasses.replace(EXPIRED, method=method) for method in ("HEAD", "LIST")]
    with serve(root, *expired) as url:
        measured = pull(url, destination, plan)
        assert measured.failures == ()
        assert measured.verification.count_by_method == {"CRC-64/NVME": 2, "MD5": 1}
        assert has_exactly(destination, list(CONTENT))
        with pool_for(url) as pool, Destination(destination).stage(plan) as staging:
            result = pool.run(staging)
            staging.plan = dataclasses.replace(
                plan,
                objects=tuple(dataclasses.replace(each, etag=not_md5) for each in plan.objects),
            )
            verification = pool.verify(staging, dataclasses.replace(result, answers={}))
    assert len(verification.failures) == 3
    assert all(
        each.reason == "it could not be verified: the session token has expired"
        for each in verification.failures
    )


def test_a_whole_object_without_a_checksum_is_not_verified_by_its_size(
    root: Path, destination: Path
) -> None:
    """Objects uploaded in parts come like this: the answer alone proves nothing."""
    of_parts = f"{'0' * 32}-2"
    with serve(root) as url:
        plan = plan_of(url)
        with pool_for(url) as pool, Destination(destination).stage(plan) as staging:
            result = pool.run(staging)
            objects = tuple(dataclasses.replace(each, etag=of_parts) for each in plan.objects)
            staging.plan = dataclasses.replace(plan, objects=objects)
            answers = {
                number: {"ContentLength": objects[number].size_bytes, "ETag": f'"{of_parts}"'}
                for number in result.arrived
            }
            ended_by = Explanation("the session token has expired")
            ended = dataclasses.replace(result, answers=answers, ended_by=ended_by)
            verification = pool.verify(staging, ended)
    assert {each.reason for each in verification.failures} == {
        "it could not be verified: the session token has expired"
    }
    assert has_exactly(destination, [])


def test_a_head_refused_without_a_code_fails_only_its_key_while_s3_lists_it(
    root: Path, destination: Path
) -> None:
    """Only `large` needs a HeadObject: the others' checksums came with their bytes."""
    with serve(root, dataclasses.replace(EXPIRED, method="HEAD")) as url:
        measured = pull(url, destination)
    assert [each.key for each in measured.failures] == ["large"]
    assert "HTTP 400" in measured.failures[0].reason
    assert has_exactly(destination, ["bad", "good"])


class ClosingOne(S3Handler):
    """Closes the connection without an answer for one object."""

    def send_object(self, bucket: str, key: str) -> None:
        if key == "bad":
            self.close_connection = True
        else:
            super().send_object(bucket, key)


def test_a_connection_closed_for_one_key_fails_only_that_key(root: Path, destination: Path) -> None:
    with serve_by(ClosingOne, root) as url:
        measured = pull(url, destination)
    assert [each.key for each in measured.failures] == ["bad"]
    assert has_exactly(destination, ["good", "large"])


def test_a_lost_network_keeps_what_arrived(
    root: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    shape = {"first_byte_latency_s": 0.01, "rate_bytes_per_s": 10e6}
    with contextlib.ExitStack() as network:
        server = network.enter_context(S3Server(root, **shape))  # type: ignore[arg-type]

        def go(_: object, progress: object) -> None:
            if getattr(progress, "objects", 0) == 2:
                network.close()

        with pool_for(server.endpoint_url) as pool:
            plan = plan_of(server.endpoint_url)
            measured = measure_pull(pool, plan, Destination(destination), None, on_phase=go)
    assert [failure.key for failure in measured.failures] == ["large"]
    assert measured.result.ended_by is not None
    assert has_exactly(destination, ["bad", "good"])


def test_an_object_that_changes_between_its_ranges_fails_and_the_others_arrive(
    root: Path, destination: Path
) -> None:
    """Each part takes 0.2 s and one is fetched at a time; the object is replaced in between."""
    replacement = root / "replacement"
    replacement.write_bytes(os.urandom(len(CONTENT["large"])))
    with S3Server(root, first_byte_latency_s=0.05, rate_bytes_per_s=40e6) as server:
        url = server.endpoint_url
        plan = plan_of(url)
        with pool_for(url, workers=1, max_concurrency=1) as pool:

            def replace_once(_: object, progress: object) -> None:
                done_bytes = getattr(progress, "bytes", 0)
                if done_bytes > 4 * MIB and replacement.exists():
                    replacement.replace(root / BUCKET / "large")

            measured = measure_pull(
                pool, plan, Destination(destination), None, on_phase=replace_once
            )
    assert not replacement.exists()
    assert [(each.key, each.reason) for each in measured.failures] == [
        ("large", "the object was replaced while it was pulled")
    ]
    assert has_exactly(destination, ["bad", "good"])


class KeyTests:
    """Keys that are not like file names, with any server."""

    backend: ClassVar[type[LabBackend] | type[MotoBackend]]

    names: ClassVar[tuple[str, ...]] = (
        *("a space", " leading", "trailing ", "tab\there", "quote'\"", "back\\slash"),
        *("uni-é-中-😀", "e\u0301", "%2e%2e", "*?[a]", "-rf", "semi;colon&amp", "~"),
        *("...", "\u202eright-to-left", "plus+", "hash#?query=1"),
        "/".join(["d" * 100] * 10)[:1024],
        "n" * 255,
    )

    def test_strange_keys_arrive_under_their_names(self, destination: Path) -> None:
        content = {key: key.encode() for key in self.names}
        with self.backend(content).serve() as url:
            measured = pull(url, destination)
        assert measured.failures == ()
        for key, wanted in content.items():
            assert (destination / key).read_bytes() == wanted

    refused: ClassVar[tuple[str, ...]] = (
        *("../up", "a/../../up", "/absolute", "n" * 256, "empty//component", "folder/", "both"),
    )

    def test_a_key_outside_the_destination_is_named_and_the_others_arrive(
        self, destination: Path
    ) -> None:
        content = {"both/file": b"x", "folder/file": b"x"}
        with self.backend({**content, **dict.fromkeys(self.refused, b"bytes")}).serve() as url:
            with pytest.raises(UnsafeKeysError) as refused:
                plan_of(url)
            plan = list_plan(S3Access(url), Location(BUCKET, ""), needs_all=False)
            measured = pull(url, destination, plan)
        assert len(refused.value.problems) == len(self.refused)
        assert sorted(failure.key for failure in measured.failures) == sorted(self.refused)
        found = [path for path in destination.rglob("*") if path.is_file()]
        assert {str(path.relative_to(destination)): path.read_bytes() for path in found} == content

    def test_a_folder_marker_is_skipped(self, destination: Path) -> None:
        with self.backend({"folder/": b"", "folder/file": b"x"}).serve() as url:
            assert pull(url, destination).failures == ()
        assert (destination / "folder/file").read_bytes() == b"x"

    def test_a_program_gets_no_prefix_with_such_keys_in_it(self, destination: Path) -> None:
        with self.backend({"good": b"x", "../up": b"x"}).serve() as url:
            plan = list_plan(S3Access(url), Location(BUCKET, ""), needs_all=False)
            refused = pytest.raises(UnsafeKeysError)
            with WorkerPool(S3Access(url), TransferSettings(), 1, ProgramClient) as pool, refused:
                measure_pull(pool, plan, Destination(destination), None)
        assert list(destination.iterdir()) == []

    def test_a_key_deleted_after_the_listing_fails_and_the_others_arrive(
        self, destination: Path
    ) -> None:
        with self.backend(CONTENT).serve() as url:
            plan = plan_of(url)
        left = {key: content for key, content in CONTENT.items() if key != "bad"}
        with self.backend(left).serve() as url:
            plan_of(
                url
            )  # moto computes an ETag at the first request for it, for one request at a time
            measured = pull(url, destination, plan)
        assert [(each.key, each.reason) for each in measured.failures] == [
            ("bad", "the object no longer exists")
        ]
        assert has_exactly(destination, ["good", "large"])

    def test_a_key_changed_after_the_listing_fails_and_the_others_arrive(
        self, destination: Path
    ) -> None:
        with self.backend(CONTENT).serve() as url:
            plan = plan_of(url)
        with self.backend({**CONTENT, "bad": os.urandom(MIB)}).serve() as url:
            plan_of(url)
            measured = pull(url, destination, plan)
        assert [each.key for each in measured.failures] == ["bad"]
        assert has_exactly(destination, ["good", "large"])


class TestKeysOfOurServer(KeyTests):
    backend = LabBackend
    names = (*KeyTests.names, "new\nline", "esc\x7f")  # moto has no route for a newline


class TestKeysOfMoto(KeyTests):
    backend = MotoBackend


def test_a_hundred_thousand_keys_are_all_in_the_plan(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x")
    keys = {f"{number % 100:02}/{number:06}": "one" for number in range(100_000)}
    with S3Server(
        tmp_path, first_byte_latency_s=None, rate_bytes_per_s=None, index={BUCKET: keys}
    ) as server:
        plan = plan_of(server.endpoint_url)
    assert {remote.key for remote in plan.objects} == set(keys)
    assert plan.bytes == len(plan.objects) == 100_000
