# SPDX-License-Identifier: Apache-2.0
"""What applying a recommendation would change on this host; nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from contracts.shared.units import format_size
from sysctl.apply.amount import Fitted, fit
from sysctl.apply.other_setters import Setter, other_setters
from sysctl.apply.sysctl_files import contradicting, unreadable
from sysctl.change.recommendation import DiskAdvice, MountAdvice, RecommendedChange
from sysctl.host.devices import Disk, disk_of, is_same, lacking, present_values
from sysctl.host.fstab import fstab_line
from sysctl.host.mount_table import Mount, mount_at
from sysctl.host.mounts import missing_words, needs_fresh_mount, present_words
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.setting import invalid_reason, replace_values
from sysctl.knobs.transfer import transfer_words
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR
from sysctl.knobs.writeback import Thresholds, effective_thresholds
from sysctl.render.checked import fstab_options, mount_options
from sysctl.render.fstab import fstab_text
from sysctl.render.snippet import InexpressibleError

T = TypeVar("T")


@dataclass(frozen=True)
class Difference:
    """One value: the current one on this host, and the new one.

    `present` names the counterpart if that is in force. The bytes are those of a threshold with the
    current dirtyable memory, None for other settings. `others` set another value at boot, in this
    order: kernel parameters, lines of files, TuneD.
    """

    name: str
    present: str
    new: str
    reason: str
    is_change: bool
    present_bytes: int | None = None
    new_bytes: int | None = None
    others: tuple[Setter, ...] = ()


@dataclass(frozen=True)
class MountDifference:
    """The current and the new options of `target`; `fstab` is the new line, or what to add to it.

    `takes_fresh_mount`: a remount is not enough.
    """

    target: str
    present: tuple[str, ...]
    new: tuple[str, ...]
    fstab: str
    reason: str
    is_change: bool
    takes_fresh_mount: bool


@dataclass(frozen=True)
class ApplyPlan:
    """All changes of a recommendation on this host. `disk` is that of `knobs`.

    `fitted` is the change adapted to this host's memory. `notes` are warnings about applying what
    was measured elsewhere; `left_out` is what does not apply to this host, and why.
    """

    fitted: Fitted
    sysctls: tuple[Difference, ...]
    knobs: tuple[Difference, ...] = ()
    disk: Disk | None = None
    mount: MountDifference | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def plan_of(
    system: System,
    change: RecommendedChange,
    *,
    as_ratio: bool = False,
    max_at_risk_bytes: int | None = None,
) -> ApplyPlan:
    """Compare a recommendation with the host; what does not apply to the host is left out.

    Raises HostError if nothing of it applies to this host, or its thresholds do not.
    """
    fitted = fit(system, change, as_ratio=as_ratio, max_at_risk_bytes=max_at_risk_bytes)
    left_out: list[str] = []
    advice, mount_advice = change.disk, change.mount
    disk = (
        _found(lambda: disk_at(system, advice), left_out, _knob_names(advice)) if advice else None
    )
    knobs = _knobs(system, disk, advice, left_out) if disk and advice else ()
    mount = None
    if mount_advice:
        name = f"mount options {','.join(mount_advice.value) or 'defaults'}"
        mount = _found(lambda: _mount(system, mount_advice), left_out, name)
    if left_out and not (knobs or mount or change.changes_sysctls):
        raise HostError(
            f"nothing in the recommendation applies to this host: {'; '.join(left_out)}",
            "mount the volume there, or run a sweep on this host",
        )
    sysctls = _sysctls(system, fitted, max_at_risk_bytes)
    lower = _lower_notes(sysctls) if fitted.amounts else ()
    return ApplyPlan(
        fitted=fitted,
        sysctls=sysctls,
        knobs=knobs,
        disk=disk,
        mount=mount,
        notes=(*fitted.notes, *lower, *_notes(system, change)),
        left_out=tuple(left_out),
    )


def _found(find: Callable[[], T], left_out: list[str], name: str) -> T | None:
    """Return what `find` returns; if it raises HostError, add `name` to `left_out`."""
    try:
        return find()
    except HostError as error:
        left_out.append(f"{name}: {error.message}")
        return None


def _knob_names(advice: DiskAdvice) -> str:
    return ", ".join(knob.name for knob in advice.knobs)


def _notes(system: System, change: RecommendedChange) -> tuple[str, ...]:
    """Return notes on the transfer settings, and on unreadable files that may set a value."""
    hidden = ", ".join(unreadable(system))
    unread = (f"files that may also set them cannot be read: {hidden}",) if hidden else ()
    return (*_transfer_notes(change), *unread)


def _transfer_notes(change: RecommendedChange) -> tuple[str, ...]:
    """Return a note that the measured transfer settings are not applied to the host."""
    if not change.transfer:
        return ()
    words = transfer_words(change.transfer)
    return (f"measured together with transfer settings, which are for the pull itself: {words}",)


def disk_at(system: System, advice: DiskAdvice) -> Disk:
    """Return the disk below the advice's mount. Raises HostError."""
    return disk_of(system, _mounted(system, advice.target))


