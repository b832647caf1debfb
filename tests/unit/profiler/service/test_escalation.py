# SPDX-License-Identifier: Apache-2.0
"""When calls are counted for a while: the beginning of stalls, the end, and the rest."""

from __future__ import annotations

from profiler.service.escalation import Escalation

SECOND = 10**9


def steps(stalled_ns_per_s, duration_s=30, seconds=200):
    """Return for each second whether calls are counted."""
    escalation, planned_ns, found = Escalation(duration_s * SECOND), 0, []
    for second in range(seconds):
        planned_ns += stalled_ns_per_s(second)
        found.append(escalation.step(second * SECOND, planned_ns))
    return found


def test_without_stalls_nothing_is_counted() -> None:
    assert not any(steps(lambda _: 0))


def test_a_short_stall_is_none() -> None:
    assert not any(steps(lambda second: 400_000_000 if second == 10 else 0))


def test_it_begins_with_the_stalls_and_ends_by_itself() -> None:
    found = steps(lambda second: 600_000_000 if second in (10, 11) else 0)
    assert [at for at, counts in enumerate(found) if counts] == list(range(10, 40))


def test_stalls_that_never_end_are_counted_half_of_the_time() -> None:
    found = steps(lambda _: 900_000_000, seconds=600)
    assert 0.4 <= sum(found) / len(found) <= 0.55
    assert found[5:30] == [True] * 25
    assert found[35:58] == [False] * 23


def test_what_was_before_the_watch_began_does_not_count() -> None:
    escalation = Escalation(SECOND)
    assert not escalation.step(0, 10**15)
    assert not escalation.step(SECOND, 10**15)
