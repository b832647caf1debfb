# SPDX-License-Identifier: Apache-2.0
"""Whether a host has the wanted settings, and the reason for each that differs: for `verify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from contracts.shared.units import format_size
from sysctl.apply.amount import fit, is_same_memory
from sysctl.apply.other_setters import OtherSetter, Setter, other_setters
from sysctl.apply.plan import disk_at, present_text
from sysctl.apply.sysctl_files import rivals, unreadable
from sysctl.change.recommendation import RecommendedChange
from sysctl.host import devices
from sysctl.host.applied import AppliedKnobs, AppliedMount, AppliedSysctls
from sysctl.host.changes import Change
from sysctl.host.mount_table import mount_at
from sysctl.host.mounts import missing_words, present_words
from sysctl.host.sysctls import read_total_bytes, read_writeback, sysctl_path
from sysctl.host.system import HostError, System
from sysctl.knobs.setting import replace_values


@dataclass(frozen=True)
class Wanted:
    """The wanted state of a host: sysctls, knobs by disk, mount options by target.

    `missing` are knobs that this host does not have. `notes` concern hosts with other memory.
    """

    sysctls: Mapping[str, int] = field(default_factory=dict)
    knobs: tuple[tuple[devices.Disk, Mapping[str, str]], ...] = ()
    mounts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[Compliance, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compliance:
    """One setting with its wanted and its current value; `reason` is why they differ, or "".

    `note` is further information, such as the value after a boot.
    """

    name: str
    wanted: str
    present: str
    reason: str = ""
    note: str = ""

    @property
    def is_compliant(self) -> bool:
        """Whether it has the wanted value."""
        return not self.reason


def wanted_by(system: System, change: RecommendedChange, applied: Sequence[Change] = ()) -> Wanted:
    """Return what a recommendation wants on this host; `applied` is in order of time."""
    sysctls, notes = _sysctls_wanted(system, change, applied)
    wanted = Wanted(
        sysctls=sysctls,
        notes=notes,
        mounts={change.mount.target: change.mount.value} if change.mount else {},
    )
    if change.disk is None:
        return wanted
    values = {knob.name: knob.value for knob in change.disk.knobs}
    try:
        return replace(wanted, knobs=((disk_at(system, change.disk), values),))
    except HostError as error:
        missing = tuple(Compliance(n, v, "not there", error.message) for n, v in values.items())
        return replace(wanted, missing=missing)


def _sysctls_wanted(
    system: System, change: RecommendedChange, applied: Sequence[Change]
) -> tuple[Mapping[str, int], tuple[str, ...]]:
    """Return the sysctls as `apply` adapted them; else as in force, or as `apply` would adapt."""
    recommended = change.sysctl_values
    for each in reversed(applied):
        if isinstance(each, AppliedSysctls) and recommended == (each.stands_for or each.values):
            return each.values, _memory_notes(system, each)
    try:
        fitted = fit(system, change)
    except HostError as error:
        return recommended, (f"{error.message}; {error.hint}",)
    notes = (fitted.unmeasured,) if fitted.unmeasured else ()
    present = read_writeback(system)
    is_literal = all(present.get(name) == value for name, value in recommended.items())
    return recommended if is_literal else fitted.change.sysctl_values, notes


def _memory_notes(system: System, applied: AppliedSysctls) -> tuple[str, ...]:
    """Return a note if the host has other memory now, such as after a change of instance type."""
    before, now = applied.memory_bytes, read_total_bytes(system)
    if not before or is_same_memory(now, before):
        return ()
    return (
        f"this host had {format_size(before)} of memory when the sysctls were applied, and now has "
        f"{format_size(now)}: apply the recommendation again",
    )


def wanted_by_applied(system: System, changes: Sequence[Change]) -> Wanted:
    """Return what was applied: the latest value of each setting."""
    notes: tuple[str, ...] = ()
    sysctls: dict[str, int] = {}
    knobs: dict[devices.Disk, dict[str, str]] = {}
    mounts: dict[str, tuple[str, ...]] = {}
    for change in changes:
        if isinstance(change, AppliedSysctls):
            sysctls = replace_values(sysctls, change.values)
            notes = _memory_notes(system, change)
        elif isinstance(change, AppliedKnobs):
            knobs.setdefault(change.disk, {}).update(change.values)
        elif isinstance(change, AppliedMount):
            mounts[change.target] = change.words
    return Wanted(sysctls, tuple(knobs.items()), mounts, notes=notes)


def check_compliance(
    system: System, wanted: Wanted, applied: Sequence[Change] = ()
) -> list[Compliance]:
    """Return the state of each wanted setting; `applied` (the oldest first) has the history."""
    return [
        *_sysctls(system, wanted.sysctls, applied),
        *(check for disk, values in wanted.knobs for check in _knobs(system, disk, values)),
        *wanted.missing,
        *(_mount(system, target, words) for target, words in wanted.mounts.items()),
    ]


def _sysctls(
    system: System, wanted: Mapping[str, int], applied: Sequence[Change]
) -> list[Compliance]:
    there = {name for name in wanted if system.exists(sysctl_path(name))}
    present = read_writeback(system) if there else {}
    checks = []
    for name, value in wanted.items():
        text, others = present_text(present, name), _others(system, name)
        if name not in there:
            why = "this kernel does not have this sysctl"
            checks.append(Compliance(name, str(value), "not there", why))
        elif present.get(name) == value:
            checks.append(Compliance(name, str(value), text, note=_at_boot(name, value, others)))
        else:
            reason = _set_by(present, others) or _since(name, value, applied, others)
            checks.append(Compliance(name, str(value), text, reason))
    return checks


@dataclass(frozen=True)
class _Others:
    """What else sets a sysctl: the last of `boot` wins, `late` come after it.

    `hidden` are files that cannot be read.
    """

    boot: tuple[Setter, ...]
    late: tuple[OtherSetter, ...]
    hidden: tuple[str, ...]

    def may_set(self, name: str, value: int) -> list[str]:
        """Return what may set another value, apart from the files that were read."""
        late = [f"also set: {each}" for each in self.late if not each.sets(name, value)]
        hidden = [f"not readable: {', '.join(self.hidden)}"] if self.hidden else []
        return [*late, *hidden]


def _others(system: System, name: str) -> _Others:
    besides = other_setters(system, [name])
    early = (each for each in besides if not each.is_late)
    return _Others(
        boot=(*early, *rivals(system, [name])),
        late=tuple(each for each in besides if each.is_late),
        hidden=tuple(unreadable(system)),
    )


def _at_boot(name: str, value: int, others: _Others) -> str:
    """Return what happens to a value at the next boot."""
    note, is_set_late = "", any(each.sets(name, value) for each in others.late)
    if others.boot and not others.boot[-1].sets(name, value):
        note = f"a boot sets {others.boot[-1]}"
    elif not others.boot and not is_set_late:
        note = f"in no {_files(others)}: a boot resets it"
        note += ", unless another file has it" if others.hidden else ""
    return "; ".join(filter(None, [note, *others.may_set(name, value)]))


def _files(others: _Others) -> str:
    return "readable file of sysctl.d" if others.hidden else "file of sysctl.d"


def _set_by(present: Mapping[str, int], others: _Others) -> str:
    """Return what has set the value in force instead of the wanted one."""
    for each in (*reversed(others.late), *reversed(others.boot)):
        if each.name in present and each.sets(each.name, present[each.name]):
            return f"overridden: {each}"
    return ""


def _since(name: str, value: int, applied: Sequence[Change], others: _Others) -> str:
    """Return whether it was applied here, and what may have changed it."""
    reason = "not applied on this host, or changed since"
    for change in applied:
        if isinstance(change, AppliedSysctls) and change.values.get(name) == value:
            reason = f"changed since it was applied at {change.at}, but by no {_files(others)}"
    return "; ".join([reason, *others.may_set(name, value)])


def _knobs(system: System, disk: devices.Disk, wanted: Mapping[str, str]) -> list[Compliance]:
    if not devices.is_there(system, disk):
        why = f"{disk.name} is no longer the same disk"
        return [Compliance(name, value, "not there", why) for name, value in wanted.items()]
    present = devices.present_values(system, disk)
    checks = []
    for name, value in wanted.items():
        reason = devices.lacking(system, disk, name)
        if not reason and name not in present:
            reason = f"it cannot be read on {disk.name}"
        if name in present and not devices.is_same(name, value, present[name]):
            reason = f"another value on {disk.name}: changed since, or never applied"
        found = present.get(name, "not there")
        checks.append(Compliance(f"{disk.name} {name}", value, found, reason or ""))
    return checks


def _mount(system: System, target: str, words: tuple[str, ...]) -> Compliance:
    mount = mount_at(system.mounts(), target)
    present = ",".join(present_words(mount)) or "defaults" if mount else "not mounted"
    missing = missing_words(system, target, words)
    reason = f"mount options differ, or not mounted: {', '.join(missing)}" if missing else ""
    if mount is None:
        reason = f"nothing is mounted on {target}"
    return Compliance(f"mount {target}", ",".join(words) or "defaults", present, reason)
