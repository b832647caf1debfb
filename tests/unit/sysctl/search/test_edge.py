# SPDX-License-Identifier: Apache-2.0
"""The edge search: two ladders of round thresholds, and the walk to the smallest that suffices."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sysctl.evidence.price import Limits
from sysctl.evidence.protocol import ATTEMPTS, to_repeat
from sysctl.evidence.results import CANDIDATE, PRESENT, PRICE, Results, Trial
from sysctl.evidence.runs import Runs
from sysctl.knobs.writeback import PAGE_BYTES, effective_thresholds
from sysctl.search.edge import EdgeSearch, ladders_of
from tests.unit.studies import BURST, Study, observed
from tests.unit.sweeps import CIRCUMSTANCES, GIB
from tests.unit.sweeps import PRESENT as NOW

MIB = 2**20
MEMORY = 4 * GIB


def host(dirty, background, form="ratio"):
    """Thresholds in force, in one form."""
    return {f"vm.dirty_{form}": dirty, f"vm.dirty_background_{form}": background}


def made(present, memory=MEMORY, allowed=None, pulled=BURST):
    return ladders_of(present, memory, Limits(max_at_risk_bytes=allowed), pulled)


def rungs(*arguments, **others):
    """Both ladders, with the dirty and the background threshold of each rung."""
    ladders = made(*arguments, **others)
    return [[tuple(rung.values.values()) for rung in ladder] for ladder in ladders]


def freerun(setting, memory=MEMORY):
    return effective_thresholds(setting.values, memory).freerun_bytes


# --- the ladders ------------------------------------------------------------------------------

AT_DEFAULT = [
    [(30, 10), (40, 10), (50, 10), (60, 10), (75, 10), (90, 10)],
    [(75, 37), (90, 45)],
]


def test_the_dirty_ratio_is_raised_alone_and_then_with_half_of_it_as_background():
    assert rungs(host(20, 10)) == AT_DEFAULT
    [names] = {tuple(rung.values) for ladder in made(host(20, 10)) for rung in ladder}
    assert names == ("vm.dirty_ratio", "vm.dirty_background_ratio")


@pytest.mark.parametrize("pages", [100, 2**20, 2**20 + 1, 2**20 + 13, 4_089_446, 2**28 - 1])
def test_the_same_ratios_are_tried_however_much_memory_there_is(pages):
    assert rungs(host(20, 10), memory=pages * PAGE_BYTES) == AT_DEFAULT


def test_a_host_with_bytes_is_given_round_bytes_four_to_a_doubling():
    first, second = rungs(host(GIB, GIB // 2, "bytes"))
    assert [dirty / GIB for dirty, _ in first] == [1.25, 1.5, 1.75, 2, 2.5, 3, 3.5]
    assert {background for _, background in first} == {GIB // 2}
    assert second == [(3 * GIB, 3 * GIB // 2), (7 * GIB // 2, 7 * GIB // 4)]


def test_a_host_with_little_more_memory_is_given_the_same_bytes():
    present = host(GIB, GIB // 2, "bytes")
    assert rungs(present, memory=MEMORY + 100 * MIB + 7 * PAGE_BYTES) == rungs(present)


PRESENT_ONES = (
    *(host(20, 10), host(5, 1), host(20, 40), host(60, 50), host(20, 0), host(95, 10)),
    *(host(90, 10), host(64 * MIB, 32 * MIB, "bytes"), {"vm.dirty_ratio": 20}),
    {"vm.dirty_bytes": GIB, "vm.dirty_background_ratio": 5},
)


@pytest.mark.parametrize("present", PRESENT_ONES, ids=str)
@pytest.mark.parametrize("allowed", [None, 700 * MIB])
def test_each_rung_is_valid_is_not_in_force_and_lets_more_be_dirty(present, allowed):
    every = [rung for ladder in made(present, allowed=allowed) for rung in ladder]
    assert every
    heights = [freerun(rung) for rung in every]
    assert heights == sorted(set(heights))
    for rung in every:
        values = rung.values
        at = effective_thresholds(values, MEMORY)
        assert values != present
        assert at.background_bytes < at.dirty_bytes <= (allowed or 0.9 * MEMORY)
        assert len(values) == 2, "of each pair one member: the two are measured together"


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        # the kernel uses half of the dirty threshold where the background one is not below it
        (host(20, 40), [[(50, 40), (60, 40), (75, 40), (90, 40)], [(90, 45)]]),
        (host(60, 50), [[(75, 50), (90, 50)]]),
        (host(85, 10), [[(90, 10)], [(90, 45)]]),
        (host(90, 10), [[(90, 45)]]),
        (host(90, 45), []),
        (host(90, 60), []),
    ],
    ids=str,
)
def test_a_high_current_threshold_leaves_the_rungs_above_it(present, expected):
    assert rungs(present) == expected


def test_above_90_percent_the_highest_rungs_are_at_it():
    """More is not tried: the kernel would reclaim memory instead of making writers wait."""
    assert [ladder[-1] for ladder in rungs(host(95, 10))] == [(90, 10), (90, 45)]


def test_without_a_background_threshold_it_stays_at_none():
    assert rungs({"vm.dirty_ratio": 20})[0][0] == (30, 0)
    assert made({"vm.dirty_ratio": 20})[0][0].values["vm.dirty_background_ratio"] == 0


def test_a_background_ratio_stays_a_ratio_next_to_dirty_bytes():
    present = {"vm.dirty_bytes": GIB, "vm.dirty_background_ratio": 40}
    first, second = made(present)
    assert first[0].values == {"vm.dirty_bytes": 7 * GIB // 4, "vm.dirty_background_ratio": 40}
    assert set(second[0].values) == {"vm.dirty_bytes", "vm.dirty_background_bytes"}


@pytest.mark.parametrize(
    ("present", "allowed", "expected"),
    [
        # with room for 5 %
        (host(20, 10), GIB, [[(23, 10)], [(23, 11)]]),
        (host(10, 5), 1300 * MIB, [[(20, 5), (30, 5)], [(30, 15)]]),
        (host(10, 5), 1350 * MIB, [[(20, 5), (30, 5), (31, 5)], [(30, 15), (31, 15)]]),
        (host(20, 10), 600 * MIB, [[(13, 10)]]),  # the present one is above the limit
        (host(20, 10), 30 * MIB, []),  # less than one per cent
        (host(20, 10), 0, []),
    ],
    ids=str,
)
def test_a_limit_ends_the_ladders_at_the_highest_ratio_that_keeps_it(present, allowed, expected):
    assert rungs(present, allowed=allowed) == expected


def test_a_limit_in_bytes_is_the_highest_rung_itself_with_room_for_five_percent():
    present = host(GIB, GIB // 2, "bytes")
    first, second = rungs(present, allowed=1680 * MIB)
    assert [dirty // MIB for dirty, _ in first] == [1280, 1536, 1600]
    assert second[-1] == (1600 * MIB, 800 * MIB)
    assert rungs(present, allowed=1680 * MIB + 1)[0] == first, "in whole pages"
    odd = 1600 * MIB + PAGE_BYTES
    allowed = 1680 * MIB + 2 * PAGE_BYTES
    assert rungs(present, allowed=allowed)[1][-1] == (odd, 800 * MIB), "half of it too"
    assert rungs(present, allowed=PAGE_BYTES - 1) == []


def test_a_limit_that_the_whole_pull_is_below_limits_nothing():
    assert rungs(host(20, 10), allowed=BURST) == AT_DEFAULT
    assert rungs(host(20, 10), allowed=BURST - 1) != AT_DEFAULT
    assert rungs(host(20, 10), allowed=100 * GIB, pulled=200 * GIB) == AT_DEFAULT


# --- the search -------------------------------------------------------------------------------

FIRST, SECOND = made(NOW.values)
TOP, OTHER_TOP = FIRST[-1], SECOND[-1]
SEARCH = EdgeSearch((FIRST, SECOND))
STOPPED = Trial(CANDIDATE, NOW, "now", None, stopped_s=12.0)
FAILED = Trial(CANDIDATE, NOW, "now", None, "the endpoint is down")


def ran(return_s=5.0, stall=0.0, peak=GIB, **changes):
    """A run of a candidate; the present settings took 20 s."""
    fields = {"stall_share": stall, "peak_dirty_bytes": peak, "bytes": BURST, **changes}
    return Trial(CANDIDATE, NOW, "now", observed(return_s, NOW, **fields))


def waits_below(edge_bytes, peak_bytes=None):
    """Writers wait where freerun is below `edge_bytes`; what was dirty points to it, or elsewhere.

    A freerun of just as much as was dirty is not above it, so one byte less is dirty.
    """
    peak = edge_bytes - 1 if peak_bytes is None else peak_bytes

    def answer(setting, run):
        if freerun(setting) < edge_bytes:
            return ran(15.0, 0.3, freerun(setting))
        return ran(peak=peak)

    return answer


def search(answer, results=None, at_most=60, search=SEARCH):
    """The search to its end, or `at_most` trials of it: `answer(setting, run)` gives a trial."""
    results = results or Study().results
    for _ in range(at_most):
        failed = to_repeat(results.trials)
        runs = Runs.of(results)
        setting = failed.setting if failed else search.next_setting(runs)
        assert failed or (setting is None) == (search.remaining(runs) == 0)
        if setting is None:
            return results
        run = 1 + sum(t.setting == setting for t in Runs.of(results).of_role(CANDIDATE))
        results.trials.append(replace(answer(setting, run), setting=setting))
    return results


def tried(results):
    return [trial.setting for trial in Runs.of(results).of_role(CANDIDATE)]


def next_of(results):
    return SEARCH.next_setting(Runs.of(results))


def found(results, search=SEARCH):
    return list(search.finalists(Runs.of(results)))


def fewest(ladder, edge):
    """The top, the rung sought and the one below it that shows that it is the edge."""
    at = [len(ladder) - 1, edge, edge - 1]
    return [ladder[each] for each in dict.fromkeys(at) if each >= 0]


@pytest.mark.parametrize("edge", range(len(FIRST)))
def test_the_edge_is_found_in_three_trials_wherever_it_is(edge):
    results = search(waits_below(freerun(FIRST[edge])))
    assert tried(results) == fewest(FIRST, edge)
    assert found(results) == [FIRST[edge]]


@pytest.mark.parametrize("edge", range(len(SECOND)))
def test_where_the_first_ladder_does_not_suffice_the_edge_of_the_second_is_found(edge):
    results = search(waits_below(freerun(SECOND[edge])))
    assert tried(results) == [TOP, *fewest(SECOND, edge)]
    assert found(results) == [SECOND[edge]]


@pytest.mark.parametrize("edge", range(len(FIRST)))
@pytest.mark.parametrize("peak", [0, *(freerun(rung) for rung in FIRST), 3 * GIB])
def test_dirty_bytes_that_point_elsewhere_lead_to_the_same_edge(edge, peak):
    results = search(waits_below(freerun(FIRST[edge]), peak))
    assert found(results) == [FIRST[edge]]
    assert len(tried(results)) == len(set(tried(results))) <= len(FIRST)


@pytest.mark.parametrize("edge", range(1, len(FIRST)))
def test_a_rung_whose_freerun_is_just_what_was_dirty_does_not_suffice(edge):
    results = search(waits_below(freerun(FIRST[edge]), freerun(FIRST[edge - 1])))
    assert tried(results) == fewest(FIRST, edge)


def test_the_most_that_was_dirty_where_no_writer_waited_points_to_the_rung():
    """A rung that scatters down does not, nor one at which writers waited."""
    peaks = {TOP: freerun(FIRST[4]) - 1, FIRST[4]: 0, FIRST[1]: freerun(TOP)}

    def answer(setting, run):
        return ran(
            15.0 if setting == FIRST[1] else 5.0, 0.3 * (setting == FIRST[1]), peaks[setting]
        )

    assert tried(search(answer, at_most=2)) == [TOP, FIRST[4]]
    assert next_of(search(answer, at_most=2)) == FIRST[3]
    peaks[TOP] = freerun(FIRST[1]) - 1
    assert next_of(search(answer, at_most=2)) == FIRST[2]


def test_a_ladder_of_bytes_is_walked_alike():
    ladders = made(host(64 * MIB, 32 * MIB, "bytes"))
    first = ladders[0]
    assert len(first) > 20
    for edge in (0, 7, len(first) - 2):
        results = search(waits_below(freerun(first[edge])), search=EdgeSearch(ladders))
        assert tried(results) == fewest(first, edge)
        assert found(results, EdgeSearch(ladders)) == [first[edge]]


@pytest.mark.parametrize("shares", [(0.019, 0.019), (0.0, 0.0)])
def test_where_no_writer_waits_at_present_nothing_is_tried(shares):
    study = Study(())
    for share in shares:
        study.add(PRESENT, NOW, 20.0, stall_share=share)
    assert tried(search(waits_below(0), study.results)) == []
    assert found(study.results) == []


def test_one_present_run_in_which_writers_waited_is_enough_to_look():
    study = Study(()).add(PRESENT, NOW, 20.0, stall_share=0.0)
    study.add(PRESENT, NOW, 20.0, stall_share=0.02)
    assert next_of(study.results) == TOP


def test_before_any_present_run_nothing_is_proposed_and_a_ladders_worth_expected():
    empty = Results(CIRCUMSTANCES, {})
    assert next_of(empty) is None
    assert (SEARCH.remaining(Runs.of(empty)), found(empty)) == (3, [])
    assert EdgeSearch(()).remaining(Runs.of(empty)) == 0


def test_without_a_ladder_there_is_nothing_to_find():
    assert tried(search(waits_below(0), search=EdgeSearch(()))) == []
    assert found(Study().results, EdgeSearch(())) == []


# --- a top that is not what it should be ------------------------------------------------------


def test_a_top_that_is_not_faster_runs_twice_and_then_the_search_ends():
    results = search(lambda setting, run: ran(19.5))
    assert tried(results) == [TOP, TOP]
    assert found(results) == []


def test_one_slow_run_of_the_top_does_not_end_the_search():
    slow_once = waits_below(freerun(FIRST[2]))

    def answer(setting, run):
        return ran(19.5) if (setting, run) == (TOP, 1) else slow_once(setting, run)

    results = search(answer)
    assert tried(results) == [TOP, TOP, FIRST[2], FIRST[1]]
    assert found(results) == [FIRST[2]]


def test_an_attempt_that_failed_is_not_one_of_the_two_runs_of_a_top():
    runs = [FAILED, ran(19.5), ran(5.0)]
    later = waits_below(freerun(FIRST[3]))

    def answer(setting, run):
        return runs[run - 1] if setting == TOP else later(setting, run)

    results = search(answer)
    assert tried(results)[:3] == [TOP, TOP, TOP]
    assert found(results) == [FIRST[3]]


def test_a_top_at_which_writers_wait_when_it_runs_again_gives_way_to_the_next_ladder():
    runs = [ran(19.5), ran(5.0, 0.3)]
    later = waits_below(freerun(SECOND[0]))
    results = search(lambda setting, run: runs[run - 1] if setting == TOP else later(setting, run))
    assert tried(results) == [TOP, TOP, OTHER_TOP, SECOND[0]]


@pytest.mark.parametrize("second", [FAILED, STOPPED])
def test_a_top_whose_second_run_does_not_work_ends_the_search(second):
    results = search(lambda setting, run: ran(19.5) if run == 1 else second)
    assert set(tried(results)) == {TOP}
    assert len(tried(results)) == 1 + (ATTEMPTS if second.problem else 1)
    assert found(results) == []


def test_a_top_that_takes_too_long_gives_way_to_the_next_ladder():
    below = waits_below(freerun(SECOND[0]))
    results = search(lambda setting, run: STOPPED if setting == TOP else below(setting, run))
    assert list(dict.fromkeys(tried(results))) == [TOP, OTHER_TOP, SECOND[0]]
    assert found(results) == [SECOND[0]]


def test_a_top_that_never_worked_gives_way_to_the_rung_below_it():
    below = waits_below(freerun(FIRST[2]))
    results = search(lambda setting, run: FAILED if setting == TOP else below(setting, run))
    assert list(dict.fromkeys(tried(results))) == [TOP, FIRST[-2], FIRST[2], FIRST[1]]
    assert found(results) == [FIRST[2]]


def test_after_two_rungs_that_never_worked_the_next_ladder_is_tried():
    below = waits_below(freerun(SECOND[0]))
    results = search(lambda setting, run: FAILED if setting in FIRST else below(setting, run))
    assert list(dict.fromkeys(tried(results))) == [TOP, FIRST[-2], OTHER_TOP, SECOND[0]]
    assert found(results) == [SECOND[0]]


def test_where_the_rung_found_waits_in_its_pairs_the_next_one_is_compared_too():
    """The one run of the search was of a source that was slower then."""
    study = Study()
    results = search(waits_below(freerun(FIRST[1])), study.results)
    assert found(results) == [FIRST[1]]
    study.recheck(FIRST[1], [6.0], stall_share=0.2)
    assert found(results) == [FIRST[1]], "one pair may be disturbed"
    study.recheck(FIRST[1], [6.1], stall_share=0.2)
    assert found(results) == [FIRST[2]]
    study.recheck(FIRST[2], [5.0, 5.0], stall_share=0.02)
    assert found(results) == [FIRST[3]]
    for rung in FIRST[3:]:
        study.recheck(rung, [5.0, 5.0], stall_share=0.02)
    assert found(results) == [TOP], "there is none above it"
    study.recheck(FIRST[1], [6.1], stall_share=0.01)
    assert found(results) == [FIRST[1]]


@pytest.mark.parametrize("seen", [FAILED, STOPPED])
def test_a_rung_that_never_worked_is_passed_over(seen):
    below = waits_below(freerun(FIRST[1]))
    results = search(lambda setting, run: seen if setting == FIRST[1] else below(setting, run))
    assert list(dict.fromkeys(tried(results))) == [TOP, FIRST[1], FIRST[2]]
    assert found(results) == [FIRST[2]]


# --- writers wait on every rung ---------------------------------------------------------------


def beyond(burst, other_s=5.0, **special):
    """A burst beyond memory, in bytes; the top of the second ladder took `other_s`, others 5 s."""

    def answer(setting, run):
        if setting in special.get("bad", ()):
            return special["seen"]
        return ran(other_s if setting == OTHER_TOP else 5.0, 0.3, bytes=burst)

    return answer


def beyond_study(burst):
    return Study(bytes=burst).results


@pytest.mark.parametrize(
    ("burst_gib", "expected"),
    [
        # half way from freerun to the dirty threshold: at 90/10 2.8 GiB, at 90/45 3.15 GiB
        (5, SECOND[-1]),  # 1.85 GiB wait in place of 2.2
        (16, FIRST[-1]),  # 12.85 in place of 13.2 are no gain of 5 %; at 75/10 it is 3.4 % more
        (64, FIRST[2]),  # at 50/10 62.4 in place of 61.2 wait, at 40/10 62.7
    ],
)
def test_the_lowest_rung_that_costs_two_percent_is_found_by_arithmetic(burst_gib, expected):
    results = search(beyond(burst_gib * GIB), beyond_study(burst_gib * GIB))
    assert tried(results) == list(dict.fromkeys([TOP, OTHER_TOP, expected]))
    assert found(results) == [expected]


@pytest.mark.parametrize("other_s", [4.4, 5.6])
def test_times_that_scatter_lead_to_the_same_rung(other_s):
    """The second ladder cannot save 5 %, whatever one run of it says."""
    results = search(beyond(64 * GIB, other_s), beyond_study(64 * GIB))
    assert found(results) == [FIRST[2]]


def test_a_second_top_that_was_slower_is_not_taken():
    results = search(beyond(5 * GIB, other_s=5.1), beyond_study(5 * GIB))
    assert found(results) == [TOP]


def test_where_no_top_is_faster_in_two_runs_nothing_is_found():
    results = search(lambda setting, run: ran(19.5, 0.3))
    assert tried(results) == [TOP, OTHER_TOP, TOP]
    assert found(results) == []


@pytest.mark.parametrize("is_second_faster", [True, False])
def test_where_only_the_other_top_is_faster_it_is_found(is_second_faster):
    """The first ladder's one is what arithmetic prefers; both its runs were slow."""

    def answer(setting, run):
        is_slow = setting in FIRST and not (is_second_faster and run == 2)
        return ran(19.5 if is_slow else 15.0, 0.3, bytes=64 * GIB)

    results = search(answer, beyond_study(64 * GIB))
    assert tried(results)[:3] == [TOP, OTHER_TOP, TOP]
    assert found(results) == [FIRST[2] if is_second_faster else SECOND[0]]


