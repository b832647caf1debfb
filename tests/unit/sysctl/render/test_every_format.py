# SPDX-License-Identifier: Apache-2.0
"""What holds for every format of a recommendation; an entry in FORMATS is tested here.

It needs a reader in `READERS`, which is as strict as the program that reads its files.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from contracts.shared.text import is_unprintable
from sysctl.advice.advise import advise
from sysctl.knobs.setting import Setting
from sysctl.render import ansible
from sysctl.render.formats import EVERY_FILE, FORMATS, NAMES
from sysctl.render.snippet import Format, InexpressibleError
from tests.unit.changes import EVERYTHING, change_in, mounted, with_descriptive_text
from tests.unit.snippet_readers import READERS
from tests.unit.studies import Study
from tests.unit.sweeps import GIB

ONLY_SYSCTLS = replace(EVERYTHING, mount=None, disk=None, transfer={})
ONLY_MOUNT = replace(ONLY_SYSCTLS, originals=EVERYTHING.sysctl_values, mount=EVERYTHING.mount)
IN_BYTES = Setting((("vm.dirty_bytes", 3 * GIB), ("vm.dirty_background_bytes", GIB)))
#: Files that no sysctl.d overrides: Bottlerocket has none, and undoing sets what was there.
NOT_OVERRIDDEN = ("90-writewise.bottlerocket.toml", ansible.UNDO_NAME)
#: Formats that refuse thresholds in bytes.
WITHOUT_BYTES = ("tuned",)


def expressing(change):
    """Those formats that write a file for the change: each as an argument of a test."""
    return [pytest.param(each, id=each.name) for each in FORMATS if each.render(change)]


def test_every_format_has_a_reader_and_no_other_has():
    assert READERS.keys() == set(NAMES)


@pytest.mark.parametrize("form", expressing(EVERYTHING))
class TestEveryFormat:
    """All of them can express something of `EVERYTHING`."""

    @given(change=with_descriptive_text())
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_what_others_wrote_changes_no_setting(self, form: Format, change):
        read = READERS[form.name]
        snippets, of_tame = form.render(change), form.render(EVERYTHING)
        assert [each.file_name for each in snippets] == [each.file_name for each in of_tame]
        for snippet, tame in zip(snippets, of_tame):
            # the tasks that undo set knobs to what the host had, which is others' text
            if snippet.file_name != ansible.UNDO_NAME:
                assert read(snippet.text) == read(tame.text)
            assert not any(map(is_unprintable, snippet.text.replace("\n", "")))
            assert snippet.text.encode().decode() == snippet.text

    def test_each_file_carries_its_evidence_and_its_undo_and_is_deterministic(self, form: Format):
        for snippet in form.render(EVERYTHING):
            is_ascii = form.name == "ssm"
            text = snippet.text.encode().decode("unicode_escape") if is_ascii else snippet.text
            assert "5.6" in text and "95% interval" in text
            assert "node-1" in text and "6.18.0" in text and "2026-11-21T10:00:00+00:00" in text
            words = " ".join(text.replace('",\n', "").translate(str.maketrans('#"', "  ")).split())
            assert "3.20 GiB" in words
            assert "termination, a spot interruption, a kernel panic" in words
            assert "snapshot" in words and "(OOM)" in words and "fsync calls" in words
            assert "To undo" in text
            assert "90-writewise" in snippet.file_name
        assert form.render(EVERYTHING) == form.render(replace(EVERYTHING))

    def test_each_file_says_that_both_halves_were_measured_together(self, form: Format):
        words = "--transfer max_concurrency=20,multipart_chunksize=32MiB,io_chunksize=1MiB"
        for snippet in form.render(EVERYTHING):
            assert words in snippet.text
            assert "Either half alone may gain less." in snippet.text
        for snippet in form.render(replace(EVERYTHING, transfer={})):
            assert "--transfer" not in snippet.text

    def test_each_file_is_known_again_by_its_name_and_its_beginning(self, form: Format):
        for snippet in form.render(EVERYTHING):
            assert form.has_name(snippet.file_name)
            assert snippet.text.startswith(form.begins)
            assert [each for each in EVERY_FILE if each.has_name(snippet.file_name)] == [form]


def test_all_formats_are_in_these_tests():
    assert all(each.render(EVERYTHING) for each in FORMATS)


@pytest.mark.parametrize("form", expressing(ONLY_SYSCTLS))
class TestFormatsOfSysctls:
    """Those that write a file if only sysctls change."""

    def test_a_file_says_what_overrides_it(self, form: Format):
        for snippet in form.render(ONLY_SYSCTLS):
            is_overridden = snippet.file_name not in NOT_OVERRIDDEN
            assert ("99-*.conf" in snippet.text) == is_overridden

    def test_a_file_that_sets_bytes_carries_the_warning(self, form: Format):
        change = change_in(advise(Study().tried(IN_BYTES, 10.0).results))
        if form.name in WITHOUT_BYTES:
            with pytest.raises(InexpressibleError):
                form.render(change)
            return
        text = form.render(change)[0].text
        assert "vm.dirty_bytes" in text
        assert "WARNING: bytes are not for hosts whose containers" in text

    @pytest.mark.parametrize(
        ("name", "value"),
        [("kernel.core_pattern", 1), ("vm.dirty_ratio", "80\n"), ("vm.dirty_ratio", -1)],
    )
    def test_an_unknown_sysctl_is_refused(self, form: Format, name, value):
        advice = replace(EVERYTHING.sysctls[0], name=name, value=value)
        change = replace(EVERYTHING, sysctls=(advice,), originals={})
        with pytest.raises(InexpressibleError, match="unknown or invalid: "):
            form.render(change)


@pytest.mark.parametrize("form", expressing(ONLY_MOUNT))
class TestFormatsOfMounts:
    """Those that write a file if only mount options change."""

    @pytest.mark.parametrize(
        "word", ["noatime,exec", "x y", "a\nb", 'a"b', "", "-o", "ä", "a" * 200]
    )
    def test_an_invalid_mount_option_is_refused(self, form: Format, word):
        with pytest.raises(InexpressibleError, match="is not a mount option"):
            form.render(mounted(words=["noatime", word]))
