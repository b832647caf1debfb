"""The write-back sysctls, each as data.

Semantics: kernel `mm/page-writeback.c` and `Documentation/admin-guide/sysctl/vm.rst`; what they do
to a burst of writes is told in `docs/writeback.md`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SysctlKnob:
    """One sysctl: its range, the kernel's default, what it does and what it costs.

    `counterpart` is the sysctl that the kernel zeroes when this one is written (ratio and bytes of
    one threshold); of such a pair only the non-zero member means anything. `wide` are the values
    that a wide sweep tries one at a time, beside the thresholds, which it combines.
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
        """The name as a command-line flag: `--dirty-ratio`."""
        return "--" + self.name.partition(".")[2].replace("_", "-")


_MORE_TO_LOSE = (
    "a kernel panic, host failure or termination loses more of what was written but is not yet on "
    "the device"
)

KNOBS: tuple[SysctlKnob, ...] = (
    SysctlKnob(
        name="vm.dirty_ratio",
        unit="% of dirtyable memory",
        minimum=1,
        maximum=100,
        kernel_default=20,
        what="dirty pages above which writers are made to wait",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_bytes",
    ),
    SysctlKnob(
        name="vm.dirty_background_ratio",
        unit="% of dirtyable memory",
        minimum=0,
        maximum=100,
        kernel_default=10,
        what="dirty pages above which the kernel writes them back in the background",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_background_bytes",
    ),
    SysctlKnob(
        name="vm.dirty_bytes",
        unit="bytes",
        minimum=2 * 4096,
        maximum=2**62,
        kernel_default=0,
        what="as vm.dirty_ratio, in bytes: the same on every memory size",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_ratio",
    ),
    SysctlKnob(
        name="vm.dirty_background_bytes",
        unit="bytes",
        minimum=4096,
        maximum=2**62,
        kernel_default=0,
        what="as vm.dirty_background_ratio, in bytes: the same on every memory size",
        risk=_MORE_TO_LOSE,
        counterpart="vm.dirty_background_ratio",
    ),
    SysctlKnob(
        name="vm.dirty_expire_centisecs",
        unit="1/100 s",
        minimum=0,
        maximum=2**31 - 1,
        kernel_default=3000,
        what="age at which dirty pages become eligible for periodic write-back",
        risk="data stays in memory only for longer",
        takes="from the flusher's next round on",
        wide=(500, 3000),
    ),
    SysctlKnob(
        name="vm.dirty_writeback_centisecs",
        unit="1/100 s",
        minimum=0,
        maximum=2**31 - 1,
        kernel_default=500,
        what="how often the flusher wakes up; 0 turns periodic write-back off",
        risk="data stays in memory only for longer, at 0 without end",
        takes="from the flusher's next round on",
        wide=(100, 500),
    ),
)

BY_NAME = {knob.name: knob for knob in KNOBS}

#: The two thresholds, each with its ratio and its bytes sysctl.
DIRTY_PAIR = ("vm.dirty_ratio", "vm.dirty_bytes")
BACKGROUND_PAIR = ("vm.dirty_background_ratio", "vm.dirty_background_bytes")
THRESHOLDS = (*DIRTY_PAIR, *BACKGROUND_PAIR)
