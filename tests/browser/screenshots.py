# SPDX-License-Identifier: Apache-2.0
"""Compares a screenshot with the reference in `references/`.

`WRITEWISE_WRITE_SCREENSHOTS=1` writes the references again: look at each before you commit it. Both
are made four times smaller first, so that another way to smooth letters makes no difference. Then
each part is compared by itself: in the mean of a whole page, a chart without its marks is nothing.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

REFERENCES = Path(__file__).with_name("references")
WRITES = bool(os.environ.get("WRITEWISE_WRITE_SCREENSHOTS"))
#: The mean difference of the pixels of a part, of 255, and of the heights. Equal pages differ by at
#: most 4, because the references have few colours; a page without its marks by at least 8.
MOST_DIFFERENCE, MOST_HEIGHT = 6.0, 0.02
_SMALLER = 4
#: The side of a part in pixels of the smaller picture.
_PART = 12
_COLOURS = 128


def compare(name: str, screenshot: bytes) -> str | None:
    """Return how a screenshot differs from its reference; None if it does not."""
    from PIL import Image

    path = REFERENCES / f"{name}.png"
    seen = Image.open(io.BytesIO(screenshot)).convert("RGB")
    if WRITES:
        seen.quantize(_COLOURS).save(path, optimize=True)
        return None
    if not path.exists():
        return f"there is no {path}"
    reference = Image.open(path).convert("RGB")
    if abs(seen.height / reference.height - 1) > MOST_HEIGHT or seen.width != reference.width:
        return f"it has {seen.size} pixels, and {path} {reference.size}"
    size = (reference.width // _SMALLER, reference.height // _SMALLER)
    small = [image.resize(size, Image.Resampling.BOX) for image in (seen, reference)]
    difference, (left, top) = _largest_difference(*small)
    if difference <= MOST_DIFFERENCE:
        return None
    place = f"{left * _SMALLER}, {top * _SMALLER}"
    return f"it differs by {difference:.1f} from {path} at the pixel {place}"


def _largest_difference(one: Any, other: Any) -> tuple[float, tuple[int, int]]:
    """Return the mean difference of the part that differs most, and the part's corner."""
    from PIL import ImageChops, ImageStat

    differing = ImageChops.difference(one, other)
    width, height = differing.size
    corners = [(x, y) for y in range(0, height, _PART) for x in range(0, width, _PART)]
    boxes = ((x, y, min(x + _PART, width), min(y + _PART, height)) for x, y in corners)
    means = [max(ImageStat.Stat(differing.crop(box)).mean) for box in boxes]
    return max(zip(means, corners))
