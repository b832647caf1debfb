# SPDX-License-Identifier: Apache-2.0
"""The governor's words: a line a burst, a summary, what another program changed; and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contracts.shared.text import printable
from contracts.shared.units import counted, format_minutes, format_seconds, format_size
from profiler.govern.accounts import Accounts
from profiler.govern.loop import Changed
from sysctl.govern.bursts import BurstAccount
from sysctl.govern.policy import Unhelped, Why
from sysctl.govern.samples import NS_PER_S
from sysctl.host.governor_state import BurstSums, GovernedDay

#: Returns the time of day of a time of the samples' clock.
TimeOfDay = Callable[[int], str]


#: A limit of kernels before 6.10.
ROOT_GROUP_ONLY = (
    "this kernel counts only dirty pages of the root control group for each volume, so bursts of "
    "services and containers are not seen (control groups version 2)"
)
#: What limits a dry run next to a governor, or after a killed one.
RAISED_NOW = (
    "a governor has raised the thresholds, so the present values are not the host's own, but this "
    "dry run counts them as such; end that governor first, or run `writewise rollback "
    "--interrupted` if it was killed"
)


def begin_line(
    targets: Sequence[str],
    own: Mapping[str, int],
    bound_bytes: int | None,
    admitted: Sequence[str] = (),
    *,
    is_dry: bool,
) -> str:
    """Return what is governed and for whom, the values at rest, and the bound."""
    does = "a dry run: nothing is changed; it would govern" if is_dry else "governing"
    whose = f" for {', '.join(map(printable, admitted))} only" if admitted else ""
    bound = bound_words(bound_bytes)
    return f"{does} {', '.join(targets)}{whose}; at rest {values_words(own)}; {bound} at risk"


def bound_words(bound_bytes: int | None) -> str:
    """Return `at most 2.00 GiB`."""
    most = "a quarter of the available memory" if bound_bytes is None else format_size(bound_bytes)
    return f"at most {most}"


def notes(
    targets: Sequence[str],
    admitted: Sequence[str] = (),
    absent: Sequence[str] = (),
    low_bound: tuple[int, int] | None = None,
    *,
    counts_every_group: bool,
) -> list[str]:
    """Return sentences on what limits the governor here; `absent` control groups do not exist."""
    found = [
        f"the control group {path} does not exist; it is governed once it is made"
        for path in absent
    ]
    if low_bound:
        found.append(low_bound_note(*low_bound))
    if "/" in targets and not admitted:
        found.append("/ is governed, so the writes of every program on it can be a burst")
    if not counts_every_group and admitted:
        found.append(
            "this kernel does not count the dirty pages of services and containers for each "
            "volume, so bursts of the admitted writers onto any volume count"
        )
    elif not counts_every_group:
        found.append(f"{ROOT_GROUP_ONLY}; with --admit they are")
    return found


def low_bound_note(own_bytes: int, bound_bytes: int) -> str:
    """Return that the bound allows no raise."""
    return (
        f"nothing can be raised: the host's own dirty threshold is {format_size(own_bytes)}, and "
        f"at most {format_size(bound_bytes)} may be at risk; pass a higher --max-at-risk"
    )


def burst_line(
    account: BurstAccount, targets: Sequence[str], time_of_day: TimeOfDay, *, is_dry: bool
) -> str:
    """Return `14:03:27 burst of 1.88 GiB by s5cmd onto /data in 6.10 s; …`."""
    onto = ", ".join(targets[volume] for volume in account.volumes) or ", ".join(targets)
    would = "would have been " if is_dry else ""
    why = "" if account.ended_by == Why.DRAINED.value else f" (lowered: {account.ended_by})"
    by = f" by {printable(account.writer)}" if account.writer else ""
    return (
        f"{time_of_day(account.began_ns)} burst of {format_size(account.arrived_bytes)}{by} "
        f"onto {onto} in {format_seconds(account.return_s)}; {would}raised for "
        f"{format_seconds(account.raised_ns / NS_PER_S)}{why}; at most "
        f"{format_size(account.peak_held_bytes)} at risk; {_saved(account.saved_s, is_dry=is_dry)}"
    )


def unhelped_line(burst: Unhelped, time_of_day: TimeOfDay) -> str:
    """Return that nothing is raised for a burst, and why."""
    return (
        f"{time_of_day(burst.began_ns)} burst by {burst.path}: nothing is raised, because "
        "the memory limit of its control group makes its writers wait; raise that limit"
    )


def _saved(saved_s: float | None, *, is_dry: bool) -> str:
    if saved_s is None:
        return "time saved unknown"
    verb = "would have saved" if is_dry else "saved"
    return f"{verb} about {format_seconds(saved_s)} (predicted)"


def summary_line(sums: BurstSums, *, is_dry: bool) -> str:
    """Return the summary of all bursts."""
    observed = f"in {format_minutes(sums.governed_s)}"
    if not sums.bursts:
        were = "would have been" if is_dry else "were"
        return f"no burst for which thresholds {were} raised {observed}"
    share = sums.raised_s / sums.governed_s if sums.governed_s else 0.0
    return (
        f"{counted(sums.bursts, 'burst')} {observed}: {format_size(sums.arrived_bytes)} "
        f"arrived in {format_seconds(sums.return_s)}; thresholds "
        f"{'would have been ' * is_dry}raised for {format_seconds(sums.raised_s)} "
        f"({share:.1%} of the time); at most {format_size(sums.peak_at_risk_bytes)} at risk; "
        f"{saved_words(sums.saved_s, sums.unknown_savings, is_dry=is_dry)}"
    )


def saved_words(saved_s: float, unknown_savings: int, *, is_dry: bool = False) -> str:
    """Return what several bursts saved, and of how many of them that is unknown."""
    unknown = f" (unknown for {counted(unknown_savings, 'burst')})" * (unknown_savings > 0)
    return _saved(saved_s, is_dry=is_dry) + unknown


def day_line(day: GovernedDay, *, is_dry: bool = False) -> str:
    """Return the summary of a day."""
    return f"{day.date} {summary_line(day.sums, is_dry=is_dry)}"


def changed_lines(changed: Changed, time: str, *, is_dry: bool) -> list[str]:
    """Return what another program changed, and what follows from it."""
    head = (
        f"{time} another program changed {values_words(changed.before) or 'a threshold'} to "
        f"{values_words(changed.after) or 'its counterpart'}"
    )
    follows = "the new values count as the host's own" if is_dry else "standing down for good"
    return [f"{head}: {follows}", *changed.left]


def values_words(values: Mapping[str, int]) -> str:
    """Return sysctls with their values: `vm.dirty_ratio = 20`."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def govern_document(
    accounts: Accounts, admitted: Sequence[str], changed: Changed | None, *, is_dry: bool
) -> dict[str, Any]:
    """Return the summary and the last bursts as plain data; `admitted` is whose bursts count."""
    state, sums = accounts.state, accounts.state.sums
    return {
        "dry_run": is_dry,
        "volumes": list(state.volumes),
        "admitted": list(admitted),
        "at_rest": dict(state.at_rest),
        "observed_s": sums.governed_s,
        "bursts": sums.bursts,
        "arrived_bytes": sums.arrived_bytes,
        "return_s": sums.return_s,
        "raised_s": sums.raised_s,
        "peak_at_risk_bytes": sums.peak_at_risk_bytes,
        "saved_s": sums.saved_s,
        "unknown_savings": sums.unknown_savings,
        "changed_by_others": None
        if changed is None
        else {"before": dict(changed.before), "after": dict(changed.after)},
        "last_bursts": [
            _account_document(account, state.volumes, accounts.began_ns)
            for account in accounts.recent
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
        "writer": account.writer,
    }
