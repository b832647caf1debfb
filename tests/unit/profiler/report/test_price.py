# SPDX-License-Identifier: Apache-2.0
"""The cost in the report and in its document: both sides, the label, ext4, and what is missing."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from profiler.report.advice import print_details
from profiler.report.advice_document import advice_document
from sysctl.advice.advise import advise
from sysctl.evidence.price_seen import Latency
from sysctl.evidence.results import PRICE
from tests.unit.studies import MIB, Study, ratio
from tests.unit.sweeps import GIB, PRICE_SEEN
from tests.unit.sweeps import PRESENT as PRESENT_SETTING

CALM = replace(PRICE_SEEN, fsync=Latency(0.001, 0.05, 31), ext4_data_mode="ordered")
SLOW = replace(
    CALM,
    fsync=Latency(0.02, 7.4, 31),
    refaulted_bytes=90 * MIB,
    direct_reclaim_stalls=1400,
    memory_pressure_share=0.043,
)


def advised(present=CALM, recommended=SLOW, other=None):
    """A change is recommended, with runs with a neighbour of the settings given."""
    study = Study(durable_s=31.0).tried(ratio(80), 4.0, peak_dirty_bytes=2 * GIB)
    study.tried(ratio(60), 6.0)
    prices = {PRESENT_SETTING: present, ratio(80): recommended, ratio(60): other}
    for setting, seen in prices.items():
        if seen:
            peak = GIB if setting == PRESENT_SETTING else 2 * GIB
            times = {"durable_s": 31.2, "peak_dirty_bytes": peak}
            study.add(PRICE, setting, 4.2, price=seen, **times)
    return advise(study.results)


def printed(recommendation, width=120):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        print_details(recommendation, console)
    return captured.get()


def rows(text):
    """The cost table's rows by their titles."""
    lines = text.partition("cost  ")[2].partition("\n\n")[0].splitlines()[2:]
    return {line[:24].strip(): " ".join(line[24:].split()) for line in lines}


def test_both_prices_stand_side_by_side():
    found = rows(printed(advised()))
    assert found["bytes at risk, at most"] == "1.00 GiB 2.00 GiB"
    assert found["with a larger pull"] == "819 MiB 3.20 GiB"
    assert found["neighbour's fsync"] == "1.00 ms, worst 50.0 ms 20.0 ms, worst 7.40 s"
    assert found["neighbour's reads"] == "1.00 ms, worst 20.0 ms 1.00 ms, worst 20.0 ms"
    assert found["programs' memory"] == "0 B swapped out 0 B swapped out"
    assert found["risk"] == "low moderate"
    assert "90.0 MiB read back" in printed(advised())
    assert "1,400 direct reclaims" in printed(advised())


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_keeps_to_80_columns(width):
    recommendation = advised()
    text = printed(recommendation, width)
    table = text.partition("cost  ")[2].partition("\n\n")[0]
    assert max(len(line) for line in table.splitlines()) <= 80
    assert "…" not in table


def test_a_missing_observation_is_reported_and_has_no_rows():
    text = printed(advised(None, None))
    assert set(rows(text)) == {
        "bytes at risk, at most",
        "with a larger pull",
        "time to durable",
        "risk",
    }
    assert "Unknown: what a neighbour and other programs notice." in text
    assert "data=ordered" not in text


def test_where_one_side_alone_was_observed_the_other_says_so():
    assert rows(printed(advised(None)))["neighbour's fsync"] == "not observed 20.0 ms, worst 7.40 s"


ORDERED = "The longest fsync of the neighbour took 7.40 s (50.0 ms under the current settings)."


@pytest.mark.parametrize(
    ("present", "recommended", "is_explained"),
    [
        (CALM, SLOW, True),
        (CALM, replace(SLOW, ext4_data_mode="writeback"), False),
        (CALM, replace(SLOW, ext4_data_mode=""), False),
        (CALM, CALM, False),
        (CALM, replace(CALM, fsync=Latency(0.001, 0.2, 31)), True),
        (CALM, replace(CALM, fsync=Latency(0.001, 0.09, 31)), False),
        (SLOW, SLOW, True),
        (CALM, replace(SLOW, fsync=None), False),
    ],
)
def test_an_fsync_that_waited_for_the_pull_explains_ext4(present, recommended, is_explained):
    text = printed(advised(present, recommended))
    assert ("This volume is ext4 with data=ordered" in text) == is_explained


def test_the_ext4_note_has_the_measured_figures():
    assert ORDERED in printed(advised())
    assert "neighbour took 7.40 s." in printed(advised(None))


def test_each_other_finalist_has_its_price():
    text = printed(advised(other=SLOW))
    line = next(line for line in text.splitlines() if line.startswith("The cost of dirty_ratio=60"))
    assert "neighbour's fsync 20.0 ms, worst 7.40 s" in line
    assert line.endswith("risk moderate.")
    assert "The cost of dirty_ratio=80" not in text
    assert "The cost of dirty_ratio=60" not in printed(advised())


def test_a_reason_of_the_neighbour_is_reported():
    text = printed(
        advised(recommended=replace(SLOW, read=None, problem="reads were not timed: \x1b[2J"))
    )
    assert "In the run with a neighbour: reads were not timed: " in text
    assert "\x1b" not in text
    assert "Unknown: a neighbour's reads." in text


def test_without_a_change_the_current_price_is_reported():
    text = printed(
        advise(Study(durable_s=31.0).add(PRICE, PRESENT_SETTING, 20.0, price=CALM).results)
    )
    assert rows(text)["risk"] == "low"
    assert "The risk of the current settings is low." in text
    assert "recommended" not in text.partition("cost  ")[2].partition("\n\n")[0]


def test_the_document_has_the_same():
    document = json.loads(json.dumps(advice_document(advised(other=CALM)), allow_nan=False))
    price = document["recommended"]["price"]
    assert (price["label"], price["at_risk_bytes"]) == ("moderate", 2 * GIB)
    assert price["observed"]["fsync"] == {
        "median_s": 0.02,
        "worst_s": 7.4,
        "calls": 31,
    }
    assert price["observed"]["read_back_bytes"] == 90 * MIB
    assert document["present"]["price"]["label"] == "low"
    (other,) = document["other_prices"]
    assert other["sysctls"]["vm.dirty_ratio"] == 60
    assert other["observed"]["ext4_data_mode"] == "ordered"
    older: Any = advice_document(advised(None, None))
    assert older["present"]["price"]["observed"] is None
    assert older["present"]["price"]["not_known"] == ["what a neighbour and other programs notice"]
