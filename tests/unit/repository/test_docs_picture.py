# SPDX-License-Identifier: Apache-2.0
"""The picture of the README shows the recorded run next to it, in a terminal of 80 columns."""

from __future__ import annotations

import html
import re

from tests.places import REPOSITORY
from tools.docs.picture import COLUMNS, svg_of

RECORDING = REPOSITORY / "docs/tutorial/demo.txt"


def words_of(svg):
    """The text of a picture, without the title and the clips that rich draws first."""
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def flat(texts):
    return re.sub(r"\s", "", "".join(texts))


def test_the_picture_has_every_line_of_the_recording():
    recording = RECORDING.read_text()
    shown = words_of(RECORDING.with_suffix(".svg").read_text())
    assert flat(recording.splitlines()) in flat(shown)
    assert max(map(len, recording.splitlines())) <= COLUMNS


def test_a_new_picture_says_the_same():
    drawn = words_of(svg_of(RECORDING.read_text(), "make demo"))
    assert flat(drawn) == flat(words_of(RECORDING.with_suffix(".svg").read_text()))


def test_colours_of_a_recording_are_drawn():
    assert "1 MiB" in html.unescape(svg_of("\x1b[1;31m1 MiB\x1b[0m", "a")).replace("\xa0", " ")


def test_the_readme_is_short():
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 90
