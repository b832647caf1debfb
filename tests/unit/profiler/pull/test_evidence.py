# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from profiler.pull.evidence import Limit, PullEvidence, advise, gather
from profiler.pull.object_sizes import histogram, small_request_share
from profiler.pull.result import PullResult, RequestTimes

KIB, MIB = 2**10, 2**20


def result(
    first_byte_s: float = 6.0,
    body_s: float = 2.0,
    cpu_s: float | None = 1.0,
    size: int = MIB,
    *,
    write_s: float = 0.0,
    repeated_s: float = 0.0,
    slow_downs: int = 0,
    busy: float | None = None,
) -> PullResult:
    """100 objects in 4 s."""
    requests = RequestTimes(200, first_byte_s, body_s, write_s, repeated_s, slow_downs)
    return PullResult(
        *(0, 4.0, 100 * size, tuple(range(100)), ()),
        requests=requests,
        cpu_s=cpu_s,
        sizes_bytes=(size,) * 100,
        host_busy_share=busy,
    )


def evidence_of(stalled: float | None = None, **figures: float) -> PullEvidence:
    found = gather(result(**figures), 2, stalled, cpu_count=4)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_figures_are_those_of_the_pull() -> None:
    found = evidence_of(stalled=0.1)
    assert found.requests_per_s == 50
    assert found.first_byte_share == 0.75
    assert found.mean_first_byte_s == 0.03
    assert found.mean_object_bytes == MIB
    assert found.cpu_share == 1.0 / (4.0 * 2)  # two workers use two of the four cores at most
    assert found.stalled_share == 0.1


@pytest.mark.parametrize(
    ("stalled", "figures", "limit"),
    [
        (None, {}, Limit.LATENCY),
        (0.24, {}, Limit.LATENCY),
        (None, {"first_byte_s": 1.9, "body_s": 2.1}, Limit.BANDWIDTH),
        (None, {"cpu_s": 7.0}, Limit.CPU),
        (0.25, {"cpu_s": 7.0}, Limit.DISK),
        (None, {"cpu_s": None}, Limit.LATENCY),
        (None, {"busy": 0.89}, Limit.LATENCY),
        (None, {"busy": 0.9}, Limit.CPU),
        (None, {"write_s": 7.9}, Limit.LATENCY),
        (None, {"write_s": 8.0}, Limit.WRITES),
        (None, {"repeated_s": 2.6}, Limit.LATENCY),
        (None, {"repeated_s": 2.7}, Limit.ERRORS),
        (None, {"repeated_s": 2.7, "slow_downs": 1}, Limit.THROTTLED),
        (None, {"first_byte_s": 2.0}, Limit.LATENCY),
        (None, {"first_byte_s": 1.9}, Limit.IDLE),
    ],
)
def test_the_limit_is_the_first_that_applies(
    stalled: float | None, figures: dict[str, float], limit: Limit
) -> None:
    assert evidence_of(stalled, **figures).limit is limit


def test_small_files_are_to_be_gathered_and_the_gain_is_estimated() -> None:
    wanted = "TAR shards instead of 100 files of 1.00 MiB on average, which save up to 75% of the"
    assert wanted in advise(evidence_of())
    assert "larger parts" not in advise(evidence_of())
    large = advise(evidence_of(size=8 * MIB))
    assert "TAR" not in large
    assert "larger parts" in large


def mixed(small: int, large_bytes: int, requests: int) -> PullEvidence:
    """Files of 10 KiB next to one large object: the mean hides both."""
    sizes_bytes = (10 * KIB,) * small + (large_bytes,)
    pulled = PullResult(
        *(0, 4.0, sum(sizes_bytes), tuple(range(small + 1)), ()),
        requests=RequestTimes(requests, 6.0, 2.0),
        sizes_bytes=sizes_bytes,
    )
    found = gather(pulled, 2, None)
    assert found is not None
    return found


def test_small_files_are_noticed_next_to_a_large_one() -> None:
    found = mixed(10_000, 100 * 2**30, 22_800)
    assert found.mean_object_bytes > 8 * MIB
    assert found.small_request_share == pytest.approx(10_000 / 22_800)
    advice = advise(found)
    assert "TAR shards instead of 10,000 files of 10.0 KiB on average" in advice
    assert "save up to 33% of" in advice  # 44 % of the requests, in which 75 % of the time went by
    assert "larger parts" in advice
    few = advise(mixed(1, 100 * 2**30, 12_801))
    assert "TAR" not in few
    assert "larger parts" in few


def test_the_histogram_has_every_object_and_byte_once() -> None:
    sizes_bytes = [0, 2 * KIB - 1, 2 * KIB, 8 * MIB - 1, 8 * MIB, 4 * 2**30, 2**40]
    buckets = histogram(sizes_bytes)
    assert [each.objects for each in buckets] == [2, 1, 0, 0, 1, 1, 0, 0, 2]
    assert sum(each.bytes for each in buckets) == sum(sizes_bytes)
    assert [each.from_bytes for each in buckets[1:]] == [each.below_bytes for each in buckets[:-1]]
    assert (buckets[0].from_bytes, buckets[-1].below_bytes) == (0, None)


@pytest.mark.parametrize(
    ("sizes_bytes", "requests", "share"),
    [
        ([MIB] * 10, 10, 1.0),
        ([MIB] * 10, 20, 1.0),  # a HeadObject for each
        ([MIB] * 10 + [80 * MIB], 20, 0.5),
        ([MIB] * 10 + [80 * MIB], 12, 10 / 12),  # in parts of 64 MiB
        ([8 * MIB], 1, 0.0),
        ([], 0, 0.0),
    ],
)
def test_the_share_of_requests_for_small_objects(
    sizes_bytes: list[int], requests: int, share: float
) -> None:
    assert small_request_share(sizes_bytes, requests) == pytest.approx(share)


@pytest.mark.parametrize("stalled", [None, 0.5])
@pytest.mark.parametrize(
    "figures",
    [
        *({}, {"body_s": 60.0}, {"cpu_s": 8.0}, {"write_s": 60.0}, {"first_byte_s": 0.0}),
        *({"repeated_s": 9.0}, {"repeated_s": 9.0, "slow_downs": 1}),
    ],
)
def test_each_limit_has_an_advice(stalled: float | None, figures: dict[str, float]) -> None:
    assert advise(evidence_of(stalled, **figures))


def test_without_requests_or_objects_there_is_no_evidence() -> None:
    assert gather(PullResult(0, 1.0, 1, (0,), ()), 2, None) is None
    assert gather(PullResult(0, 0.0, 0, (), (), requests=RequestTimes(1, 1, 1)), 2, None) is None
