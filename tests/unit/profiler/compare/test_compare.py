# SPDX-License-Identifier: Apache-2.0
"""What differs between two files, for each kind of file, and when they are not comparable."""

from __future__ import annotations

import json

import pytest

from contracts.shared.errors import UsageError
from profiler.cli.json_documents import BY_COMMAND
from profiler.cli.main import main
from profiler.compare.comparing import Differing, Obstacle, Significance, compare_subjects
from profiler.compare.reading import SCHEMAS, read_subject
from profiler.compare.subject import Kind
from profiler.report.comparison import caveats, comparison_file_document, verdict_sentences
from sysctl.advice.advise import advise
from sysctl.evidence.results import load
from tests.places import REPOSITORY
from tests.unit.changes import change_in
from tests.unit.profiler.client_bench.test_client_bench import cell
from tests.unit.profiler.compare.documents import (
    MIB,
    bench,
    profile,
    pull,
    pulls,
    scope,
    write,
)
from tests.unit.studies import Study, ratio

DATA = REPOSITORY / "tests/unit/data"


@pytest.fixture
def compared(tmp_path):
    def compare(before, after):
        sides = []
        for name, documents in (("before", before), ("after", after)):
            path = write(tmp_path / f"{name}.json", *documents)
            sides.append(read_subject(path))
        return compare_subjects(*sides)

    return compare


def figure(found, name):
    return next(each for each in found.figures if each.name == name)


def test_repeated_pulls_that_differ(compared):
    faster = {"measured": {"sysctls": {"vm.dirty_ratio": 60}, "kernel": "6.12.3"}}
    found = compared(pulls(20.0, 5), pulls(10.0, 6, seed=2, **faster))
    time = figure(found, "time to return")
    assert time.outcome is Significance.LOWER
    assert time.interval.low < 0.5 < time.interval.high < 0.55
    assert (time.before.count, time.after.count) == (5, 6)
    assert found.settings == (Differing("vm.dirty_ratio", 20, 60),)
    assert found.circumstances == (Differing("kernel", "6.18.1", "6.12.3"),)
    (sentence,) = verdict_sentences(found)
    assert sentence.startswith("Significantly faster: time to return ")
    assert "95% interval" in sentence and "5 and 6 runs" in sentence and "Mann-Whitney" in sentence
    assert caveats(found) == ["The settings need not be the cause: kernel differs too."]
    assert figure(found, "time to durable").outcome is Significance.SAME


def test_space_before_a_document_and_between_two_is_left_out(tmp_path):
    path = tmp_path / "pulls.json"
    path.write_text("\n \t" + "\n\n".join(map(json.dumps, pulls(20.0, 2))) + " \n")
    assert read_subject(path).runs == 2


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
def test_a_ratio_of_the_smallest_and_the_largest_time_is_finite(compared, repeats):
    times_s = (5e-324, 1e18)
    small, large = ([{**each, "return_s": s} for each in pulls(1.0, repeats)] for s in times_s)
    for found in (compared(small, large), compared(large, small)):
        json.dumps(comparison_file_document(found), allow_nan=False)


def test_repeated_pulls_that_do_not_differ(compared):
    found = compared(pulls(20.0, 5), pulls(20.0, 5, seed=2))
    (sentence,) = verdict_sentences(found)
    assert sentence.startswith("No significant difference in time to return: ")


def test_one_pull_each_may_differ_by_chance(compared):
    found = compared([pull(20.0)], [pull(10.0)])
    assert figure(found, "time to return").outcome is Significance.FEW_RUNS
    assert "by chance" in verdict_sentences(found)[0]


def test_a_share_of_nothing_has_no_ratio(compared):
    found = compared(pulls(20, 3), pulls(20, 3, stalled_share=0))
    waited = figure(found, "writers waited")
    assert (waited.outcome, waited.ratio) == (Significance.NO_RATIO, None)
    assert (waited.before.median, waited.after.median) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("changes", "comparable"),
    [
        ({"bytes": 100 * MIB + 2**10}, True),
        ({"bytes": 102 * MIB}, False),
        ({"objects": 102}, False),
        ({"bytes": 0, "objects": 0}, True),
    ],
)
def test_pulls_of_other_sizes_are_not_comparable(compared, changes, comparable):
    found = compared(pulls(20, 2), pulls(20, 2, **changes))
    assert (found.obstacle is None) == comparable
    if not comparable:
        assert found.obstacle is Obstacle.SIZE and found.figures == ()
        (sentence,) = verdict_sentences(found)
        assert sentence.startswith("Not comparable: before is of 100 objects, 100 MiB, after of ")


def test_files_of_other_kinds_are_not_comparable(compared):
    found = compared([pull()], [profile()])
    assert found.obstacle is Obstacle.KIND
    assert verdict_sentences(found) == ["Not comparable: before is a pull, after a profile."]


