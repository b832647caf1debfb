# SPDX-License-Identifier: Apache-2.0
"""docs/reference/settings.md: every knob that a sweep can try, from the knobs' data."""

from __future__ import annotations

from contracts.model import CallType
from profiler.bpf.session import SYSTEM_CALLS
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.mount import OPTIONS, wide_texts
from sysctl.knobs.vm import KNOBS
from tools.docs.markdown import cell, table


def page() -> str:
    """Return docs/reference/settings.md."""
    return "\n".join(
        [
            "# Settings",
            "",
            "What `writewise sweep` can try. [Write-back](../explanation/writeback.md) explains",
            "how the thresholds act.",
            "",
            "## Sysctls",
            "",
            *table(
                ["Sysctl", "Range", "Kernel default", "Sets", "Risk of a higher value", "In force"],
                [
                    [
                        f"`{knob.name}`",
                        f"{knob.minimum} to {knob.maximum} {knob.unit}",
                        str(knob.kernel_default),
                        *map(cell, (knob.what, knob.risk, knob.takes)),
                    ]
                    for knob in KNOBS
                ],
            ),
            "",
            "## Knobs of the destination's disk",
            "",
            "They exist where the kernel and the disk have them.",
            "",
            *table(
                ["Knob", "Option", "Range", "Kernel default", "Sets", "Risk", "In force"],
                [
                    [
                        f"`{knob.name}`",
                        f"`{knob.flag}`",
                        *map(cell, (knob.range, knob.kernel_default)),
                        *map(cell, (knob.what, knob.risk, knob.takes)),
                    ]
                    for knob in DEVICE_KNOBS
                ],
            ),
            "",
            "## Mount options",
            "",
            *table(
                ["Option", "File system", "Takes", "What is known of it", "Risk"],
                [
                    [
                        f"`{option.name}`",
                        ", ".join(option.filesystems),
                        option.takes.value,
                        *map(cell, (option.note, option.risk)),
                    ]
                    for option in OPTIONS
                ],
            ),
            "",
            "## What a wide sweep tries",
            "",
            "`--space wide` tries these values after the thresholds, one knob at a time:",
            "",
            *(f"- `{name}`: {values}" for name, values in _wide_values()),
            "",
        ]
    )


def _wide_values() -> list[tuple[str, str]]:
    tried = [*((k.name, k.wide) for k in KNOBS), *((k.name, k.wide) for k in DEVICE_KNOBS)]
    knobs = [(name, ", ".join(map(str, values))) for name, values in tried if values]
    options = ", ".join(dict.fromkeys((*wide_texts("xfs"), *wide_texts("ext4"))))
    return [*knobs, ("mount options", options)]


def call_table() -> list[str]:
    """Return the last table of docs/reference/contracts.md."""
    return table(
        ["Call type", "Counts the system calls (by their tracepoints' names)"],
        [
            [f"`{call_type.value}`", ", ".join(f"`{name}`" for name in SYSTEM_CALLS[call_type])]
            for call_type in CallType
        ],
    )
