# SPDX-License-Identifier: Apache-2.0
"""The recheck: which finalists get more pairs with the current settings, and until when."""

from __future__ import annotations

import pytest

from sysctl.evidence.comparison import MAX_PAIRS, Verdict, compare, error_of_each
from sysctl.evidence.runs import Runs
from sysctl.sweep import recheck
from tests.unit.studies import Study, ratio
from tests.unit.sweeps import PRESENT as NOW

A, B = ratio(40), ratio(60)


def rechecked(times_s, present_s=None):
    """Return pairs of A with current runs of 20 s each, unless other times are given."""
    present_s = present_s or [20.0, 20.1, 19.9, 20.0, 20.1, 19.9][: len(times_s)]
    return Study().candidate(A, times_s[0]).recheck(A, times_s, present_s).results


@pytest.mark.parametrize(
    ("times_s", "goes_on"),
    [
        ([10.0], True),
        ([30.0], True),  # one pair is not enough for a comparison
        ([10.0, 10.1], False),  # faster
        ([18.0, 13.0], True),  # it may be
        ([30.0, 30.1], True),  # slower: no gain is shown with as many pairs as a gain may have
        ([19.6, 19.5], True),  # faster by less than 5 %, if at all
        ([19.0, 19.2], True),  # by about as much
        ([21.0, 14.0, 20.5, 13.5, 22.0], True),
        ([21.0, 14.0, 20.5, 13.5, 22.0, 14.0], False),  # enough
    ],
)
def test_more_pairs_follow_until_they_show_a_gain(times_s, goes_on):
    results = rechecked(times_s)
    assert recheck.members(Runs.of(results), NOW, [A]) == ([NOW, A] if goes_on else [])


def test_without_finalists_there_is_no_block():
    assert recheck.members(Study().runs, NOW, []) == []


@pytest.mark.parametrize(
    ("times_s", "goes_on"),
    [
        ([30.0, 30.1], False),  # slower
        ([19.6, 19.5], False),  # faster by less than 5 %, if at all
        ([19.0, 19.2], True),  # by about as much
    ],
)
def test_once_another_setting_is_faster_more_pairs_follow_only_for_a_gain(times_s, goes_on):
    study = Study().recheck(B, [10.0, 10.1])
    study.recheck(A, times_s, [20.0, 20.1])
    assert recheck.members(study.runs, NOW, [B, A]) == ([NOW, A] if goes_on else [])


def test_only_the_open_finalists_are_in_the_next_block():
    study = Study()
    study.recheck(A, [10.0, 10.1]).recheck(B, [18.0, 13.0])
    assert recheck.members(study.runs, NOW, [A, B]) == [NOW, B]


def test_of_several_finalists_each_must_be_clearer_than_one_alone():
    """They share one error probability, as in the advice."""
    results = rechecked([17.0, 18.0, 16.9], [20.0, 20.5, 19.5])
    assert compare(Runs.of(results), A).verdict is Verdict.FASTER
    assert compare(Runs.of(results), A, error=error_of_each(5)).verdict is not Verdict.FASTER
    others = [ratio(dirty) for dirty in (50, 60, 70, 80)]
    assert A not in recheck.members(Runs.of(results), NOW, [A])
    assert A in recheck.members(Runs.of(results), NOW, [A, *others])


def test_the_most_pairs_are_those_of_the_finalist():
    """Blocks of the present settings with something else, as extras have, are not its own."""
    study = Study()
    study.recheck(B, [18.0, 13.0] * (MAX_PAIRS // 2))
    assert recheck.members(study.runs, NOW, [B]) == []
    study.recheck(A, [21.0, 14.0])
    assert recheck.members(study.runs, NOW, [A]) == [NOW, A]


def test_a_finalist_that_fails_in_every_block_is_given_up():
    study = Study()
    for pair in range(MAX_PAIRS):
        assert A in recheck.members(study.runs, NOW, [A])
        study.add("present", NOW, 20.0, pair).add("recheck", A, 1.0, pair, "disturbed")
    assert recheck.members(study.runs, NOW, [A]) == []