def test_a_command_and_the_host_are_not_comparable(compared):
    found = compared([profile(scope=scope("command"))], [profile()])
    assert found.obstacle is Obstacle.SCOPE
    (sentence,) = verdict_sentences(found)
    assert sentence == "Not comparable: before is of a command, after of the host."


@pytest.mark.parametrize(
    "other",
    [
        scope("process"),
        scope("host", comm="dd"),
        scope("host", cgroup="/sys/fs/cgroup/a"),
        scope("host", comm="dd", cgroup="/sys/fs/cgroup/a"),
        None,  # of an earlier version, which did not say whether it was the host
    ],
)
def test_profiles_of_other_threads_are_not_comparable(compared, other):
    assert compared([profile()], [profile(scope=other)]).obstacle is Obstacle.SCOPE
    assert compared([profile(scope=other)], [profile(scope=other)]).obstacle is None


def test_an_unknown_scope_is_damage(compared):
    with pytest.raises(UsageError, match=r"scope\.target is not one of command, process, host"):
        compared([profile()], [profile(scope=scope("disk"))])


def test_profiles_of_an_earlier_version_are_comparable(compared):
    runs = [
        profile(scope=None, command_user="a (uid 1)", elapsed_ns=n * 10**9) for n in (10, 11, 12)
    ]
    assert figure(compared(runs, runs), "time of the command").is_verdict


def test_profiles_of_a_command(compared):
    runs = [profile(scope=scope("command"), elapsed_ns=n * 10**9) for n in (10, 11, 12, 10)]
    found = compared(runs, runs)
    time = figure(found, "time of the command")
    assert (time.is_verdict, time.before.median, time.outcome) == (True, 10.5, Significance.SAME)


def test_the_same_rule_with_another_unit_is_two_figures(compared):
    other = profile()
    other["findings"][0]["unit"] = "bytes"
    found = compared([profile()], [other])
    rules = [each for each in found.figures if each.name.startswith(COUNT_RULE)]
    assert [each.outcome for each in rules] == [Significance.MISSING] * 2


COUNT_RULE = profile()["findings"][0]["label"]


def test_sweeps_by_their_results(tmp_path):
    paths = []
    for name, fast_s in (("before", 4.0), ("after", 8.0)):
        study = Study().tried(ratio(80), fast_s)
        paths.append(tmp_path / f"{name}.json")
        study.results.save(paths[-1])
    found = compare_subjects(*map(read_subject, paths))
    assert found.before.kind is Kind.SWEEP and found.obstacle is None
    current, best = (
        figure(found, f"time to return ({side})") for side in ("current", "recommended")
    )
    assert (current.outcome, best.outcome) == (Significance.SAME, Significance.HIGHER)
    assert current.interval.confidence == best.interval.confidence == 0.975, "of two verdicts"
    assert best.ratio == pytest.approx(2, rel=0.05)
    assert found.settings == ()


def test_a_sweep_its_advice_and_its_recommendation_are_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    results = Study().tried(ratio(80), 4.0).results
    results.save(tmp_path / "results.json")
    assert main(["advise", "results.json", "--json"]) == 0
    (tmp_path / "advice.json").write_text(capsys.readouterr().out)
    change = change_in(advise(load(tmp_path / "results.json")))
    write(tmp_path / "change.json", change.to_json())
    names = ("results.json", "advice.json", "change.json")
    sides = [read_subject(tmp_path / name) for name in names]
    for other in sides[1:]:
        found = compare_subjects(sides[0], other)
        assert found.obstacle is None
        best = figure(found, "time to return (recommended)")
        assert best.ratio == pytest.approx(1, rel=0.01)
        assert best.outcome is Significance.ONLY_MEDIANS
        assert [each.name for each in found.settings if None not in (each.before, each.after)] == []
        assert "recommended" not in [each.name for each in found.settings]


def test_the_results_of_the_lab_have_their_circumstances():
    side = read_subject(DATA / "results-st1-in-a-lab.json")
    assert side.circumstances["volume_type"] == "st1" and side.circumstances["credits_percent"]
    assert side.circumstances["client"] == "direct" and "kernel" in side.circumstances
    assert side.settings["vm.dirty_ratio"] == 20 and side.size.objects == 40


def test_clients_row_by_row(compared):
    before = bench(cell("direct", 2.0, 2.1, 2.05, 2.08), cell("s5cmd", 1.0, 1.02, 1.01, 1.03))
    after = bench(cell("direct", 2.0, 2.1, 2.05, 2.08), cell("s5cmd", 2.0, 2.02, 2.01, 2.03))
    found = compared([before], [after])
    slower = figure(found, "rows-64x1MiB (64 objects, 67108864 bytes): s5cmd")
    assert (slower.outcome, slower.interval.confidence) == (Significance.HIGHER, 0.975)
    same = figure(found, "rows-64x1MiB (64 objects, 67108864 bytes): direct")
    assert same.outcome is Significance.SAME


