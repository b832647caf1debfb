# SPDX-License-Identifier: Apache-2.0
"""A shared study in words: what a mixed class, a class without a gain and an unfinished one get."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from profiler.report.class_study import (
    advice_of_class_document,
    headline,
    print_class_advice,
    print_status,
)
from sysctl.fleet.class_advice import advise_class
from tests.unit.sysctl.fleet.studies import SPEC, finished, scattered

EIGHT = replace(SPEC, nodes=8)


def mixed_kinds(node):
    return 1.0 if int(node[1:]) % 2 else 2.6


def printed(advice):
    output = io.StringIO()
    print_class_advice(advice, Console(file=output, width=200, markup=False, highlight=False))
    return output.getvalue()


def mixed():
    return advise_class(EIGHT, finished(EIGHT, nodes=8, factor=mixed_kinds))


def test_a_mixed_class_is_to_be_split_and_its_nodes_are_named():
    text = printed(mixed())
    first = text.splitlines()[0]
    assert first.startswith("Change nothing on the class, and split it: ")
    assert first.endswith(" gains on 4 nodes and not on 4.")
    assert "  gains on      4 nodes, now 20.0 s a pull, writers wait 50% of their time:" in text
    gains, others = (named(text, label) for label in ("gains on", "no gain on"))
    assert sorted(each.split()[0] for each in gains) == ["n1", "n3", "n5", "n7"]
    assert sorted(each.split()[0] for each in others) == ["n0", "n2", "n4", "n6"]
    assert all(float(each.split()[1]) < 0.9 for each in gains)
    assert all(float(each.split()[1]) > 1 for each in others)
    assert "study create --kind" in text


def named(text, label):
    """Return the nodes in the line below a label, with their ratios."""
    lines = text.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(f"  {label} "))
    return [each.strip() for each in lines[at + 1].split(",")]


def test_the_document_names_each_node_with_its_interval_and_kind():
    document: dict[str, Any] = advice_of_class_document(mixed())
    assert set(document["present_by_node"]) == set(document["nodes"])
    assert document["present_by_node"]["n0"] == {"return_s": 20.0, "stall_share": 0.5}
    (each, *_) = document["settings"]
    assert each["objection"] == "it gains on some nodes and not on others"
    node = each["by_node"]["n0"]
    assert node["kind"] == "no gain" and node["pairs"] == 4
    assert node["low"] < node["estimate"] < node["high"]
    assert {name: one["kind"] for name, one in each["by_node"].items() if name in ("n1", "n3")} == {
        "n1": "gains",
        "n3": "gains",
    }


def test_nodes_that_are_alike_are_not_listed():
    text = printed(advise_class(SPEC, finished(factor=scattered)))
    assert text.startswith("Set dirty_ratio=60")
    assert "gains on" not in text


def test_a_search_without_a_gain_says_to_change_nothing():
    advice = advise_class(SPEC, finished(factor=lambda node: 2.6))
    assert headline(advice) == (
        "Change nothing on the class: no candidate was faster than the current settings."
    )
    assert "the search has ended" in printed(advice)
    assert advice_of_class_document(advice)["complete"] is True


def test_the_state_says_that_a_search_without_a_gain_has_ended():
    def state(records):
        output = io.StringIO()
        print_status(SPEC, records, 0, Console(file=output, width=200, markup=False))
        return output.getvalue()

    records = finished(factor=lambda node: 2.6)
    assert "ended    no candidate was faster" in state(records)
    assert "ended" not in state(records[:-1])
    assert "ended" not in state(finished())


def test_a_study_that_has_just_begun_says_nothing_yet():
    assert headline(advise_class(SPEC, [])).startswith("Change nothing yet")