@pytest.mark.parametrize("seen", [FAILED, STOPPED])
def test_beyond_memory_what_never_worked_is_passed_over(seen):
    burst = 64 * GIB
    results = search(beyond(burst, bad=(FIRST[2],), seen=seen), beyond_study(burst))
    assert found(results) == [FIRST[3]]
    results = search(beyond(burst, bad=FIRST, seen=seen), beyond_study(burst))
    assert found(results) == [SECOND[0]], "the first ladder's top never worked"


# --- from the results alone -------------------------------------------------------------------


@pytest.mark.parametrize("burst", [BURST, 64 * GIB])
def test_later_runs_do_not_change_what_was_found(burst):
    answer = waits_below(freerun(FIRST[2])) if burst == BURST else beyond(burst)
    study = Study(bytes=burst)
    results = search(answer, study.results)
    before = found(results)
    unlike = {"peak_dirty_bytes": 3 * GIB, "dirtyable_bytes": 3 * GIB}
    waits = 0.9 if burst != BURST else 0.0
    study.add(PRICE, NOW, 1.0, stall_share=0.0, bytes=1)
    study.recheck(before[0], [40.0] * 6, [1.0] * 6, **unlike, stall_share=waits)
    study.recheck(FIRST[1], [1.0, 1.0], **unlike, stall_share=0.0)
    assert next_of(results) is None
    assert found(results) == before != []


