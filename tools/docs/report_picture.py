# SPDX-License-Identifier: Apache-2.0
"""docs/how-to/report.png: the first screen of the report of a recorded profile, in Chromium.

`python -m tools.docs.report_picture` writes it, after `tools/setup test browser`.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

WIDTH, HEIGHT = 1060, 1400
_COLOURS = 128


def write(path: Path) -> None:
    """Write the picture."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from profiler.html.pages import page_text
    from tests.html_documents import document

    with sync_playwright() as playwright:
        program = shutil.which("chromium-headless-shell")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_content(page_text(document("profile")))
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.convert("RGB").quantize(_COLOURS).save(path, optimize=True)
        browser.close()


if __name__ == "__main__":
    write(Path(__file__).parents[2] / "docs/how-to/report.png")
