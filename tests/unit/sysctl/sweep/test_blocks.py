# SPDX-License-Identifier: Apache-2.0
"""Blocks: every member once, in an order that favours none, from the results alone."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from sysctl.evidence.protocol import ATTEMPTS
from sysctl.evidence.results import PRICE, RECHECK, Results
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.sweep.blocks import next_run
from tests.unit.studies import Study, ratio

A, B, C, D = (ratio(dirty) for dirty in (20, 40, 60, 80))


def run_all(members, fails=lambda setting, block: False):
    """Run blocks until none is due; each run that `fails` does so as often as it is tried."""
    study = Study()
    for _ in range(500):
        due = next_run(study.runs, members)
        if due is None:
            return study.results
        for _ in range(ATTEMPTS if fails(*due) else 1):
            study.add(RECHECK, due[0], 5.0, due[1], problem="disturbed" * fails(*due))
    raise AssertionError("it never ends")


def until(count, *members):
    """The same members for so many blocks."""
    return lambda known: members if len(blocks(known)) < count else ()


def blocks(results: Results) -> list[list[Setting]]:
    """The settings of each block in the order in which they ran, failed attempts once."""
    runs = [(t.pair, t.setting) for t in results.trials if t.pair is not None]
    runs = list(dict.fromkeys(runs))
    return [[s for _, s in group] for _, group in itertools.groupby(runs, lambda run: run[0])]


def test_without_members_nothing_is_due():
    assert next_run(Study().runs, lambda known: ()) is None


def test_each_block_has_every_member_once_and_its_own_number():
    results = run_all(until(5, A, B, C))
    assert all(sorted(block, key=str) == [A, B, C] for block in blocks(results))
    numbers = [trial.pair for trial in results.trials if trial.pair is not None]
    assert numbers == [block for block in range(5) for _ in range(3)]


def test_every_second_block_is_the_reverse_of_the_one_before_it():
    made = blocks(run_all(until(8, A, B, C, D)))
    assert all(made[at + 1] == made[at][::-1] for at in range(0, 8, 2))
    assert len({tuple(block) for block in made[::2]}) > 1, "and the order is drawn anew"


def test_after_an_even_number_of_blocks_each_ran_as_often_before_another_as_after_it():
    made = blocks(run_all(until(10, A, B, C, D)))
    for one, other in itertools.permutations((A, B, C, D), 2):
        assert sum(block.index(one) < block.index(other) for block in made) == 5


def test_from_the_middle_of_any_block_it_goes_on_as_it_would_have():
    members = until(4, A, B, C)
    results = run_all(members)
    whole = results.trials
    for at in range(2, len(whole)):
        known = replace(results, trials=whole[:at])
        assert next_run(Runs.of(known), members) == (whole[at].setting, whole[at].pair)


def test_a_run_that_failed_for_good_does_not_end_its_block():
    results = run_all(until(3, A, B, C), lambda setting, block: (setting, block) == (B, 1))
    assert [len(block) for block in blocks(results)] == [3, 3, 3]
    assert sum(bool(trial.problem) for trial in results.trials) == ATTEMPTS


def test_members_are_those_of_when_the_block_began_whatever_its_own_runs_say():
    """A member that is decided by its run in a block is in that block still."""

    def members(known):
        ran = [trial.setting for trial in known.trials if trial.pair is not None]
        return [each for each in (A, B, C) if ran.count(each) < (1 if each == C else 2)]

    made = blocks(run_all(members))
    assert [sorted(block, key=str) for block in made] == [[A, B, C], [A, B]]


@pytest.mark.parametrize("count", [1, 3])
def test_a_run_after_the_blocks_does_not_change_what_they_were(count):
    """As the price run at the end, after which the members may be judged to be others."""

    def members(known):
        is_over = len(blocks(known)) == count
        return () if is_over else (A, B, *[C] * any(t.role == PRICE for t in known.trials))

    results = run_all(members)
    results.trials.append(replace(results.trials[-1], role=PRICE, pair=None))
    assert next_run(Runs.of(results), members) is None


def test_a_member_that_drops_out_leaves_the_order_of_the_others_balanced():
    def members(known):
        done = len(blocks(known))
        return () if done == 4 else (A, B, C) if done < 2 else (A, B)

    made = blocks(run_all(members))
    assert [len(block) for block in made] == [3, 3, 2, 2]
    assert made[3] == made[2][::-1]
