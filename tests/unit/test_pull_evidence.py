from __future__ import annotations

import pytest

from profiler.pull.evidence import Limit, PullEvidence, advise, gather
from profiler.pull.results import PullResult, RequestTimes

MIB = 2**20


def result(
    first_byte_s: float = 6.0, body_s: float = 2.0, cpu_s: float | None = 1.0, size: int = MIB
) -> PullResult:
    """100 objects in 4 s."""
    requests = RequestTimes(200, first_byte_s, body_s)
    return PullResult(
        *(0, 4.0, 100 * size, tuple(range(100)), ()), requests=requests, cpu_seconds=cpu_s
    )


def evidence_of(stalled: float | None = None, **figures: float) -> PullEvidence:
    found = gather(result(**figures), 2, stalled, cpu_count=4)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_figures_are_those_of_the_pull() -> None:
    found = evidence_of(stalled=0.1)
    assert found.requests_per_s == 50
    assert found.first_byte_share == 0.75
    assert found.mean_first_byte_seconds == 0.03
    assert found.mean_object_bytes == MIB
    assert found.cpu_share == 1.0 / (4.0 * 2)  # two workers use two of the four cores at most
    assert found.stalled_share == 0.1


@pytest.mark.parametrize(
    ("stalled", "figures", "limit"),
    [
        (None, {}, Limit.LATENCY),
        (0.24, {}, Limit.LATENCY),
        (None, {"first_byte_s": 1.9}, Limit.BANDWIDTH),
        (None, {"cpu_s": 7.0}, Limit.CPU),
        (0.25, {"cpu_s": 7.0}, Limit.DISK),
        (None, {"cpu_s": None}, Limit.LATENCY),
    ],
)
def test_the_limit_is_the_first_that_applies(
    stalled: float | None, figures: dict[str, float], limit: Limit
) -> None:
    assert evidence_of(stalled, **figures).limit is limit


def test_small_files_are_to_be_gathered_and_the_gain_is_estimated() -> None:
    assert "TAR shards instead of files of 1.00 MiB: they save up to about 75% of" in advise(
        evidence_of()
    )
    assert "TAR" not in advise(evidence_of(size=8 * MIB))


@pytest.mark.parametrize("stalled", [None, 0.5])
@pytest.mark.parametrize("figures", [{}, {"body_s": 60.0}, {"cpu_s": 8.0}])
def test_each_limit_has_an_advice(stalled: float | None, figures: dict[str, float]) -> None:
    assert advise(evidence_of(stalled, **figures))


def test_without_requests_or_objects_there_is_no_evidence() -> None:
    assert gather(PullResult(0, 1.0, 1, (0,), ()), 2, None) is None
    assert gather(PullResult(0, 0.0, 0, (), (), requests=RequestTimes(1, 1, 1)), 2, None) is None
