# SPDX-License-Identifier: Apache-2.0
"""recommendation.json: what advise writes is read back unchanged, and nothing else is accepted."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.shared.errors import InvalidFileError, UsageError
from profiler.report.advised_change import change_of
from sysctl.advice.advise import advise
from sysctl.change.recommendation_file import from_json, parse_recommendation
from sysctl.knobs.setting import Setting
from tests.unit.changes import change_in
from tests.unit.studies import Study, ratio

CHANGE = change_in(advise(Study().tried(ratio(60), 3.6).results))
DOCUMENT = json.loads(json.dumps(CHANGE.to_json()))


def with_field(path, value):
    document = copy.deepcopy(DOCUMENT)
    *parents, last = path
    place = document
    for key in parents:
        place = place[key]
    place[last] = value
    return document


def test_a_recommendation_is_read_back_from_its_file():
    assert from_json(DOCUMENT, "x") == CHANGE
    assert CHANGE.sysctl_values == {"vm.dirty_ratio": 60, "vm.dirty_background_ratio": 5}
    assert CHANGE.undo_values == {"vm.dirty_ratio": 20, "vm.dirty_background_ratio": 10}
    assert CHANGE.changes_sysctls and CHANGE.evidence.pairs == 3
    assert CHANGE.other_form.kind == "bytes"


def test_mount_options_and_disk_knobs_are_read_back_too():
    setting = Setting(
        (("vm.dirty_ratio", 60), ("vm.dirty_background_ratio", 5)),
        "noatime,logbsize=256k",
        (("queue/scheduler", "none"),),
    )
    change = change_in(advise(Study().credited(setting, 3.6).results))
    assert change.mount.value == ("noatime", "logbsize=256k")
    assert change.mount.policy == ("nosuid",)
    assert change.disk.knobs[0].value == "none"
    assert from_json(json.loads(json.dumps(change.to_json())), "x") == change


def test_without_a_recommendation_there_is_no_change():
    assert change_of(advise(Study().results)) is None


def test_untrusted_text_is_bounded_and_printable():
    study = Study(context={"host": "node\x1b[2J\n" * 1000})
    host = change_in(advise(study.tried(ratio(60), 3.6).results)).evidence.host
    assert host.isprintable() and len(host) == 2000


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("sysctls", 0, "name"), "kernel.core_pattern", "sysctls[0].name: is not a known sysctl"),
        (("sysctls", 0, "value"), 101, "vm.dirty_ratio is not a whole number from 1 to 100"),
        (("sysctls", 0, "value"), True, "sysctls[0].value: is not a whole number"),
        (("sysctls", 0, "value"), 5, "background must be below dirty"),
        (("sysctls", 1, "name"), "vm.dirty_ratio", "repeats a name"),
        (("sysctls", 0, "reason"), "a\nvm.dirty_ratio = 1", "reason: is not a printable text"),
        (("sysctls", 0, "reason"), "\x1b[2J", "reason: is not a printable text"),
        (("sysctls", 0, "reason"), "x" * 2001, "reason: is not a printable text"),
        (("sysctls",), [{}] * 65, "sysctls: is not a list of a few objects"),
        (("originals",), {"vm.swappiness": 1}, "unknown sysctl 'vm.swappiness'"),
        (("originals",), {"vm.dirty_ratio": 1, "vm.dirty_bytes": 8192}, "exclude each other"),
        (("evidence", "ratio"), float("nan"), "evidence.ratio: is not a number above 0"),
        (("evidence", "present"), None, "evidence.present: is not an object"),
        (("more",), 1, "more: is unknown"),
    ],
)
def test_an_invalid_field_is_named_with_its_place(path, value, problem):
    with pytest.raises(InvalidFileError) as caught:
        from_json(with_field(path, value), "x")
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("target", "data", "mount.target: is not an absolute path"),
        ("target", "/data/../etc", "mount.target: is not an absolute path"),
        ("value", ["noatime,suid"], "mount.value: is not a list of mount options"),
        ("value", ["remount"], "mount.value: is not a list of mount options"),
        ("value", ["-o"], "mount.value: is not a list of mount options"),
        ("fstype", "nfs", "mount.fstype: is not xfs or ext4"),
    ],
)
def test_mount_advice_is_checked(field, value, problem):
    mount = {
        **{"target": "/data", "device": "/dev/nvme1n1", "fstype": "xfs", "reason": "as measured"},
        **{"value": ["noatime"], "present": [], "policy": []},
    }
    assert from_json(with_field(("mount",), mount), "x").mount.value == ("noatime",)
    with pytest.raises(InvalidFileError) as caught:
        from_json(with_field(("mount",), {**mount, field: value}), "x")
    assert problem in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"format": "x"}', "1" * 5000])
def test_other_files_are_refused_with_one_sentence(text):
    with pytest.raises(UsageError, match="x is not a recommendation"):
        parse_recommendation(text, "x")


def test_another_version_is_refused():
    with pytest.raises(UsageError, match="has version '2'; this version of Writewise reads 1"):
        from_json({**DOCUMENT, "version": 2}, "x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@given(st.sampled_from([*DOCUMENT]), JSON)
def test_any_value_of_a_field_is_accepted_or_refused(field, value):
    try:
        from_json({**DOCUMENT, field: value}, "x")
    except UsageError as error:
        assert error.message.startswith("x")


@given(st.sampled_from([*DOCUMENT["evidence"]]), JSON)
def test_any_value_in_the_evidence_is_accepted_or_refused(field, value):
    document = with_field(("evidence", field), value)
    try:
        assert json.loads(json.dumps(from_json(document, "x").to_json())) == document
    except UsageError as error:
        assert error.message.startswith("x")


def test_the_class_of_a_shared_study_is_read_back_and_left_out_without_one():
    assert "class_key" not in DOCUMENT["evidence"]
    found = from_json(with_field(("evidence", "class_key"), "m5.large_x_0f"), "x")
    assert found.evidence.class_key == "m5.large_x_0f"
    assert found.to_json()["evidence"]["class_key"] == "m5.large_x_0f"


@pytest.mark.parametrize("value", ["", "a b", "../x", "x" * 201, 7, None, "a\x1b[2J"])
def test_what_is_no_class_is_refused(value):
    with pytest.raises(InvalidFileError) as caught:
        from_json(with_field(("evidence", "class_key"), value), "x")
    assert "evidence.class_key" in str(caught.value)
