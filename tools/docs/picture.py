# SPDX-License-Identifier: Apache-2.0
"""Draw the recorded output of a run as an SVG: python -m tools.docs.picture OUTPUT.txt TITLE.

The picture is written next to the recording. A recording with colours is made by
`script --quiet --command 'sudo make demo' OUTPUT.txt` in a terminal of 80 columns.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80


def svg_of(recording: str, title: str) -> str:
    """Return an SVG of a terminal that shows the recording."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text.from_ansi(recording.rstrip("\n")), soft_wrap=True)
    return console.export_svg(title=title, unique_id="writewise")


def main() -> None:
    """Write the picture of the recording named in the arguments."""
    recording, title = Path(sys.argv[1]), sys.argv[2]
    picture = svg_of(recording.read_text(encoding="utf-8"), title)
    recording.with_suffix(".svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