@pytest.mark.parametrize("burst", [BURST, 64 * GIB])
def test_a_search_that_was_cut_short_has_the_best_that_it_knows(burst):
    """As a budget does: after the first top that is faster there is always something to compare."""
    answer = waits_below(freerun(FIRST[1])) if burst == BURST else beyond(burst)
    whole = tried(search(answer, beyond_study(burst)))
    assert len(whole) == 3
    kept = [found(search(answer, beyond_study(burst), count)) for count in (1, 2)]
    assert kept == ([[TOP], [FIRST[1]]] if burst == BURST else [[TOP], [TOP]])


def test_a_first_top_that_was_faster_is_known_while_the_second_is_tried():
    """Writers wait at the first one; the second one's first run was slow."""
    slow = {TOP: ran(5.0, 0.3), OTHER_TOP: ran(19.5)}
    results = search(lambda setting, run: slow[setting], at_most=2)
    assert (next_of(results), found(results)) == (OTHER_TOP, [TOP])


def test_any_search_ends_with_something_that_worked_and_goes_on_from_any_trial():
    """Runs that make no sense together, as of a host where everything goes wrong."""
    for seed in range(200):
        dice = random.Random(seed)

        def answer(setting, run, dice=dice):
            if dice.random() < 0.2:
                return dice.choice([FAILED, STOPPED])
            stall = dice.choice([0.0, 0.0, 0.5])
            peak, memory = dice.randrange(4 * GIB), dice.randrange(GIB, MEMORY)
            return ran(dice.uniform(3, 25), stall, peak, dirtyable_bytes=memory)

        results = search(answer)
        runs = [t for t in Runs.of(results).of_role(CANDIDATE) if not t.problem]
        assert len(tried(results)) < 60
        assert max([0, *([t.setting for t in runs].count(each) for each in tried(results))]) <= 2
        worked = {t.setting for t in Runs.of(results).of_role(CANDIDATE) if t.valid}
        assert set(found(results)) <= worked
        for at, trial in enumerate(results.trials):
            known = Results(results.circumstances, {}, trials=results.trials[:at])
            if trial.role == CANDIDATE and not to_repeat(known.trials):
                assert next_of(known) == trial.setting
