# SPDX-License-Identifier: Apache-2.0
"""`writewise plan`: what it answers, as text and as JSON, and what it says of wrong input."""

from __future__ import annotations

import io
import json
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from contracts.shared.installation import program
from profiler.cli import json_documents, plan_live, plan_request
from profiler.cli.main import build_parser, main
from profiler.ec2.node import Ec2Node
from profiler.report.cheapest import print_cheapest
from profiler.report.plan import print_volume_plan
from sysctl.volume.cheapest import cheapest
from sysctl.volume.limits import MIB
from tests.unit import predictions
from tests.unit.aws import set_environment

DATA = Path(__file__).parents[2] / "data"
PULL = ("--burst", "22500MiB")
CASE_STUDY = (*PULL, "--volume-type", "st1", "--volume-size", "500GiB")
NODE = ("--instance-type", "m5.4xlarge", "--network", "baseline")


#: A blank line, the command and what it is for, after the report.
NEXT_LINES = 3


@pytest.fixture(autouse=True)
def _not_on_ec2(monkeypatch, tmp_path):
    set_environment(monkeypatch, tmp_path)
    monkeypatch.setattr(plan_live, "discover", Ec2Node)


@pytest.fixture
def plan(capsys):
    def run(*words):
        code = main(["plan", *words])
        said = capsys.readouterr()
        assert code in (0, 2)
        return said.out if code == 0 else said.err

    return run


@pytest.fixture
def document(plan):
    return lambda *words: json.loads(plan(*words, "--json"))


def test_the_answer_comes_first(plan):
    first, *lines = plan(*CASE_STUDY).splitlines()
    assert first == "Durable after 3 min 4 s, at 122 MiB/s: the volume is the limit."
    assert (
        "volume      st1, 500 GiB: 122 MiB/s with credits, 19.5 MiB/s without; $22.50 a month"
        in lines
    )
    assert "credits     100 % at the start, 96.3 % after the pull" in lines
    assert "empty       without credits of the volume: 19 min 12 s, 6.2 times as long" in lines


def test_the_document(document):
    found = document(*CASE_STUDY, *NODE, "--idle", "45m", "--deadline", "300s")
    assert (found["schema"], found["version"]) == ("writewise-plan", 1)
    keys = json_documents.BY_COMMAND["plan"].keys
    assert set(found) == {"schema", "version", *keys}
    assert found["durable_s"] == pytest.approx(184.3, rel=0.005)
    assert found["return_s"] == pytest.approx(96.2, rel=0.1)
    assert found["balance_after"] == pytest.approx(96.3, rel=0.005)
    assert found["pulls_per_day"] == pytest.approx(75, rel=0.005)
    assert found["limited_by"] == "volume"
    assert found["monthly_usd"] == pytest.approx(22.5)
    assert found["meets_deadline"] is True
    assert found["write_back"]["helps"] is True
    assert found["write_back"]["best"]["sysctls"]["vm.dirty_ratio"] == 60


def test_repeated(document, plan):
    words = (*PULL, "--volume-type", "st1", "--volume-size", "125GiB", "--idle", "45m")
    found = document(*words)
    assert found["first_slow_pull"] == 21
    assert found["steady_durable_s"] == pytest.approx(1908, rel=0.005)
    text = plan(*words, "--deadline", "20m")
    assert "credits run out in pull 21, which begins after 19 h 6 min; in the end each" in text
    assert "The first pull meets the deadline of 20 min; later ones do not." in text
    assert text.count("pull 24") == 1  # the picture goes on to there


def test_what_to_do_next_is_a_command_that_runs(plan):
    """It names the same pull and instance; -q leaves it out."""
    for words in (
        (*CASE_STUDY, "--idle", "45m", "--instance-type", "m5.large", "--network", "baseline"),
        (*PULL, "--cheapest", "--capacity", "30GiB", "--deadline", "300s"),
    ):
        (command,) = [
            line.removeprefix(f"Next: {program()} plan ")
            for line in plan(*words).splitlines()
            if line.startswith(f"Next: {program()} plan ")
        ]
        assert "--burst 22500MiB" in command
        assert ("--instance-type m5.large --network baseline" in command) == ("m5.large" in words)
        assert plan(*command.split()).strip()
        assert "Next:" not in plan(*words, "-q")
    assert f"Next: sudo {program()} sweep" in plan(*CASE_STUDY, *NODE)


