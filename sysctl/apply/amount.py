# SPDX-License-Identifier: Apache-2.0
"""The thresholds of a recommendation on a host with other memory: the measured amount is kept.

A ratio is a share of each host's own memory, so on a host with other memory the same ratio is
another amount of dirty pages. The amount is written as bytes or, if control groups have memory
limits, as the ratio of this host's memory that gives this amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from contracts.shared.units import format_size
from sysctl.change.forms import CONTAINERS, whole_pages
from sysctl.change.recommendation import Evidence, RecommendedChange, SysctlAdvice
from sysctl.host.limited_groups import limited_groups
from sysctl.host.memory_group import MemoryGroup
from sysctl.host.sysctls import dirtyable_bytes, read_total_bytes, read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.setting import replace_values, threshold_bytes
from sysctl.knobs.vm import BACKGROUND_PAIR, DIRTY_PAIR
from sysctl.knobs.writeback import group_thresholds

_PAIRS = (DIRTY_PAIR, BACKGROUND_PAIR)
#: The part of a percent by which a rounded percentage may exceed the amount.
_ROUNDING = 0.02
#: Memory that differs by less is the same host's, with another kernel or at another time.
_SAME_MEMORY = 0.25


@dataclass(frozen=True)
class Amount:
    """One recommended threshold in bytes: as measured, with the same ratio here, as set here."""

    name: str
    measured_bytes: int
    same_ratio_bytes: int
    set_bytes: int


@dataclass(frozen=True)
class Fitted:
    """A change adapted to this host, which has `here_bytes` of dirtyable memory.

    `amounts` has the thresholds of a change that was measured with other memory, else nothing.
    `stands_for` has the recommended sysctls if others are written instead. `unmeasured` is a
    warning that nothing was measured on such a host, or "".
    """

    change: RecommendedChange
    here_bytes: int
    amounts: tuple[Amount, ...] = ()
    stands_for: Mapping[str, int] = field(default_factory=dict)
    unmeasured: str = ""
    notes: tuple[str, ...] = ()


def is_same_memory(one_bytes: int, other_bytes: int) -> bool:
    """Return whether two amounts of memory can be the same host's."""
    return abs(one_bytes - other_bytes) <= _SAME_MEMORY * other_bytes


def fit(
    system: System,
    change: RecommendedChange,
    *,
    as_ratio: bool = False,
    max_at_risk_bytes: int | None = None,
) -> Fitted:
    """Return the change for this host's memory; with `as_ratio` the ratios stay.

    Raises HostError if the measured amount cannot be kept on this host.
    """
    measured, here = change.evidence.dirtyable_bytes, dirtyable_bytes(system)
    if not change.changes_sysctls:
        return Fitted(replace(change, sysctls=()), here)
    recommended, groups = change.sysctl_values, limited_groups(system)
    pairs = [pair for pair in _PAIRS if {*pair} & {*recommended}]
    is_same = _is_same_host(system, change.evidence, here)
    starves = bool(groups) and _is_in_bytes(recommended)
    if not pairs or (is_same and not starves):
        notes = (*_bytes_notes(recommended), *_moment_notes(recommended, measured, here))
        return Fitted(change, here, notes=notes)
    values = recommended
    if starves or not as_ratio:
        amounts = {pair: threshold_bytes(recommended, pair, measured) for pair in pairs}
        _check_amount(recommended, measured, here)
        values = (
            _as_ratios(amounts, here, max_at_risk_bytes)
            if groups
            else dict(_as_bytes(pair, size) for pair, size in amounts.items())
        )
        change = replace(change, sysctls=_rewritten(change, values))
    return Fitted(
        change,
        here,
        amounts=tuple(_amount(recommended, values, pair, measured, here) for pair in pairs),
        stands_for={} if change.sysctl_values == recommended else recommended,
        unmeasured="" if is_same else _unmeasured(measured, here),
        notes=_notes(system, groups, values, here),
    )


def _unmeasured(measured: int, here: int) -> str:
    known = f"{format_size(measured)} of" if measured else "an unknown amount of"
    return (
        f"measured with {known} dirtyable memory, but this host has {format_size(here)}: nothing "
        "was measured on such a host"
    )


def _is_same_host(system: System, evidence: Evidence, here_bytes: int) -> bool:
    """Return whether the memory is that of the measured host.

    Dirtyable memory varies, so it only counts if the total memory was not recorded.
    """
    if evidence.memory_bytes:
        return is_same_memory(read_total_bytes(system), evidence.memory_bytes)
    return is_same_memory(here_bytes, evidence.dirtyable_bytes)


def _check_amount(recommended: Mapping[str, int], measured: int, here: int) -> None:
    """Raise HostError if the measured amount is unknown or exceeds this host's memory."""
    hint = "run a sweep on this host"
    if not _is_in_bytes(recommended):
        hint += ", or use the measured percentage with --as-ratio"
    dirty_bytes = threshold_bytes(recommended, DIRTY_PAIR, measured)
    if not measured and any(recommended.get(in_percent) for in_percent, _ in _PAIRS):
        raise HostError("the recommendation does not include the memory of the measured host", hint)
    if dirty_bytes >= here:
        raise HostError(
            f"the measured threshold of {format_size(dirty_bytes)} exceeds this host's dirtyable "
            f"memory of {format_size(here)}",
            hint,
        )


