# SPDX-License-Identifier: Apache-2.0
"""Settings for a while (`writewise run`): what they change on this host, all of it or nothing.

Unlike `apply`, nothing is left out: what cannot be changed live and undone is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.shared.errors import UsageError
from contracts.shared.units import format_size
from sysctl.apply.plan import ApplyPlan, plan_of, present_text
from sysctl.change.recommendation import RecommendedChange
from sysctl.host.applied_host import AppliedHost
from sysctl.host.devices import Disk
from sysctl.host.sysctls import dirtyable_bytes, read_thresholds, read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.setting import invalid_reason, replace_values
from sysctl.knobs.writeback import effective_thresholds


@dataclass(frozen=True)
class TemporaryLimits:
    """What may be set: up to `max_at_risk_bytes` dirty; also what was not measured on such a host.

    With `as_ratio` the ratios of a recommendation stay on a host with other memory.
    """

    max_at_risk_bytes: int | None = None
    unmeasured: bool = False
    as_ratio: bool = False


@dataclass(frozen=True)
class TemporaryPlan:
    """What is set: sysctls, knobs of `disk`, mount options `words` of `target`.

    `before` and `during` are the values of what changes, by name, in words.
    """

    sysctls: Mapping[str, int]
    before: Mapping[str, str]
    during: Mapping[str, str]
    disk: Disk | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    words: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def settings_of(wanted: Mapping[str, int] | RecommendedChange) -> dict[str, str]:
    """Return settings by name, as asked for: two runs with the same ones can share them."""
    if not isinstance(wanted, RecommendedChange):
        return {name: str(value) for name, value in wanted.items()}
    settings = settings_of(wanted.sysctl_values if wanted.changes_sysctls else {})
    if wanted.disk:
        target = wanted.disk.target
        settings |= {f"{knob.name} ({target})": knob.value for knob in wanted.disk.knobs}
    if wanted.mount:
        settings[f"mount {wanted.mount.target}"] = ",".join(wanted.mount.value) or "defaults"
    return settings


def plan(
    system: System, wanted: Mapping[str, int] | RecommendedChange, limits: TemporaryLimits
) -> TemporaryPlan:
    """Return what `wanted` changes on this host: sysctl values, or a recommendation.

    Raises HostError and UsageError for what cannot be set, or should not be.
    """
    if isinstance(wanted, RecommendedChange):
        return _of_change(system, wanted, limits)
    return _of_values(system, wanted, limits)


def perform(host: AppliedHost, planned: TemporaryPlan) -> None:
    """Set everything, each change journaled first and read back. Raises HostError."""
    host.apply_sysctls(planned.sysctls)
    if planned.disk and planned.knobs:
        host.apply_knobs(planned.disk, planned.knobs)
    if planned.target is not None:
        host.apply_mount_words(planned.target, planned.words)


def check_in_force(system: System, limits: TemporaryLimits) -> None:
    """Raise HostError if the thresholds that another run has set allow more than the limit."""
    _check_at_risk(read_thresholds(system).dirty_bytes, limits)


def _of_values(system: System, values: Mapping[str, int], limits: TemporaryLimits) -> TemporaryPlan:
    present, dirtyable = read_writeback(system), dirtyable_bytes(system)
    after = replace_values(present, values)
    reason = invalid_reason(after, dirtyable)
    if reason:
        raise UsageError(
            f"not for this host: {reason}",
            "pass a lower background threshold too, or a higher dirty one",
        )
    _check_at_risk(effective_thresholds(after, dirtyable).dirty_bytes, limits)
    changed = {name: value for name, value in values.items() if present.get(name) != value}
    return TemporaryPlan(
        sysctls=values,
        before={name: present_text(present, name) for name in changed},
        during={name: str(value) for name, value in changed.items()},
    )


def _check_at_risk(dirty_bytes: int, limits: TemporaryLimits) -> None:
    if limits.max_at_risk_bytes is not None and dirty_bytes > limits.max_at_risk_bytes:
        raise HostError(
            f"up to {format_size(dirty_bytes)} would be at risk on this host, more than "
            f"{format_size(limits.max_at_risk_bytes)}",
            "pass lower thresholds, or allow more with --max-at-risk",
        )


def _of_change(system: System, change: RecommendedChange, limits: TemporaryLimits) -> TemporaryPlan:
    found = plan_of(
        system, change, as_ratio=limits.as_ratio, max_at_risk_bytes=limits.max_at_risk_bytes
    )
    _check_whole(found)
    if found.fitted.unmeasured and not limits.unmeasured:
        raise UsageError(
            found.fitted.unmeasured,
            "to use it all the same, pass --yes-unmeasured, or run a sweep on this host",
        )
    mount = found.mount if found.mount and found.mount.is_change else None
    changed = [each for each in (*found.sysctls, *found.knobs) if each.is_change]
    before = {each.name: each.present for each in changed}
    during = {each.name: each.new for each in changed}
    if mount:
        name = f"mount {mount.target}"
        before[name] = ",".join(mount.present) or "defaults"
        during[name] = ",".join(mount.new) or "defaults"
    return TemporaryPlan(
        sysctls=found.fitted.change.sysctl_values,
        before=before,
        during=during,
        disk=found.disk,
        knobs={knob.name: knob.new for knob in found.knobs},
        target=mount.target if mount else None,
        words=mount.new if mount else (),
        notes=tuple(dict.fromkeys(found.notes)),
    )


def _check_whole(found: ApplyPlan) -> None:
    """Raise HostError for what this host has no place for, or what a remount cannot set."""
    if found.left_out:
        raise HostError(
            f"this host has no place for part of the recommendation: {'; '.join(found.left_out)}",
            "mount the volume there, or pass the thresholds alone, such as --dirty-ratio",
        )
    mount = found.mount
    if mount and mount.is_change and mount.takes_fresh_mount:
        raise HostError(
            f"a remount of {mount.target} cannot set {','.join(mount.new)}, so it cannot be in "
            "force only for a while",
            "write the options into /etc/fstab and mount the volume afresh, or pass the "
            "thresholds alone, such as --dirty-ratio",
        )