def test_the_picture_marks_where_credits_run_out(plan):
    of_small = (*PULL, "--volume-type", "st1", "--volume-size", "125GiB", "--idle", "45m")
    lines = plan(*of_small).splitlines()
    (axis,) = [line for line in lines if line.lstrip().startswith("pull 1 ")]
    assert axis.split() == ["pull", "1", "pull", "21", "pull", "24"]
    top = next(line for line in lines if line.startswith(" 31 min 48 s"))
    slow = top.index("▇")
    assert axis.index("pull 21") <= slow
    assert slow - axis.index("pull 21") <= len("pull 21")
    (axis,) = [
        line
        for line in plan("--burst", "700000MiB", *CASE_STUDY[2:]).splitlines()
        if line.lstrip().startswith("0 s ")
    ]
    assert axis.split("  ")[-1].strip() == "2 h 40 min"
    assert " 1 h 23 min " in axis


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--idle", "0"), "without a pause: credits run out in pull 3, which begins after"),
        (("--idle", "1h", "--burst", "700000MiB"), "with 1 h between pulls: in the end each takes"),
    ],
)
def test_repeated_in_words(plan, words, said):
    text = plan("--burst", "200GiB", *CASE_STUDY[2:], *words)
    assert said in " ".join(text.split())


def test_credits_that_come_back(plan):
    """1 % is too little for the first pull, and 45 minutes earn more than a pull costs."""
    text = plan(*CASE_STUDY, "--idle", "45m", "--credits", "1")
    assert "between pulls: the first are slow, later ones take 3 min 4 s." in text


def test_the_cheapest(document, plan):
    words = (*PULL, "--cheapest", "--capacity", "174GiB", "--deadline", "300s")
    found = document(*words)
    assert set(found) == {
        "schema",
        "version",
        *json_documents.BY_COMMAND["plan --cheapest"].keys,
    }
    volumes = [each["volume"] for each in found["volumes"]]
    assert [each["type"] for each in volumes] == ["st1", "gp3", "gp2"]
    assert volumes[0]["size_gib"] == 308
    assert found["volumes"][0]["monthly_usd"] == pytest.approx(13.86)
    assert {"durable_s", "return_s", "limited_by", "balance_after", "pulls_per_day"} <= set(
        found["volumes"][0]
    )
    text = plan(*words)
    assert text.startswith("Cheapest for a pull of 22.0 GiB within 5 min: st1, 308 GiB, $13.86")
    assert "to be in time with that: st1, 342 GiB, $15.39 a month." in text


def test_no_volume_is_enough(plan):
    words = (*PULL, "--cheapest", "--capacity", "30GiB", "--deadline", "30s")
    text = plan(*words, "--instance-type", "m5.large")
    assert text.startswith("No volume has a pull of 22.0 GiB durable within 30.0 s.")
    assert "Before the volume, the instance's EBS bandwidth is the limit: 39.7 s" in text


def test_the_search_takes_at_most_a_second():
    words = ["plan", *PULL, *NODE, "--cheapest", "--capacity", "30GiB", "--idle", "45m"]
    request = plan_request.request_from(build_parser().parse_args([*words, "--deadline", "300s"]))
    began_s = time.process_time()
    assert cheapest(request.wanted()).plans
    assert time.process_time() - began_s < 1


def results_file(tmp_path):
    path = tmp_path / "results.json"
    predictions.results(predictions.setting(80, 10)).save(path)
    return path


ALL_LINES = (
    *(*CASE_STUDY[:-1], "500", *NODE, "--idle", "45m", "--deadline", "200s"),
    *("--instance-type", "m5.large", "--io-size", "64KiB"),
)


