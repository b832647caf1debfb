# SPDX-License-Identifier: Apache-2.0
"""A knob of a disk: a value in sysfs, as data.

Unlike a sysctl it belongs to one device, here always to the destination's disk: its request queue
(`/sys/block/NAME/queue`) or its backing device information, bdi (`/sys/class/bdi/MAJ:MIN`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class DeviceKnob:
    """One attribute of the destination's disk: range, default, effect, risk, when it takes effect.

    `name` is the folder and the file (`queue/nr_requests`). The values of a knob without a
    `maximum` are words that the host offers. `counterpart` is the knob that sets the same limit in
    another unit. `exact` is the file with the exact limit; if the kernel has it, it is saved and
    restored instead. `resets` are the knobs that the kernel resets when this one changes. `wide`
    are the values that a wide sweep tries.
    """

    name: str
    flag: str
    unit: str
    kernel_default: str
    what: str
    risk: str
    takes: str = "at once"
    minimum: int = 0
    maximum: int | None = None
    counterpart: str = ""
    exact: str = ""
    resets: tuple[str, ...] = ()
    is_rounded: bool = False
    wide: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """The range as text: `4 to 10240 requests`."""
        if self.maximum is None:
            return self.unit
        return f"{self.minimum} to {self.maximum} {self.unit}".rstrip()

    def refusal(self, text: str) -> str | None:
        """Return why `text` is not a valid value; None if it is."""
        if self.maximum is None:
            is_name = _WORD.fullmatch(text) is not None
            return None if is_name else f"{text!r} is not a valid name (example: mq-deadline)"
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            return f"{text!r} is not a whole number"
        if not self.minimum <= int(text) <= self.maximum or str(int(text)) != text:
            return f"{text} is out of range; use {self.range}"
        return None