def _as_bytes(pair: tuple[str, str], size_bytes: int) -> tuple[str, int]:
    """Return the sysctl and its value; a threshold of 0 is possible only as a ratio."""
    return (pair[1], whole_pages(pair[1], size_bytes)) if size_bytes else (pair[0], 0)


def _as_ratios(
    amounts: Mapping[tuple[str, str], int], here: int, max_at_risk_bytes: int | None
) -> dict[str, int]:
    """Return whole percentages that do not exceed the amounts.

    A background threshold that is too small for a percentage stays in bytes.
    """
    values = {}
    for pair, size_bytes in amounts.items():
        percent = int(100 * size_bytes / here + _ROUNDING)
        if pair == DIRTY_PAIR:
            if percent < 1:
                _check_one_percent(size_bytes, here, max_at_risk_bytes)
            values[pair[0]] = max(1, percent)
        elif 1 <= percent < values.get(DIRTY_PAIR[0], 101):
            values[pair[0]] = percent
        else:
            values.update([_as_bytes(pair, size_bytes)])
    return values


def _check_one_percent(size_bytes: int, here: int, max_at_risk_bytes: int | None) -> None:
    """Raise HostError if 1 % is more than may be at risk. Bytes would starve the groups."""
    least = here // 100
    if least <= (max_at_risk_bytes or 0):
        return
    raise HostError(
        f"control groups on this host have memory limits, so a ratio is needed, but the smallest, "
        f"1%, is {format_size(least)}: more than the measured {format_size(size_bytes)}",
        f"accept 1% with --max-at-risk of at least {format_size(least)}, or run a sweep on this "
        "host",
    )


def _rewritten(change: RecommendedChange, values: Mapping[str, int]) -> tuple[SysctlAdvice, ...]:
    """Return the advice with the thresholds of `values`, and this added to the reasons."""
    measured = format_size(change.evidence.dirtyable_bytes)
    written = {name: pair for pair in _PAIRS for name in pair}

    def here(advice: SysctlAdvice) -> SysctlAdvice:
        pair = written.get(advice.name, (advice.name,))
        name = next((name for name in pair if name in values), advice.name)
        value = values.get(name, advice.value)
        if (name, value) == (advice.name, advice.value):
            return advice
        why = f"the same amount as {advice.name} = {advice.value} with {measured} of memory"
        return replace(advice, name=name, value=value, reason=f"{advice.reason}; {why}")

    return tuple(map(here, change.sysctls))


def _amount(
    recommended: Mapping[str, int],
    values: Mapping[str, int],
    pair: tuple[str, str],
    measured: int,
    here: int,
) -> Amount:
    return Amount(
        next(name for name in pair if name in recommended),
        threshold_bytes(recommended, pair, measured),
        threshold_bytes(recommended, pair, here),
        threshold_bytes(values, pair, here),
    )


def _notes(
    system: System, groups: tuple[MemoryGroup, ...], written: Mapping[str, int], here: int
) -> tuple[str, ...]:
    """Return notes on what the values mean for control groups, and later on this host."""
    if not groups:
        return _bytes_notes(written)
    values = replace_values(read_writeback(system), written)
    return (*_group_notes(groups, values, here), *_later_notes(system, written, here))


def _bytes_notes(written: Mapping[str, int]) -> tuple[str, ...]:
    return (f"bytes are {CONTAINERS}",) if _is_in_bytes(written) else ()


def _is_in_bytes(values: Mapping[str, int]) -> bool:
    """Return whether a threshold is set in bytes."""
    return any(values.get(in_bytes) for _, in_bytes in _PAIRS)


def _later_notes(system: System, written: Mapping[str, int], here: int) -> tuple[str, ...]:
    """Return a note that a ratio means more when programs free memory."""
    ratio, total = written.get(DIRTY_PAIR[0], 0), read_total_bytes(system)
    if not ratio or is_same_memory(total, here):
        return ()
    return (
        f"{ratio}% is of the {format_size(here)} that is dirtyable now; if all of this host's "
        f"{format_size(total)} is free, it is up to {format_size(ratio * total // 100)}",
    )


def _moment_notes(recommended: Mapping[str, int], measured: int, here: int) -> tuple[str, ...]:
    """Return a note that a ratio is another amount now, because other memory is free."""
    ratio = recommended.get(DIRTY_PAIR[0], 0)
    if not ratio or not measured or is_same_memory(here, measured):
        return ()
    then_bytes, now_bytes = ratio * measured // 100, ratio * here // 100
    return (
        f"{DIRTY_PAIR[0]} = {ratio} was {format_size(then_bytes)} when it was measured with "
        f"{format_size(measured)} of dirtyable memory; this host now has {format_size(here)} of "
        f"dirtyable memory, so it is {format_size(now_bytes)}",
    )


def _group_notes(
    groups: tuple[MemoryGroup, ...], values: Mapping[str, int], here: int
) -> tuple[str, ...]:
    """Return a note on the thresholds in the smallest group: a share of its own memory."""
    least = min(groups, key=lambda group: group.limit_bytes)
    own = group_thresholds(values, here, least.limit_bytes)
    return (
        f"control groups on this host have memory limits; in the smallest, {least.path} "
        f"({format_size(least.limit_bytes)}), writers wait at {format_size(own.freerun_bytes)} of "
        "dirty pages or earlier",
    )
