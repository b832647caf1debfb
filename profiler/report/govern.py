# SPDX-License-Identifier: Apache-2.0
"""The governor's words: a line a burst, a summary, what another program changed; and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contracts.shared.units import counted, format_minutes, format_seconds, format_size
from profiler.govern.loop import Changed
from profiler.govern.totals import Totals
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.policy import Why
from sysctl.govern.samples import NS_PER_S

#: Returns the time of day of a time of the samples' clock.
TimeOfDay = Callable[[int], str]


def begin_line(
    targets: Sequence[str], own: Mapping[str, int], bound_bytes: int | None, *, is_dry: bool
) -> str:
    """Return what is governed, the values at rest, and the bound."""
    most = "a quarter of the available memory" if bound_bytes is None else format_size(bound_bytes)
    does = "a dry run: nothing is changed; it would govern" if is_dry else "governing"
    return f"{does} {', '.join(targets)}; at rest {_words(own)}; at most {most} at risk"


def notes(targets: Sequence[str], *, counts_every_group: bool) -> list[str]:
    """Return sentences on what limits the governor here."""
    found = []
    if "/" in targets:
        found.append("/ is governed, so the writes of every program on it can be a burst")
    if not counts_every_group:
        found.append(
            "this kernel counts only dirty pages of the root control group for each volume, so "
            "bursts of services and containers are not seen (control groups version 2)"
        )
    return found


def burst_line(
    account: BurstAccount, targets: Sequence[str], time_of_day: TimeOfDay, *, is_dry: bool
) -> str:
    """Return `14:03:27 burst of 1.88 GiB onto /data in 6.10 s; …`."""
    onto = ", ".join(targets[volume] for volume in account.volumes) or ", ".join(targets)
    would = "would have been " if is_dry else ""
    why = "" if account.ended_by == Why.DRAINED.value else f" (lowered: {account.ended_by})"
    return (
        f"{time_of_day(account.began_ns)} burst of {format_size(account.arrived_bytes)} "
        f"onto {onto} in {format_seconds(account.return_s)}; {would}raised for "
        f"{format_seconds(account.raised_ns / NS_PER_S)}{why}; at most "
        f"{format_size(account.peak_held_bytes)} at risk; {_saved(account.saved_s, is_dry=is_dry)}"
    )


def _saved(saved_s: float | None, *, is_dry: bool) -> str:
    if saved_s is None:
        return "time saved unknown"
    verb = "would have saved" if is_dry else "saved"
    return f"{verb} about {format_seconds(saved_s)} (predicted)"


def summary_line(totals: Totals, *, is_dry: bool) -> str:
    """Return the summary of all bursts."""
    observed = f"in {format_minutes(totals.observed_s)}"
    if not totals.bursts:
        return f"no burst that writers would have waited for {observed}"
    unknown = f" (unknown for {counted(totals.unknown_savings, 'burst')})" * (
        totals.unknown_savings > 0
    )
    share = totals.raised_s / totals.observed_s if totals.observed_s else 0.0
    return (
        f"{counted(totals.bursts, 'burst')} {observed}: {format_size(totals.arrived_bytes)} "
        f"arrived in {format_seconds(totals.return_s)}; thresholds "
        f"{'would have been ' * is_dry}raised for {format_seconds(totals.raised_s)} "
        f"({share:.1%} of the time); at most {format_size(totals.peak_held_bytes)} at risk; "
        f"{_saved(totals.saved_s, is_dry=is_dry)}{unknown}"
    )


def changed_lines(changed: Changed, time: str, *, is_dry: bool) -> list[str]:
    """Return what another program changed, and what follows from it."""
    head = (
        f"{time} another program changed {_words(changed.before) or 'a threshold'} to "
        f"{_words(changed.after) or 'its counterpart'}"
    )
    follows = "the new values count as the host's own" if is_dry else "standing down for good"
    return [f"{head}: {follows}", *changed.left]


def _words(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def govern_document(
    totals: Totals,
    targets: Sequence[str],
    own: Mapping[str, int],
    changed: Changed | None,
    *,
    is_dry: bool,
) -> dict[str, Any]:
    """Return the summary and the last bursts as plain data."""
    return {
        "dry_run": is_dry,
        "volumes": list(targets),
        "at_rest": dict(own),
        "observed_s": totals.observed_s,
        "bursts": totals.bursts,
        "arrived_bytes": totals.arrived_bytes,
        "return_s": totals.return_s,
        "raised_s": totals.raised_s,
        "peak_at_risk_bytes": totals.peak_held_bytes,
        "saved_s": totals.saved_s,
        "unknown_savings": totals.unknown_savings,
        "changed_by_others": None
        if changed is None
        else {"before": dict(changed.before), "after": dict(changed.after)},
        "last_bursts": [
            _account_document(account, targets, totals.began_ns) for account in totals.accounts
        ],
    }


def _account_document(
    account: BurstAccount, targets: Sequence[str], began_ns: int
) -> dict[str, object]:
    return {
        "began_s": (account.began_ns - began_ns) / NS_PER_S,
        "raised_at_s": (account.raised_at_ns - began_ns) / NS_PER_S,
        "volumes": [targets[volume] for volume in account.volumes],
        "arrived_bytes": account.arrived_bytes,
        "return_s": account.return_s,
        "raised_s": account.raised_ns / NS_PER_S,
        "peak_at_risk_bytes": account.peak_held_bytes,
        "saved_s": account.saved_s,
        "ended_by": account.ended_by,
    }
