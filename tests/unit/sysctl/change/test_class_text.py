# SPDX-License-Identifier: Apache-2.0
"""The names of classes in files and options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysctl.change.class_text import is_class_text, recorded_class
from tests.unit.fleet_records import CLASS

KEY = str(CLASS)


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (KEY, KEY),
        (f"{KEY}.old-disks", KEY),
        (f"{KEY}.old.disks", KEY),
        ("m5.large", "m5.large"),
        (f"{KEY}.", f"{KEY}."),
        ("any", "any"),
    ],
)
def test_records_have_the_class_without_a_kind(text, recorded):
    assert recorded_class(text) == recorded
    assert is_class_text(recorded)


@given(st.text(st.characters(codec="ascii"), max_size=220))
def test_a_name_is_part_of_a_path_and_of_a_key(text):
    if is_class_text(text):
        assert text.isascii() and "/" not in text and text not in (".", "..")
        assert is_class_text(recorded_class(text))