def test_rows_of_other_sizes_have_nothing_in_common(compared):
    other = bench(cell("direct", 2.0))
    other["rows"][0]["bytes"] *= 2
    found = compared([bench(cell("direct", 2.0))], [other])
    assert found.obstacle is Obstacle.NOTHING_COMMON


def test_plans_are_computed(tmp_path, capsys):
    for name, volume in (("before", "gp3"), ("after", "st1")):
        words = f"plan --burst 10GiB --volume-type {volume} --volume-size 500GiB --json"
        assert main([*words.split(), "--instance-type", "m5.large"]) == 0
        (tmp_path / f"{name}.json").write_text(capsys.readouterr().out)
    assert main(["compare", *(str(tmp_path / f"{n}.json") for n in ("before", "after"))]) == 0
    printed = capsys.readouterr().out
    assert "computed, not measured" in printed and "price a month" in printed
    assert "volume type" in printed


def test_runs(compared):
    document = {
        "schema": "writewise-run",
        "version": 1,
        "command_user": "a (uid 1)",
        "exit_code": 0,
        "changes": [{"name": "vm.dirty_ratio", "before": "20", "during": "60"}],
        "return_s": 10.0,
        "durable_s": 20.0,
        "peak_at_risk_bytes": 2**30,
        "io_wait_s": None,
    }
    other = {**document, "changes": [], "return_s": 18.0, "exit_code": 3}
    found = compared([document], [other])
    assert found.settings == (Differing("vm.dirty_ratio", 60, None),)
    assert figure(found, "time of the command").ratio == 1.8
    assert "After: the command returned 3." in caveats(found)


def test_a_small_difference_of_memory_and_credits_is_none(compared):
    one = {"measured": {"available_bytes": 100, "credits_percent": 90.0}}
    other = {"measured": {"available_bytes": 103, "credits_percent": 86.0}}
    assert compared(pulls(20, 1, **one), pulls(20, 1, **other)).circumstances == ()
    other = {"measured": {"available_bytes": 120, "credits_percent": 20.0}}
    names = [
        each.name for each in compared(pulls(20, 1, **one), pulls(20, 1, **other)).circumstances
    ]
    assert names == ["available_bytes", "credits_percent"]


def test_failures_are_caveats(compared):
    failed = pull(20, failures=[{"key": "a", "reason": "gone"}], kept_objects=3, ended_by="no room")
    lines = caveats(compared([failed], [pull(20)]))
    assert [line for line in lines if line.startswith("Before: ")] == [
        "Before: a pull ended early: no room.",
        "Before: 1 objects of a pull are missing or damaged.",
        "Before: a pull left out 3 objects that were there already.",
    ]


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (pull(20, bytes=5), "sizes"),
        (pull(20, measured={"sysctls": {"vm.dirty_ratio": 60}}), r"settings \(vm.dirty_ratio\)$"),
        (pull(20, measured={"kernel": "5.10"}), r"circumstances \(kernel\)$"),
        (
            pull(20, measured={**dict.fromkeys("abcde", 1), "\x1b": 1}),
            r"circumstances \(a, b, c, d, and 2 more\)$",
        ),
        (pull(20, measured={"\x1b[2J": 1}), r"circumstances \(\\x1b\[2J\)$"),
        (pull(20, workers=7), "workers$"),
    ],
)
def test_repeats_have_one_setting_and_size(tmp_path, second, what):
    """And a message names what differs: a file of ten pulls is long."""
    with pytest.raises(UsageError, match=f"different {what}"):
        read_subject(write(tmp_path / "a.json", pull(20), second))


def test_the_versions_are_those_that_are_printed():
    printed = {each.schema: each.version for each in BY_COMMAND.values()}
    assert {name: kind.version for name, kind in SCHEMAS.items()} == {
        name: printed[name] for name in SCHEMAS
    }


def test_the_command_prints_both_forms_and_its_exit_code(tmp_path, capsys):
    before = str(write(tmp_path / "before.json", *pulls(20, 4)))
    after = str(write(tmp_path / "after.json", *pulls(10, 4, seed=3)))
    assert main(["compare", before, after]) == 0
    printed = capsys.readouterr().out
    assert "Significantly faster: time to return " in printed and "±" in printed
    assert all(len(line) <= 80 for line in printed.splitlines() if line.startswith("time"))
    assert main(["compare", before, after, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["comparable"] is True and document["before"]["runs"] == 4
    (time,) = [each for each in document["figures"] if each["name"] == "time to return"]
    assert (time["outcome"], time["unit"]) == ("significantly lower", "s")
    assert time["interval"]["method"] == "Mann-Whitney" and time["interval"]["high"] < 0.6
    other = str(write(tmp_path / "profile.json", profile()))
    assert main(["compare", before, other]) == 1
    assert "Not comparable" in capsys.readouterr().out
