"""What the knobs of one disk have in common: a value in sysfs, as data.

Other than a sysctl such a knob is of one device, and here always of the destination's: its request
queue (`/sys/block/NAME/queue`) and its backing device information, bdi (`/sys/class/bdi/MAJ:MIN`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class DeviceKnob:
    """One attribute of the destination's disk: its range, default, effect, risk, how it changes.

    `name` is the folder and the file (`queue/nr_requests`). A knob without a `maximum` takes words,
    those that the host offers. `counterpart` is the knob that sets the same limit in another unit,
    `exact` the file that holds this limit exactly, where the kernel has it: that one is kept and
    written back. `resets` are the knobs to which the kernel gives other values when this one
    changes. `wide` are the values that a wide sweep tries.
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
        """`4 to 10240 requests`, for a person."""
        if self.maximum is None:
            return self.unit
        return f"{self.minimum} to {self.maximum} {self.unit}".rstrip()

    def refusal(self, text: str) -> str | None:
        """Return why `text` is not a value of this knob; None if it is one."""
        if self.maximum is None:
            return None if _WORD.fullmatch(text) else f"{text!r} is no name, such as mq-deadline"
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            return f"{text!r} is no whole number"
        if not self.minimum <= int(text) <= self.maximum or str(int(text)) != text:
            return f"{text} is out of range, use {self.range}"
        return None
