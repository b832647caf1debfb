# SPDX-License-Identifier: Apache-2.0
"""The volume in the report: on one screen where it decides, in full with --details, as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from profiler.report.advice import print_advice
from profiler.report.advice_document import advice_document
from profiler.report.advised_change import change_of
from profiler.report.next_steps import next_steps, print_next
from profiler.report.written import print_written
from sysctl.advice.advise import advise
from sysctl.change.recommendation import RecommendedChange
from sysctl.change.recommendation_file import parse_recommendation
from sysctl.evidence.circumstances import KnownVolume
from sysctl.evidence.over_limit import OverLimit
from sysctl.evidence.price import Limits
from sysctl.render.comments import evidence_lines
from sysctl.volume.prices import Prices
from tests.unit.studies import Study
from tests.unit.volume_studies import FASTER, GP3, ST1, beyond_memory, gain, no_gain, study

RESULTS = Path("/root/writewise-results.json")
LARGE_ST1, LARGER_ST1, SMALL_ST1 = (KnownVolume("st1", size_gib) for size_gib in (1600, 1000, 125))
ON_EC2 = {
    "volume_id": "vol-0123456789abcdef0",
    "credits": {"percent": 96.25, "source": "CloudWatch, 2026-11-21 09:58 UTC"},
}
PRICED = "(us-east-1, 2026-08-12)"


def screen(recommendation, width=80, *, details=False):
    """All that `advise` prints at its end."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    print_advice(recommendation, console, details=details)
    names = ("90-writewise.conf", "90-writewise-bytes.conf", "recommendation.json")
    written = [Path("/root") / name for name in names] if recommendation.best else []
    print_written(written, (), (), console)
    print_next(next_steps(recommendation, RESULTS, written), console)
    return file.getvalue()


def said(recommendation, *, details=False):
    return " ".join(screen(recommendation, 400, details=details).split())