def shown(encoding, show):
    """The lines on a terminal of 80 columns."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    show(Console(file=file, width=80, force_terminal=True, color_system=None, markup=False))
    file.flush()
    lines = raw.getvalue().decode(encoding).splitlines()
    if encoding == "ascii":
        assert not [line for line in lines if "?" in line]
    return lines


@pytest.mark.parametrize("words", [CASE_STUDY, ALL_LINES, (*CASE_STUDY, *NODE)])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_report_fits_one_screen(words, encoding):
    request = plan_request.request_from(build_parser().parse_args(["plan", *words]))
    lines = shown(
        encoding, lambda console: print_volume_plan(request.plan(), request.asked, console)
    )
    assert len(lines) <= 40 - NEXT_LINES
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_cheapest_fit_one_screen(encoding):
    words = (*PULL, *NODE, "--cheapest", "--capacity", "300GiB", "--deadline", "300s")
    request = plan_request.request_from(build_parser().parse_args(["plan", *words]))
    wanted = request.wanted()
    found = cheapest(wanted)
    lines = shown(encoding, lambda console: print_cheapest(found, wanted, request.asked, console))
    assert len(lines) <= 40 - NEXT_LINES
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (CASE_STUDY[:-2], "the rate of st1 depends on its size, which is unknown"),
        ((*PULL, "--volume-type", "gp4"), "did you mean 'gp3'?"),
        ((*CASE_STUDY, "--instance-type", "m5.larg"), "did you mean 'm5.large'?"),
        ((*PULL, "--volume-type", "st1", "--volume-size", "50"), "st1 has at least 125 GiB"),
        ((*PULL, "--volume-size", "50"), "the volume's type"),
        ((*PULL, "--cheapest"), "add --capacity"),
        ((*CASE_STUDY, "--cheapest", "--capacity", "1T"), "omit --volume-type"),
        ((*CASE_STUDY, "--capacity", "1T"), "--capacity is for --cheapest"),
        ((*CASE_STUDY, "--credits", "101"), "use full, empty or a percentage: 0 to 100"),
        ((*CASE_STUDY, "--credits", "half"), "invalid credits 'half'"),
        ((*CASE_STUDY, "--instance-credits", "full"), "--instance-credits needs --instance-type"),
        ((*CASE_STUDY, "--deadline", "0"), "it must be longer than 0"),
        ((*CASE_STUDY[2:], "--burst", "0"), "it must be more than 0"),
        ((*PULL, "--volume-type", "st1", "--volume-size", "0"), "it must be more than 0"),
        ((*PULL, "--volume-type", "gp3", "--throughput", "x"), "invalid size 'x'"),
        ((*CASE_STUDY, "--prices", "/nonexistent"), "No such file"),
        ((*CASE_STUDY, "--results", "/nonexistent"), "No such file"),
    ],
)
def test_wrong_input(plan, words, said):
    text = plan(*words)
    assert said in text
    assert "Traceback" not in text


def test_nothing_known_names_what_supplies_it(plan):
    text = plan()
    assert text.startswith("writewise: a plan needs the size of the pull and the volume's type\n")
    for words in (
        "--burst",
        "--volume-type",
        "ec2:DescribeVolumes",
        "cloudwatch:GetMetricData",
        "this host is not an EC2 instance: --instance-type",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("here", "said"),
    [
        (Ec2Node(True, "z9.new"), "Warning: this node's type, z9.new, is not in the table of"),
        (Ec2Node(True, problem="the metadata service did not answer (timed out)"), "timed out"),
    ],
)
def test_a_node_that_is_not_known(plan, monkeypatch, here, said):
    monkeypatch.setattr(plan_live, "discover", lambda: here)
    assert said in plan(*CASE_STUDY)


def test_numbers_without_a_unit_are_read_as_aws_reads_them(document):
    found = document(
        *(*PULL, "--volume-type", "gp3", "--volume-size", "500", "--throughput", "250")
    )
    assert found["volume"]["size_gib"] == 500
    assert found["volume"]["throughput_mib_per_s"] == 250
    assert "--volume-size 500 is taken as 500 GiB, as AWS does" in found["assumed"]
    assert "--throughput 250 is taken as 250 MiB/s, as AWS does" in found["assumed"]
    found = document(
        *(*PULL, "--volume-type", "gp3", "--volume-size", "500GB", "--throughput", "250MiB/s")
    )
    assert found["volume"]["size_gib"] == 466
    assert (
        "--volume-size 500GB is rounded up to 466 GiB: volumes have whole GiB" in (found["assumed"])
    )
    assert found["volume"]["throughput_mib_per_s"] == 250


def test_above_the_table_is_a_warning(document):
    found = document(*(*PULL, "--volume-type", "gp3", "--volume-size", "500", "--iops", "100000"))
    assert found["warnings"] == [
        "gp3 with 100,000 IOPS is above the maximum of 80,000 IOPS in the table of 2026-11; "
        "planned as asked"
    ]


@pytest.mark.parametrize(
    ("share", "durable_s"),
    [("full", 184.3), ("empty", 1152.0), ("0%", 1152.0), ("100", 184.3), ("1", 889.7)],
)
def test_credits(document, share, durable_s):
    """1 % of 500 GiB lasts 49.9 s and 6,095 MiB; the rest comes at 19.53 MiB/s."""
    found = document(*CASE_STUDY, "--credits", share)
    assert found["durable_s"] == pytest.approx(durable_s, rel=0.005)


def test_a_type_without_credits_says_so(document):
    found = document(*(*PULL, "--volume-type", "gp3", "--credits", "empty"))
    assert "this gp3 has no credits: --credits changes nothing" in found["assumed"]


def test_a_price_file_with_gaps_is_used_as_far_as_it_goes(document, tmp_path):
    """gp3 includes 3,000 IOPS and 125 MiB/s, so its price for GiB is enough for them."""
    path = tmp_path / "prices.yaml"
    path.write_text("volumes: {st1: {gib_month: 0.1}, gp3: {gib_month: 0.1}}\n")
    found = document(*CASE_STUDY, "--prices", str(path))
    assert found["monthly_usd"] == pytest.approx(50)
    assert found["warnings"] == []
    of_gp3 = (*PULL, "--volume-type", "gp3", "--volume-size", "100GiB", "--prices", str(path))
    assert document(*of_gp3)["monthly_usd"] == pytest.approx(10)
    found = document(*of_gp3, "--throughput", "250")
    assert found["monthly_usd"] is None
    assert found["warnings"] == [f"{path} has no price of gp3 iops_month, gp3 mib_per_s_month"]
    words = (*PULL, "--cheapest", "--capacity", "30GiB", "--prices", str(path))
    found = document(*words, "--deadline", "170s")
    assert [each["volume"]["type"] for each in found["volumes"]] == ["st1"]
    assert found["left_out"]["unpriced"] == ["gp2", "gp3", "io1", "io2", "sc1"]
    (warning,) = found["warnings"]
    assert warning.startswith(f"{path} has no price of gp2, gp3 iops_month, gp3 mib_per_s_month, ")


def test_the_search_as_a_process_takes_at_most_a_second_of_cpu_time():
    """The wall clock of a test host depends on what else runs there."""
    words = (*PULL, *NODE, "--cheapest", "--capacity", "30GiB", "--idle", "45m", "--json")
    command = "import sys; from profiler.cli.main import main; sys.exit(main())"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", command, "plan", *words], check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 0 < took_s < 1


def test_a_pull_larger_than_its_volume_is_planned_with_a_warning(document, plan):
    found = document("--burst", "501GiB", *CASE_STUDY[2:])
    assert found["warnings"] == ["the pull of 501 GiB does not fit on 500 GiB"]
    text = plan(*PULL, "--cheapest", "--capacity", "21GiB")
    assert "Warning: the pull of 22.0 GiB does not fit on 21 GiB." in text
    assert document("--burst", "500GiB", *CASE_STUDY[2:])["warnings"] == []


@pytest.mark.parametrize("words", [(), ("--deadline", "300s")])
def test_a_capacity_that_no_volume_has(plan, words):
    text = plan(*PULL, "--cheapest", "--capacity", "100TiB", *words)
    assert text.startswith("No volume was found that holds 102,400 GiB and has a price.")


def test_the_rates_of_a_sweep(document, tmp_path):
    found = document("--results", str(results_file(tmp_path)))
    assert found["assumed"][0].startswith("the instance's EBS limits are unknown")
    assert found["volume"] is None
    assert found["pull"]["size_bytes"] == predictions.BURST
    assert found["source"]["kind"] == "source"
    assert found["source"]["bytes_per_s"] == pytest.approx(predictions.SOURCE, rel=0.05)
    rate = predictions.BURST / found["durable_s"]
    assert rate == pytest.approx(predictions.DEVICE, rel=0.05)
    on_st1 = document("--results", str(results_file(tmp_path)), *CASE_STUDY[2:])
    assert on_st1["durable_s"] == pytest.approx(predictions.BURST / (122.07 * MIB), rel=0.005)


def swept_on(tmp_path, **volume):
    """Return the file of a sweep whose device wrote 62.5 MiB/s, on that volume."""
    document = json.loads((DATA / "results-st1-in-a-lab.json").read_text())
    document["circumstances"]["class"]["volume"].update(volume)
    path = tmp_path / "on a volume.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_the_volume_of_the_results_is_planned_with_its_credits(document, tmp_path):
    found = document("--results", swept_on(tmp_path))
    assert (found["volume"]["type"], found["volume"]["size_gib"]) == ("st1", 256)
    assert found["empty_durable_s"] == pytest.approx(192, rel=0.005)
    assert any(
        "st1 of 256 GiB, from the results; it wrote 62.5 MiB/s, as allowed" in each
        for each in found["assumed"]
    )


@pytest.mark.parametrize("size_gib", [1000, 130])
def test_a_volume_that_is_not_as_fast_as_its_type_stays_the_measured_device(
    document, tmp_path, size_gib
):
    found = document("--results", swept_on(tmp_path, size_gib=size_gib))
    assert found["volume"] is None
    rate = found["pull"]["size_bytes"] / found["durable_s"]
    assert rate == pytest.approx(62.5 * MIB, rel=0.01)
    assert any(f"the results name st1 of {size_gib:,} GiB" in each for each in found["assumed"])


def next_words(text):
    (line,) = [line for line in text.splitlines() if line.startswith("Next: ")]
    return shlex.split(line.removeprefix(f"Next: {program()} plan "))


def test_the_next_command_gives_the_same_figures(plan, document, tmp_path):
    """It repeats files, credits and times, also long ones."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("volumes: {st1: {gib_month: 0.1}}\n")
    options = (
        *("--results", swept_on(tmp_path), "--prices", str(prices), "--credits", "0.5"),
        *("--idle", "20d", "--cheapest", "--capacity", "125GiB", "--deadline", "100.5s"),
    )
    first = document(*options)["volumes"][0]
    shown = document(*next_words(plan(*options)))
    assert {key: shown[key] for key in first} == first
    assert (shown["deadline_s"], shown["pull"]["idle_s"]) == (100.5, 20 * 86400)
    assert shown["meets_deadline"] is True


