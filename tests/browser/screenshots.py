# SPDX-License-Identifier: Apache-2.0
"""Compares a screenshot with the reference in `references/`.

`WRITEWISE_WRITE_SCREENSHOTS=1` writes the references again: look at each before you commit it. Both
are made four times smaller first, so that another way to smooth letters makes no difference.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

REFERENCES = Path(__file__).with_name("references")
#: The mean difference of the pixels, of 255, and of the heights.
MOST_DIFFERENCE, MOST_HEIGHT = 3.0, 0.02
_SMALLER = 4
_COLOURS = 128


def compare(name: str, screenshot: bytes) -> str | None:
    """Return how a screenshot differs from its reference; None if it does not."""
    from PIL import Image, ImageChops, ImageStat

    path = REFERENCES / f"{name}.png"
    seen = Image.open(io.BytesIO(screenshot)).convert("RGB")
    if os.environ.get("WRITEWISE_WRITE_SCREENSHOTS"):
        seen.quantize(_COLOURS).save(path, optimize=True)
        return None
    if not path.exists():
        return f"there is no {path}"
    reference = Image.open(path).convert("RGB")
    if abs(seen.height / reference.height - 1) > MOST_HEIGHT or seen.width != reference.width:
        return f"it has {seen.size} pixels, and {path} {reference.size}"
    size = (reference.width // _SMALLER, reference.height // _SMALLER)
    small = [image.resize(size, Image.Resampling.BOX) for image in (seen, reference)]
    difference = max(ImageStat.Stat(ImageChops.difference(*small)).mean)
    return f"it differs by {difference:.1f} from {path}" if difference > MOST_DIFFERENCE else None