CASES: dict[str, Callable[[], Any]] = {
    "settings": gain,
    "no setting": no_gain,
    "beyond memory": beyond_memory,
    "within the limit": lambda: no_gain(limits=Limits(max_durable_s=12.0)),
    "no credits": lambda: gain(LARGE_ST1),
    "fewer credits": lambda: gain(LARGER_ST1),
    "above": lambda: gain(SMALL_ST1),
    "below": lambda: gain(GP3),
    "the instance": lambda: gain(KnownVolume("gp3", 250, 3000, 250.0), "c4.large"),
    "fewer of the instance": lambda: gain(KnownVolume("gp3", 250, 3000, 250.0), "t3.nano"),
    "out of reach": lambda: no_gain(ST1, "t3.micro"),
    "counted": lambda: gain(ST1, over_limit=OverLimit(20.0, volume_throughput_s=15.0)),
    "unknown": lambda: gain(None),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_with_the_volume_it_still_fits_one_screen(name, width):
    lines = screen(CASES[name](), width).splitlines()
    assert len(lines) <= 42
    assert not [line for line in lines if len(line) > width and "writewise " not in line]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_details_keep_to_the_width(name, width):
    lines = screen(CASES[name](), width, details=True).splitlines()
    wide = [line.rstrip() for line in lines if len(line.rstrip()) > width]
    assert [line for line in wide if len(line.split()) > 1 and "writewise " not in line] == []


@pytest.mark.parametrize("name", CASES)
def test_whoever_prints_a_price_prints_its_date_and_region(name):
    for details in (False, True):
        text = said(CASES[name](), details=details)
        assert "$" not in text or "us-east-1, 2026-08-12" in text


def test_settings_that_gain_come_first_and_the_volume_is_the_alternative():
    text = said(gain())
    assert text.startswith("Recommended: change 2 settings; the pull then returns in 4.02 s")
    assert (
        "Volume With the current settings on gp3 of 250 GiB with 3,000 IOPS and 361 MiB/s the pull "
        "returns in 4.02 s, and is durable after 6.00 s instead of 30.7 s (predicted), for "
        f"$29.44 a month, $18.19 more {PRICED}." in text
    )
    assert "sudo writewise apply" in text or "apply /root/recommendation.json" in text


def test_where_no_setting_gains_the_recommendation_is_the_volume():
    text = said(no_gain())
    assert text.startswith(
        "Recommended: another volume, gp3 of 250 GiB with 3,000 IOPS and 468 MiB/s; no setting "
        "helps. Why: The best of the settings measured again took"
    )
    assert "the pull returns in 3.26 s instead of 20.0 s, and is durable after 4.79 s" in text
    assert (
        f"plan --results {RESULTS} --volume-type gp3 --volume-size 250GiB --iops 3000 "
        "--throughput 468MiB/s" in text
    )


def test_beyond_memory_the_volume_that_writes_so_fast_has_a_name_and_a_price():
    text = said(beyond_memory())
    assert text.startswith("Recommended: another volume, gp3 of 250 GiB with 3,000 IOPS and ")
    assert (
        "to return after 32.0 s; the cheapest on EBS is gp3 of 250 GiB with 3,000 IOPS and "
        f"495 MiB/s, $34.80 a month, $23.55 more {PRICED}; or an instance on which" in text
    )
    unknown = said(beyond_memory(None))
    assert unknown.startswith("No change recommended: the pull is larger than the memory")
    assert "the cheapest on EBS is gp3 of 19 GiB with 3,000 IOPS and 495 MiB/s" in unknown


def test_the_instance_that_is_too_slow_is_named():
    text = said(beyond_memory(ST1, "t3.micro"))
    assert "What would help: an instance with EBS bandwidth for 495 MiB/s, and a volume" in text
    assert "the cheapest on EBS" not in text
    details = said(beyond_memory(ST1, "t3.micro"), details=True)
    assert "No volume writes 495 MiB/s on t3.micro, because the instance's EBS" in details


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "no credits",
            "The device wrote 63.3 MiB/s, as st1 of 1,600 GiB allows without credits (391 MiB/s "
            "with): its credits had run out.",
        ),
        (
            "fewer credits",
            "The device wrote 63.3 MiB/s, between the 244 MiB/s that st1 of 1,000 GiB allows with "
            "credits and the 39.1 MiB/s without: credits ran out in the runs, or others used the "
            "volume or the instance.",
        ),
        (
            "above",
            "The device wrote 63.3 MiB/s, more than the 30.5 MiB/s that st1 of 125 GiB allows: it "
            "is another volume, or it was changed.",
        ),
        (
            "below",
            "The device wrote 63.3 MiB/s, less than the 125 MiB/s that gp3 of 250 GiB with 3,000 "
            "IOPS and 125 MiB/s always allows: small I/Os, other programs or a snapshot slow it "
            "down, and another volume may not help.",
        ),
        (
            "the instance",
            "The device wrote 63.3 MiB/s, as gp3 of 250 GiB with 3,000 IOPS and 250 MiB/s on "
            "c4.large allows: the instance is the limit; a larger one has more EBS bandwidth, "
            "another volume does not.",
        ),
        (
            "fewer of the instance",
            "without: the instance's EBS credits ran out in the runs, or others used the volume or "
            "the instance; a larger instance has more EBS bandwidth, another volume does not.",
        ),
    ],
)
def test_a_rate_that_is_not_the_volumes_best_is_never_hidden(name, sentence):
    assert sentence in said(CASES[name]())
    assert "Volume The device wrote" in said(CASES[name]())
    assert sentence in said(CASES[name](), details=True)


def test_the_details_name_the_limits_and_what_was_counted():
    text = said(CASES["counted"](), details=True)
    assert "allows st1, 250 GiB: 61.0 MiB/s with credits, 9.77 MiB/s without; $11.25 a" in text
    assert (
        "as st1 of 250 GiB allows with credits: the volume is the limit. EBS counted: the volume "
        "throughput limit was exceeded 75% of the time." in text
    )
    on_node = said(gain(ST1, "m5.large"), details=True)
    assert "instance m5.large: EBS 566 MiB/s with credits, 77.5 MiB/s without device" in on_node
    never = said(gain(ST1, over_limit=OverLimit(20.0)))
    assert "EBS counted no limit in 20.0 s: something else slows the device down." in never