def _mounted(system: System, target: str) -> Mount:
    mount = mount_at(system.mounts(), target)
    if mount is None:
        raise HostError(
            f"nothing is mounted on {target}, the mount point of the recommendation",
            "mount the volume there, or run a sweep on this host",
        )
    return mount


def _sysctls(
    system: System, fitted: Fitted, max_at_risk_bytes: int | None
) -> tuple[Difference, ...]:
    change, present, dirtyable = fitted.change, read_writeback(system), fitted.here_bytes
    new = replace_values(present, change.sysctl_values)
    reason = invalid_reason(new, dirtyable)
    if reason:
        raise HostError(
            f"not for this host: {reason}",
            "apply the thresholds in the other form, or run a sweep on this host",
        )
    before, after = (effective_thresholds(values, dirtyable) for values in (present, new))
    if max_at_risk_bytes is not None and after.dirty_bytes > max_at_risk_bytes:
        raise HostError(
            f"up to {format_size(after.dirty_bytes)} would be at risk on this host, "
            f"more than {format_size(max_at_risk_bytes)}",
            "allow more with --max-at-risk, or run a sweep with that limit on this host",
        )
    return tuple(
        Difference(
            name=advice.name,
            present=present_text(present, advice.name),
            new=str(advice.value),
            reason=advice.reason,
            is_change=present.get(advice.name) != advice.value,
            present_bytes=_bytes_of(before, advice.name),
            new_bytes=_bytes_of(after, advice.name),
            others=_others(system, advice.name, advice.value),
        )
        for advice in change.sysctls
    )


def _lower_notes(sysctls: Sequence[Difference]) -> tuple[str, ...]:
    """Return a note if the measured amount would throttle writers earlier than now."""
    sizes = [(each.name, each.new_bytes or 0, each.present_bytes or 0) for each in sysctls]
    return tuple(
        f"{name}: the measured {format_size(new)} is less than the current {format_size(present)} "
        "of this host, so writers would be throttled sooner than now"
        for name, new, present in sizes
        if name in DIRTY_PAIR and new < present
    )


def _others(system: System, name: str, value: int) -> tuple[Setter, ...]:
    besides = [each for each in other_setters(system, [name]) if not each.sets(name, value)]
    return (
        *(each for each in besides if not each.is_late),
        *contradicting(system, name, value),
        *(each for each in besides if each.is_late),
    )


def present_text(present: Mapping[str, int], name: str) -> str:
    """Return `20`, or `vm.dirty_bytes = 1073741824` if the counterpart is in force."""
    if name in present:
        return str(present[name])
    counterpart = BY_NAME[name].counterpart
    if counterpart is None or counterpart not in present:
        return "unknown"
    return f"{counterpart} = {present[counterpart]}"


def _bytes_of(thresholds: Thresholds, name: str) -> int | None:
    if name in DIRTY_PAIR:
        return thresholds.dirty_bytes
    return thresholds.background_bytes if name in BACKGROUND_PAIR else None


def _knobs(
    system: System, disk: Disk, advice: DiskAdvice, left_out: list[str]
) -> tuple[Difference, ...]:
    present = present_values(system, disk)
    reasons = {knob.name: lacking(system, disk, knob.name) for knob in advice.knobs}
    left_out += [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    return tuple(
        Difference(
            name=knob.name,
            present=present.get(knob.name, "not there"),
            new=knob.value,
            reason=knob.reason,
            is_change=knob.name not in present
            or not is_same(knob.name, knob.value, present[knob.name]),
        )
        for knob in advice.knobs
        if not reasons[knob.name]
    )


def _mount(system: System, advice: MountAdvice) -> MountDifference:
    mount = _mounted(system, advice.target)
    if mount.fstype != advice.fstype:
        raise HostError(
            f"{advice.target} has {mount.fstype}, but the options are for {advice.fstype}",
            "run a sweep on this host",
        )
    return MountDifference(
        target=advice.target,
        present=present_words(mount),
        new=advice.value,
        fstab=_fstab_text(system, advice),
        reason=advice.reason,
        is_change=bool(missing_words(system, advice.target, advice.value)),
        takes_fresh_mount=needs_fresh_mount(mount, advice.value, mount.all_options),
    )


def _fstab_text(system: System, advice: MountAdvice) -> str:
    """Return this host's own line of fstab with the new options; without one only the options."""
    here = replace(advice, fstab=fstab_line(system, advice.target))
    try:
        return fstab_text(here, fstab_options(here))
    except InexpressibleError:
        return f"{mount_options(advice)} (fstab has no single line for {advice.target})"
