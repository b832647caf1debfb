# SPDX-License-Identifier: Apache-2.0
"""Write the generated pages: python -m tools.docs."""

from __future__ import annotations

from tools.docs.pages import REFERENCE, pages

if __name__ == "__main__":
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
