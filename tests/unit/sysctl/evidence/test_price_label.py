# SPDX-License-Identifier: Apache-2.0
"""The label of a price, the figures that decide it, and how unknown figures are reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profiler.report.price import because_texts
from sysctl.evidence import price_label
from sysctl.evidence.price_label import Figures, Label, rate
from sysctl.evidence.price_seen import Latency, PriceSeen
from tests.places import REPOSITORY
from tests.unit.sweeps import GIB

MIB = 2**20
CALM = PriceSeen(30.0, Latency(0.002, 0.01, 30), Latency(0.001, 0.01, 30), 0, 0, 0, 0.0)
#: Of a host with 10 GiB that may be dirty: all is low.
LOW = Figures(10 * GIB, GIB, 2 * GIB, 8.0, CALM, CALM)


def seen(**changes):
    return replace(LOW, seen=replace(CALM, **changes))


def fsync(worst_s, present_s=0.01):
    present = replace(CALM, fsync=Latency(0.002, present_s, 30))
    return replace(seen(fsync=Latency(0.002, worst_s, 30)), present_seen=present)


@pytest.mark.parametrize(
    ("figures", "label"),
    [
        (LOW, Label.LOW),
        (replace(LOW, at_risk_bytes=5 * GIB // 2), Label.LOW),
        (replace(LOW, at_risk_bytes=5 * GIB // 2 + MIB), Label.MODERATE),
        (replace(LOW, at_risk_bytes=5 * GIB), Label.MODERATE),
        (replace(LOW, at_risk_bytes=5 * GIB + MIB), Label.HIGH),
        (replace(LOW, after_return_s=30.0), Label.LOW),
        (replace(LOW, after_return_s=31.0), Label.MODERATE),
        (replace(LOW, after_return_s=121.0), Label.HIGH),
        (replace(LOW, ceiling_bytes=4 * GIB), Label.LOW),
        (replace(LOW, ceiling_bytes=9 * GIB), Label.MODERATE),
        (fsync(1.0, present_s=0.9), Label.LOW),
        (fsync(1.1, present_s=0.9), Label.MODERATE),
        (fsync(10.1, present_s=10.0), Label.HIGH),
        (fsync(0.09, present_s=0.001), Label.LOW),
        (fsync(0.3, present_s=0.1), Label.LOW),
        (fsync(0.3, present_s=0.05), Label.MODERATE),
        (seen(read=Latency(0.001, 11.0, 30)), Label.HIGH),
        (seen(memory_pressure_share=0.01), Label.LOW),
        (seen(memory_pressure_share=0.02), Label.MODERATE),
        (seen(memory_pressure_share=0.11), Label.HIGH),
        (seen(swapped_out_bytes=60 * MIB, refaulted_bytes=60 * MIB), Label.MODERATE),
        (seen(swapped_out_bytes=60 * MIB), Label.LOW),
        (seen(refaulted_bytes=2 * GIB), Label.HIGH),
    ],
)
def test_the_label_is_the_highest_of_any_figure(figures, label):
    assert rate(figures).label is label


def test_only_the_figures_that_decide_a_label_are_named():
    figures = replace(fsync(12.5), at_risk_bytes=6 * GIB, ceiling_bytes=8 * GIB)
    assert because_texts(rate(figures)) == (
        "6.00 GiB at risk is 60% of the memory that may be dirty",
        "another program's fsync took up to 12.5 s",
    )
    assert because_texts(rate(LOW)) == ()
    assert because_texts(rate(fsync(0.3))) == (
        "another program's fsync took up to 300 ms (10.0 ms under the current settings)",
    )


def test_a_ceiling_alone_is_never_high():
    assert rate(replace(LOW, ceiling_bytes=10 * GIB)).label is Label.MODERATE


def test_without_a_run_with_a_neighbour_what_is_known_decides():
    older = replace(LOW, seen=None, present_seen=None)
    assert rate(older).label is Label.LOW
    assert rate(older).unknown == ("what a neighbour and other programs notice",)
    assert rate(replace(older, at_risk_bytes=6 * GIB)).label is Label.HIGH


def test_a_figure_that_is_missing_is_named():
    known = replace(LOW, seen=PriceSeen(30.0, fsync=CALM.fsync, direct_reclaim_stalls=9))
    assert rate(known).unknown == (
        "a neighbour's reads",
        "memory pressure",
        "memory that programs lost",
    )
    assert rate(LOW).unknown == ()


def test_the_least_rate_of_the_device_is_assumed_if_nobody_waited_for_it():
    figures = replace(LOW, at_risk_bytes=20 * GIB, memory_bytes=100 * GIB, after_return_s=None)
    rating = rate(figures)
    assert rating.label is Label.HIGH
    assert because_texts(rating) == ("at 125 MiB/s the bytes at risk take 164 s to write",)
    assert rate(replace(figures, at_risk_bytes=GIB)).label is Label.LOW


def test_the_docs_have_the_same_limits():
    text = Path(REPOSITORY, "docs/explanation/price.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.partition("moderate above")[2].partition("\n\n")[0].splitlines()
    ]
    shown = {row[0]: row[1:3] for row in rows if len(row) == 4}
    expected = {
        "bytes at risk, of the dirtyable memory": price_label.AT_RISK_SHARE,
        "ceiling, of the dirtyable memory": price_label.CEILING_SHARE,
        "memory pressure, of the time": price_label.PRESSURE_SHARE,
        "memory that programs lost, of the dirtyable memory": price_label.LOST_SHARE,
    }
    for name, bounds in expected.items():
        high = "never" if bounds.high is None else f"{bounds.high:.0%}".replace("%", " %")
        assert shown[name] == [f"{bounds.moderate:.0%}".replace("%", " %"), high]
    after, wait = price_label.AFTER_RETURN_S, price_label.WAIT_S
    assert shown["time from return to durable"] == ["30 s", "2 min"]
    assert (after.moderate, after.high) == (30, 120)
    assert shown["longest fsync or read of the neighbour"] == ["1 s", "10 s"]
    assert (wait.moderate, wait.high) == (1, 10)