def test_the_next_command_of_one_volume_repeats_its_options(plan):
    words = (
        *(*CASE_STUDY, "--credits", "35%", "--instance-type", "m5.large", "--memory", "60GiB"),
        *("--network", "baseline", "--instance-credits", "empty", "--deadline", "400ms"),
    )
    again = next_words(plan(*words))
    assert again[again.index("--deadline") + 1] == "0.4s"
    for option, value in (("--credits", "35%"), ("--instance-credits", "empty")):
        assert again[again.index(option) + 1] == value
    assert again[again.index("--memory") + 1] == "60GiB"


def test_the_cheapest_say_which_credits_they_assume(plan):
    words = (*PULL, "--cheapest", "--capacity", "400GiB", "--deadline", "300s")
    said = "Assumed: the volumes have all their credits at the start; --credits empty plans"
    assert said in plan(*words)
    assert said not in plan(*words, "--credits", "full")
    assert said not in plan(*words[:-1], "20s")


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        (("gp2", "335"), "gp2, 335 GiB: 250 MiB/s, with credits or without; "),
        (("gp2", "2000"), "gp2, 2,000 GiB: 250 MiB/s; "),
        (("st1", "14000"), "st1, 14,000 GiB: 500 MiB/s; "),
        (("io1", "100", "--iops", "2000"), "io1, 100 GiB, 2,000 IOPS: 500 MiB/s; "),
        (("gp3", "100"), "gp3, 100 GiB, 3,000 IOPS, 125 MiB/s; "),
    ],
)
def test_every_volume_has_its_rate(plan, volume, said):
    kind, size, *more = volume
    text = plan(*PULL, "--volume-type", kind, "--volume-size", size, *more)
    assert f"volume      {said}" in text
