# SPDX-License-Identifier: Apache-2.0
"""Who may take part in a study: nodes of its class and kind, with the settings it compares with."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from profiler.shared_study.join import node_name, problem_of
from sysctl.fleet.records import is_node_name
from sysctl.fleet.spec import class_of_kind, kind_from
from tests.unit.sysctl.fleet.studies import PRESENT, SPEC

HERE = SPEC.class_key
SPLIT = replace(SPEC, class_key=class_of_kind(HERE, "old-disks"))


def test_a_node_of_the_class_takes_part():
    assert problem_of(SPEC, HERE, PRESENT) is None


def test_a_node_of_another_class_does_not():
    assert "the study of" in problem_of(SPEC, f"x{HERE}", PRESENT)


def test_a_node_with_other_settings_does_not():
    assert "vm.dirty_ratio=30" in problem_of(SPEC, HERE, {**PRESENT, "vm.dirty_ratio": 30})


def test_a_study_of_one_kind_takes_only_nodes_that_are_said_to_be_of_it():
    assert problem_of(SPLIT, HERE, PRESENT, "old-disks") is None
    assert "--kind old-disks" in problem_of(SPLIT, HERE, PRESENT)
    assert "the study of" in problem_of(SPLIT, HERE, PRESENT, "new-disks")
    assert "the study of" in problem_of(SPEC, HERE, PRESENT, "old-disks")


@pytest.mark.parametrize("text", ["", "Old", "a b", "../x", "-x", "x" * 41, "a.b"])
def test_a_kind_is_a_word(text):
    with pytest.raises(ValueError, match="invalid kind"):
        kind_from(text)


def test_a_node_has_a_name_of_its_own_in_each_study():
    node, other = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
    names = {node_name(study, each) for study in ("a", "b") for each in (node, other)}
    assert len(names) == 4
    assert all(is_node_name(name) and node not in name for name in names)
    assert node_name("a", node) == node_name("a", node)
