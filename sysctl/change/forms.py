"""The same two thresholds as ratios and as bytes, and which of the two suits a fleet.

A ratio is of each node's own dirtyable memory, so it means other bytes on another instance type;
bytes mean the same everywhere (`Documentation/admin-guide/sysctl/vm.rst`).
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
#: Why not: `sysctl.knobs.writeback.group_thresholds`.
CONTAINERS = (
    "not for hosts whose containers have memory limits: the kernel makes bytes a percentage of the "
    "host's memory and gives each container that percentage of its own, so 2.00 GiB on a host with "
    "256 GiB leave 16.0 MiB to a container of 2.00 GiB"
)
#: A ratio that misses the bytes by more does not mean the same setting.
_EXACT_SHARE = 0.05
_RATIO_NAMES, _BYTES_NAMES = zip(DIRTY_PAIR, BACKGROUND_PAIR)


@dataclass(frozen=True)
class Form:
    """The thresholds by sysctl name, as `kind`; `note` says how they relate to what was measured.

    Where they cannot be written so there are no `values`; `note` says why.
    """

    kind: str
    values: Mapping[str, int]
    note: str
    is_measured: bool


def forms_of(
    values: Mapping[str, int], thresholds: Thresholds, dirtyable_bytes: int
) -> tuple[Form, Form]:
    """As ratios and as bytes, with what `values` (the setting) and the host's memory make of it.

    A threshold that `values` have in a form is written in it as it is; one of the other form is
    converted. Where `values` mix the two neither form was measured.
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
            f"{format_size(dirty)} and {format_size(background)} on a node of any memory; not for "
            f"one with less memory than that to spare, and {CONTAINERS}",
            set(_BYTES_NAMES) <= set(values),
        ),
    )


def _ratios(
    values: Mapping[str, int], dirty: int, background: int, dirtyable_bytes: int
) -> tuple[Mapping[str, int], str]:
    """The thresholds as ratios and a note; none where they would mean something else."""
    one = format_size(dirtyable_bytes / 100)
    found: dict[str, int] = {}
    for name, size in zip(_RATIO_NAMES, (dirty, background)):
        ratio = values.get(name, _ratio(name, size, dirtyable_bytes))
        if ratio is None:
            near = f"no whole percentage comes near {format_size(size)}"
            return {}, f"{near}: 1% is {one} on this host"
        found[name] = ratio
    if background < dirty and found[_RATIO_NAMES[1]] >= found[_RATIO_NAMES[0]]:
        return {}, f"in whole percentages the two are the same: 1% is {one} on this host"
    return found, f"1% is {one} on this host and more on a node with more memory"


def _ratio(name: str, size_bytes: int, dirtyable_bytes: int) -> int | None:
    """The nearest percentage that the kernel takes; None where it is not the same setting."""
    percent = round(100 * size_bytes / dirtyable_bytes)
    if not 1 <= percent <= BY_NAME[name].maximum:
        return None
    missed = abs(percent * dirtyable_bytes / 100 / size_bytes - 1)
    return percent if missed <= _EXACT_SHARE else None


def whole_pages(name: str, size_bytes: int) -> int:
    """As the kernel counts them; at least what it takes."""
    return max(math.ceil(size_bytes / PAGE_BYTES) * PAGE_BYTES, BY_NAME[name].minimum)
