# SPDX-License-Identifier: Apache-2.0
"""The write-back sysctls, each as data.

Semantics: kernel `mm/page-writeback.c` and `Documentation/admin-guide/sysctl/vm.rst`.
`docs/explanation/writeback.md` explains their effect on a burst of writes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SysctlKnob:
    """One sysctl: range, kernel default, effect and risk.

    `counterpart` is the sysctl that the kernel sets to 0 when this one is written (ratio and bytes
    of one threshold); only the non-zero member of such a pair has an effect. `wide` are the values
    that a wide sweep tries one at a time, in addition to the thresholds, which it combines.
    """

    name: str
    unit: str
    minimum: int
    maximum: int
    kernel_default: int
    what: str
    risk: str
    counterpart: str | None = None
    takes: str = "at once"
    wide: tuple[int, ...] = ()

    @property
    def flag(self) -> str:
        """The command-line option: `--dirty-ratio`."""
        return "--" + self.name.partition(".")[2].replace("_", "-")


_MORE_TO_LOSE = (
    "instance termination, a spot interruption, a kernel panic or a host failure loses more of the "
    "written data"
)

KNOBS: tuple[SysctlKnob, ...] = (
    SysctlKnob(
        name="vm.dirty_ratio",
        unit="% of dirtyable memory",
        minimum=1,
        maximum=100,
        kernel_default=20,
        what="amount of dirty pages above which writers must wait",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_bytes",
    ),
    SysctlKnob(
        name="vm.dirty_background_ratio",
        unit="% of dirtyable memory",
        minimum=0,
        maximum=100,
        kernel_default=10,
        what="amount of dirty pages above which write-back starts in the background",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_background_bytes",
    ),
    SysctlKnob(
        name="vm.dirty_bytes",
        unit="bytes",
        minimum=2 * 4096,
        maximum=2**62,
        kernel_default=0,
        what="the same as vm.dirty_ratio, in bytes, independent of the memory size",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_ratio",
    ),
    SysctlKnob(
        name="vm.dirty_background_bytes",
        unit="bytes",
        minimum=4096,
        maximum=2**62,
        kernel_default=0,
        what="the same as vm.dirty_background_ratio, in bytes, independent of the memory size",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_background_ratio",
    ),
    SysctlKnob(
        name="vm.dirty_expire_centisecs",
        unit="1/100 s",
        minimum=0,
        maximum=2**31 - 1,
        kernel_default=3000,
        what="age at which periodic write-back writes dirty pages",
        risk="data is only in memory for longer",
        takes="at the flusher's next wake-up",
        wide=(500, 3000),
    ),
    SysctlKnob(
        name="vm.dirty_writeback_centisecs",
        unit="1/100 s",
        minimum=0,
        maximum=2**31 - 1,
        kernel_default=500,
        what="how often the flusher wakes up; 0 turns periodic write-back off",
        risk="data is only in memory for longer, with 0 indefinitely",
        takes="at the flusher's next wake-up",
        wide=(100, 500),
    ),
)

BY_NAME = {knob.name: knob for knob in KNOBS}

#: The two thresholds, each with its ratio and its bytes sysctl.
DIRTY_PAIR = ("vm.dirty_ratio", "vm.dirty_bytes")
BACKGROUND_PAIR = ("vm.dirty_background_ratio", "vm.dirty_background_bytes")
THRESHOLDS = (*DIRTY_PAIR, *BACKGROUND_PAIR)
