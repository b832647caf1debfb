# SPDX-License-Identifier: Apache-2.0
"""The two thresholds as ratios and as bytes, and which form suits a fleet.

A ratio is a share of each node's dirtyable memory, so its bytes depend on the instance type; bytes
are the same everywhere (`Documentation/admin-guide/sysctl/vm.rst`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from contracts.shared.units import format_size
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

RATIO = "ratio"
BYTES = "bytes"
#: Reason: `sysctl.knobs.writeback.group_thresholds`.
CONTAINERS = (
    "not for hosts whose containers have memory limits: the kernel converts bytes to a percentage "
    "of the host's memory and applies it to each container's memory, so 2.00 GiB on a host with "
    "256 GiB leaves 16.0 MiB for a container with 2.00 GiB"
)
#: A ratio that differs more from the bytes is another setting.
_EXACT_SHARE = 0.05
_RATIO_NAMES, _BYTES_NAMES = zip(DIRTY_PAIR, BACKGROUND_PAIR)


@dataclass(frozen=True)
class Form:
    """The thresholds by sysctl name, as `kind`; `note` relates them to the measured values.

    If they cannot be written in this form, there are no `values` and `note` has the reason.
    """

    kind: str
    values: Mapping[str, int]
    note: str
    is_measured: bool


def forms_of(
    values: Mapping[str, int], thresholds: Thresholds, dirtyable_bytes: int
) -> tuple[Form, Form]:
    """Return the thresholds of `values` (the setting) as ratios and as bytes, for this memory.

    A threshold keeps its value in the form that it has in `values`, and is converted to the other
    form. If `values` mix the forms, neither was measured.
    """
    dirty, background = thresholds.dirty_bytes, thresholds.background_bytes
    ratios = _ratios(values, dirty, background, dirtyable_bytes)
    exact = {
        name: values.get(name, whole_pages(name, size))
        for name, size in zip(_BYTES_NAMES, (dirty, background))
    }
    return (
        Form(RATIO, *ratios, set(_RATIO_NAMES) <= set(values)),
        Form(
            BYTES,
            exact,
            f"{format_size(dirty)} and {format_size(background)} on every node; not for nodes with "
            f"less free memory than that, and {CONTAINERS}",
            set(_BYTES_NAMES) <= set(values),
        ),
    )


def _ratios(
    values: Mapping[str, int], dirty: int, background: int, dirtyable_bytes: int
) -> tuple[Mapping[str, int], str]:
    """Return the thresholds as ratios, and a note; no ratios if none is near enough."""
    one = format_size(dirtyable_bytes / 100)
    found: dict[str, int] = {}
    for name, size in zip(_RATIO_NAMES, (dirty, background)):
        ratio = values.get(name, _ratio(name, size, dirtyable_bytes))
        if ratio is None:
            near = f"no whole percentage is near {format_size(size)}"
            return {}, f"{near}: 1% is {one} on this host"
        found[name] = ratio
    if background < dirty and found[_RATIO_NAMES[1]] >= found[_RATIO_NAMES[0]]:
        return {}, f"both are the same whole percentage: 1% is {one} on this host"
    return found, f"1% is {one} on this host, and more on a node with more memory"


def _ratio(name: str, size_bytes: int, dirtyable_bytes: int) -> int | None:
    """Return the nearest percentage that the kernel accepts; None if it is not near enough."""
    percent = round(100 * size_bytes / dirtyable_bytes)
    if not 1 <= percent <= BY_NAME[name].maximum:
        return None
    missed = abs(percent * dirtyable_bytes / 100 / size_bytes - 1)
    return percent if missed <= _EXACT_SHARE else None


def whole_pages(name: str, size_bytes: int) -> int:
    """Return the size rounded up to whole pages, and at least the kernel's minimum."""
    return max(math.ceil(size_bytes / PAGE_BYTES) * PAGE_BYTES, BY_NAME[name].minimum)
