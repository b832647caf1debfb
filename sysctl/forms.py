"""The same two thresholds as ratios and as bytes, and which of the two suits a fleet.

A ratio is of each node's own dirtyable memory, so it means other bytes on another instance type;
bytes mean the same everywhere (`Documentation/admin-guide/sysctl/vm.rst`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from contracts.units import format_size
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.writeback import PAGE_BYTES, Thresholds

RATIO = "ratio"
BYTES = "bytes"
#: A ratio that misses the bytes by more does not mean the same setting.
_EXACT_SHARE = 0.05


@dataclass(frozen=True)
class Form:
    """The thresholds by sysctl name, as `kind`; `note` says how they relate to what was measured.

    `values` is empty where they cannot be written so; `note` says why.
    """

    kind: str
    values: Mapping[str, int]
    note: str
    is_measured: bool


def forms_of(
    values: Mapping[str, int], thresholds: Thresholds, dirtyable_bytes: int
) -> tuple[Form, Form]:
    """As ratios and as bytes, with what `values` (the setting) and the host's memory make of it."""
    names = set(values)
    measured = RATIO if DIRTY_PAIR[0] in names else BYTES
    ratios = Form(
        RATIO,
        _thresholds_in(values) if measured == RATIO else _ratios(thresholds, dirtyable_bytes),
        _ratio_note(thresholds, dirtyable_bytes),
        measured == RATIO,
    )
    sizes = Form(
        BYTES,
        _thresholds_in(values) if measured == BYTES else _bytes(thresholds),
        f"{format_size(thresholds.dirty_bytes)} and {format_size(thresholds.background_bytes)} on "
        "a node of any memory; not for one with less memory than that to spare",
        measured == BYTES,
    )
    return ratios, sizes


def _thresholds_in(values: Mapping[str, int]) -> dict[str, int]:
    return {name: values[name] for name in (*DIRTY_PAIR, *BACKGROUND_PAIR) if name in values}


def _ratios(thresholds: Thresholds, dirtyable_bytes: int) -> dict[str, int]:
    """The nearest whole percentages; empty where they would mean something else."""
    dirty = round(100 * thresholds.dirty_bytes / dirtyable_bytes)
    background = round(100 * thresholds.background_bytes / dirtyable_bytes)
    missed = abs(dirty * dirtyable_bytes / 100 / thresholds.dirty_bytes - 1)
    if not 1 <= dirty <= BY_NAME[DIRTY_PAIR[0]].maximum or missed > _EXACT_SHARE:
        return {}
    return {DIRTY_PAIR[0]: dirty, BACKGROUND_PAIR[0]: min(background, dirty - 1)}


def _bytes(thresholds: Thresholds) -> dict[str, int]:
    """Whole pages, as the kernel counts them; at least what it takes."""
    dirty, background = (
        math.ceil(size / PAGE_BYTES) * PAGE_BYTES
        for size in (thresholds.dirty_bytes, thresholds.background_bytes)
    )
    return {
        DIRTY_PAIR[1]: max(dirty, BY_NAME[DIRTY_PAIR[1]].minimum),
        BACKGROUND_PAIR[1]: max(background, BY_NAME[BACKGROUND_PAIR[1]].minimum),
    }


def _ratio_note(thresholds: Thresholds, dirtyable_bytes: int) -> str:
    one = format_size(dirtyable_bytes / 100)
    if not _ratios(thresholds, dirtyable_bytes):
        dirty = format_size(thresholds.dirty_bytes)
        return f"no whole percentage comes near {dirty}: 1% is {one} on this host"
    return f"1% is {one} on this host and more on a node with more memory"
