"""The two halves of a joint setting: what the host is told, and what the pull is told.

Of a setting that changes both, one may do all of it. So the search also tries the best one with
each half alone, and the advice says what they took.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from contracts.units import format_seconds
from sysctl.results import CANDIDATE, PRESENT, Results
from sysctl.setting import Setting, replace_values


def transfer_half(setting: Setting, present: Setting) -> Setting:
    """The same with the host as at present: its transfer settings alone."""
    values = present.values
    is_named = set(setting.values) <= set(values)
    kept = {name: values[name] for name in setting.values} if is_named else values
    return replace(setting, sysctls=tuple(kept.items()))


def host_half(setting: Setting, present: Setting) -> Setting:
    """The same with the pull as at present: its write-back settings alone."""
    return replace(setting, transfer=present.transfer)


def halves_of(setting: Setting, present: Setting) -> tuple[Setting, ...]:
    """Both; none where it changes only one of the two."""
    is_joint = (
        setting.transfer != present.transfer
        and replace_values(present.values, setting.values) != present.values
    )
    if not is_joint:
        return ()
    return transfer_half(setting, present), host_half(setting, present)


def told_halves(results: Results, setting: Setting) -> Iterator[str]:
    """What either half alone took in the search, where it was tried; no pairs, so no judgement."""
    present = results.of_role(PRESENT)[0].setting
    names = ("its transfer settings alone", "its write-back settings alone")
    times = [_searched_s(results, each) for each in (setting, *halves_of(setting, present))]
    known = [f"{n} {format_seconds(s)}" for n, s in zip(names, times[1:]) if s is not None]
    if times[0] is not None and known:
        yield (
            f"In the search, one run each: the recommended setting took "
            f"{format_seconds(times[0])}, {', '.join(known)}."
        )


def _searched_s(results: Results, setting: Setting) -> float | None:
    runs = [t.valid for t in results.of_setting(setting) if t.role == CANDIDATE]
    times = [seen.return_s for seen in runs if seen]
    return statistics.median(times) if times else None
