# SPDX-License-Identifier: Apache-2.0
"""The table of three ways at the end of the demo, with and without a recommendation."""

from __future__ import annotations

import io

from profiler.report.console import plain_console
from profiler.report.three_ways import GovernedPull, print_three_ways
from sysctl.advice.advise import advise
from tests.unit.studies import Study, ratio

GOVERNED = GovernedPull(2.8, 31.0, 0.003, 1807 * 2**20, 24.1)


def rows(results, governed=GOVERNED):
    stream = io.StringIO()
    print_three_ways(advise(results), governed, plain_console(stream))
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def test_each_way_has_its_gain_and_its_price():
    head, rest, standing, governed, *_ = rows(Study().tried(ratio(80), 4.0).results)
    assert head == "returned waited at risk thresholds high"
    assert rest.startswith("at rest 20.0 s 80%") and rest.endswith("never")
    assert standing.startswith("standing settings 4.0") and standing.endswith("always")
    assert governed == "govern 2.80 s 0% 1.76 GiB for 24.1 s"


def test_without_a_recommendation_there_are_two():
    _, rest, governed, *_ = rows(Study().tried(ratio(80), 19.9).results)
    assert rest.startswith("at rest ") and governed.startswith("govern ")


def test_what_was_not_seen_is_unknown():
    seen = rows(
        Study().results, GovernedPull(2.8, None, None, None, None, "the governor was killed")
    )
    assert "govern 2.80 s unknown unknown unknown" in seen
    assert seen[-1] == "the governor was killed"