def test_trials_that_had_no_credits_are_counted():
    made = study()
    reason = "the disk wrote 9.96 MiB/s, but 62.4 MiB/s under the current settings: the volume or "
    for _ in range(2):
        made.add("candidate", FASTER, None, problem=f"{reason}the instance may be out of credits")
    recommendation = advise(made.tried(FASTER, 4.0).results)
    assert "2 trials may have had no credits and are invalid: `writewise plan" in said(
        recommendation
    )
    assert len(screen(recommendation).splitlines()) <= 42


def test_the_details_have_a_few_volumes_next_to_what_was_measured():
    lines = screen(gain(), 100, details=True).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("The same pull on other"))
    rows = [line.split("  ") for line in lines[at + 3 : at + 9]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells[0] == ["now, as measured", "$11.25", "4.02 s", "30.7 s predicted", "3 min 17 s"]
    assert ["gp3, 250 GiB, 3,000 IOPS, 361 MiB/s", "$29.44", "3.20 s", "5.66 s"] in cells


def test_an_unknown_volume_is_said_with_the_options_that_name_it():
    text = said(gain(None), details=True)
    assert "volume unknown; `sweep` has --volume-type and --volume-size for it" in text
    assert "Volumes of 2.00 GiB or more: the size of the pull, since the volume's is unk" in text
    assert "\nVolume" not in screen(gain(None)), "it decides nothing"


def test_a_volume_that_cannot_be_planned_with_is_said():
    text = said(gain(KnownVolume("st1", 50)), details=True)
    assert "volume st1, 50 GiB not planned with: st1 of 50 GiB is too small" in text


def test_types_without_a_price_are_named():
    mine = Prices("mine.yaml", {"st1": {"gib_month": 0.05}, "gp3": {"gib_month": 0.1}})
    text = said(advise(study().tried(FASTER, 4.0).results, prices=mine), details=True)
    assert "mine.yaml has no price of gp2, gp3 iops_month, gp3 mib_per_s_month, io1, io2" in text
    assert "prices of mine.yaml." in text


def test_the_unknown_rate_is_said():
    context = {"volume": {"type": "st1", "size_gib": 250}}
    text = said(advise(Study(context=context).tried(FASTER, 4.0).results), details=True)
    assert "device its rate cannot be determined: the runs do not show" in text


def test_the_document_has_all_of_it():
    document = json.loads(json.dumps(advice_document(no_gain())))["volume"]
    figures = {"type": "st1", "size_gib": 250, "iops": None, "throughput_mib_per_s": None}
    assert document["volume"] == figures
    device = document["device"]
    assert (device["fit"], device["limited_by"]) == ("as allowed", "volume")
    assert [each["credits"] for each in device["allowed"]] == [{"volume": 100.0}, {"volume": 0.0}]
    choice = document["choice"]
    assert document["is_recommended"] is True
    assert (choice["aim"], choice["volume"]["type"]) == ("as fast as the source", "gp3")
    assert choice["more_usd"] == round(choice["monthly_usd"] - 11.25, 2)
    assert len(document["others"]) >= 3
    assert (document["capacity_gib"], document["prices"]) == (250, "us-east-1, 2026-08-12")


@pytest.mark.parametrize("name", CASES)
def test_every_document_is_json(name):
    assert json.loads(json.dumps(advice_document(CASES[name]())))["volume"]["prices"]


def test_the_snippet_names_the_volume_and_its_credits():
    change = change_of(advise(study(node=ON_EC2).tried(FASTER, 4.0).results))
    line = (
        "EBS volume: st1, 250 GiB (vol-0123456789abcdef0), 96.2 % of its credits at the start "
        "(CloudWatch, 2026-11-21 09:58 UTC)."
    )
    assert line in " ".join(evidence_lines(change))
    again = parse_recommendation(json.dumps(change.to_json()), "it")
    assert isinstance(again, RecommendedChange)
    assert again == change


def test_a_snippet_says_unknown_only_on_ec2():
    lines = [" ".join(evidence_lines(change_of(gain(None, name)))) for name in ("m5.large", None)]
    assert ["EBS volume: unknown." in line for line in lines] == [True, False]


def test_a_recommendation_without_a_volume_is_read_by_earlier_versions():
    document = change_of(gain(None)).to_json()
    assert "volume" not in document["evidence"]
    assert "volume" in change_of(gain()).to_json()["evidence"]
