# SPDX-License-Identifier: Apache-2.0
"""Changes that stay: made by `writewise apply`, with a journal of their own.

    with applying("apply of …") as host:          # holds the lock of every writer
        host.apply_sysctls({"vm.dirty_ratio": 40, "vm.dirty_background_ratio": 5})
        host.keep()                               # without it, everything is reverted here

If the program is killed before `keep`, the next start reverts its changes, like those of a sweep. A
sweep does not change what was kept: these are its current settings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Callable

from sysctl.host import devices, mounts, sysctls
from sysctl.host.applied import (
    AppliedKnobs,
    AppliedMount,
    AppliedSysctls,
    TrialPeriod,
    WrittenFile,
    touched,
)
from sysctl.host.changes import Applied, Change, from_json
from sysctl.host.holders import living
from sysctl.host.host import (
    APPLIED,
    RUN,
    WRITER,
    Host,
    raised_by_a_killed_governor,
    state_directory,
)
from sysctl.host.mount_table import Mount, mount_at
from sysctl.host.root_file import read_file, replace_file, temporary_name
from sysctl.host.system import HostError, System

#: The unit of a trial period's timer.
REVERT_UNIT = "writewise-revert"

Now = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(timezone.utc)


class AppliedHost(Host):
    """The host as seen by `apply`, `verify`, `status` and `rollback`; by `name` also by `run`."""

    def __init__(
        self,
        directory: Path,
        system: System | None = None,
        now: Now = utc_now,
        *,
        name: str = APPLIED,
    ) -> None:
        super().__init__(directory, name, system)
        self._now = now

    # --- the changes ------------------------------------------------------------------------

    def apply_sysctls(
        self,
        values: Mapping[str, int],
        *,
        for_boots: bool = False,
        stands_for: Mapping[str, int] | None = None,
    ) -> None:
        """Set write-back sysctls to stay; values already in force are not journaled.

        With `for_boots` they are journaled too: a file will set them at boot, and then only the
        journal shows that Writewise set them. The same applies to `stands_for`, the recommended
        values that these replace.
        """
        present = sysctls.read_writeback(self.system)
        is_change = any(present.get(name) != value for name, value in values.items())
        if is_change or for_boots or (stands_for and not self._stand_for(values, stands_for)):
            memory_bytes = sysctls.read_total_bytes(self.system)
            change = AppliedSysctls(
                *(present, dict(values), self._at()), dict(stands_for or {}), memory_bytes
            )
            self._record(change)
            sysctls.write_writeback(self.system, values)

    def _stand_for(self, values: Mapping[str, int], stands_for: Mapping[str, int]) -> bool:
        """Return whether the last journaled sysctls are the same."""
        last = [each for each in self.applied() if isinstance(each, AppliedSysctls)][-1:]
        return any((each.values, each.stands_for) == (values, stands_for) for each in last)

    def apply_knobs(self, disk: devices.Disk, values: Mapping[str, str]) -> None:
        """Set knobs of a disk to stay. Raises HostError if one is refused or has no effect."""
        before = devices.present_values(self.system, disk)
        if all(
            name in before and devices.is_same(name, values[name], before[name]) for name in values
        ):
            return
        kept = devices.kept_values(self.system, disk)
        changed = touched(list(values))
        change = AppliedKnobs(
            *(disk.name, disk.number, disk.sequence),
            before={name: value for name, value in before.items() if name in values},
            values=dict(values),
            kept={name: value for name, value in kept.items() if name in changed},
            at=self._at(),
        )
        self._record(change)
        devices.write_values(self.system, disk, values)

    def apply_mount_words(self, target: str, words: Sequence[str]) -> None:
        """Remount `target` with option `words` to stay.

        Raises HostError if that needs a fresh mount, is refused or has no effect.
        """
        mount = mount_at(self.system.mounts(), target)
        if mount is None:
            raise HostError(f"nothing is mounted on {target}")
        if not mounts.missing_words(self.system, target, words):
            return
        if mounts.needs_fresh_mount(mount, words, mount.all_options):
            raise HostError(
                f"a remount of {target} cannot set {','.join(words)}",
                "write the options into /etc/fstab, then unmount and mount the volume",
            )
        self._remount(mount, tuple(words))

    def _remount(self, mount: Mount, words: tuple[str, ...]) -> None:
        self._record(
            AppliedMount(
                *(mount.target, mount.source, mount.fstype),
                options=mount.all_options,
                words=words,
                at=self._at(),
            )
        )
        mounts.apply_words(self.system, mount, mount.all_options, words)
        missing = mounts.missing_words(self.system, mount.target, words)
        if missing:
            raise HostError(f"{mount.target} was remounted, but without {', '.join(missing)}")

    def write_file(self, absolute: str, text: str) -> None:
        """Write a file of ours in a directory of root; the caller has checked that it is ours."""
        previous = read_file(self.system, absolute)
        if previous != text:
            temporary = temporary_name(absolute)
            self._record(WrittenFile(absolute, temporary, text, previous, self._at()))
            replace_file(self.system, absolute, text, temporary)

    def install_file(self, absolute: str, text: str) -> None:
        """Write a file that is part of the installation, which a rollback does not remove.

        It is journaled until it is complete: a killed program leaves no partial file.
        """
        previous = read_file(self.system, absolute)
        if previous != text:
            temporary = temporary_name(absolute)
            sequence = self._record(WrittenFile(absolute, temporary, text, previous, self._at()))
            replace_file(self.system, absolute, text, temporary)
            self._journal.mark_undone(sequence)

    def start_trial(self, argv: Sequence[str], ends_at: datetime) -> None:
        """Start the timer that reverts everything; to be called before the changes.

        Raises HostError while another timer runs.
        """
        trial = next(self._pending_of(TrialPeriod), None)
        if trial and trial.restoring(self.system):
            raise HostError(
                f"there is already {trial}",
                "end it with `writewise rollback`, or keep the changes with an apply without --for",
            )
        self.end_trial()
        self._record(TrialPeriod(REVERT_UNIT, ends_at.isoformat(timespec="seconds")))
        self.system.run(argv)

    def end_trial(self) -> None:
        """Stop the timer, if there is one; applied changes stay."""
        self._take_back(lambda entry: entry.kind == TrialPeriod.kind)

    def has_trial(self) -> bool:
        """Return whether a trial period has begun that neither its timer nor `apply` has ended."""
        return next(self._pending_of(TrialPeriod), None) is not None

    def keep(self) -> None:
        """Mark all changes as complete, so that they stay."""
        self._journal.mark_kept()

    # --- what is there ----------------------------------------------------------------------

    def applied(self) -> list[Change]:
        """Return what was applied and not reverted, the oldest first.

        After a boot this is only what our file in /etc/sysctl.d sets.
        """
        kept = [entry for entry in reversed(self._journal.pending()) if entry.is_kept]
        here = [from_json(e.change) for e in kept if e.boot_id == self._boot_id]
        before = [from_json(e.change) for e in kept if e.boot_id != self._boot_id]
        files = [change for change in before if isinstance(change, WrittenFile)]
        booted = [_booted(file, before) for file in files[-1:] if file.sysctls]
        return [*files, *booted, *here]

    def interrupted(self) -> list[str]:
        """Return what a killed `apply` has left, in words."""
        entries = [entry for entry in self._journal.pending() if not entry.is_kept]
        return [str(from_json(entry.change)) for entry in entries]

    def changed_since(self) -> list[str]:
        """Return a sentence for each change that somebody else has replaced since."""
        changes = (from_json(entry.change) for entry in self._journal.pending())
        applied = [change for change in changes if isinstance(change, Applied)]
        return [sentence for change in applied for sentence in change.left_alone(self.system)]

    def _at(self) -> str:
        return self._now().isoformat(timespec="seconds")


def _booted(file: WrittenFile, before: Sequence[Change]) -> AppliedSysctls:
    """Return what our file sets at boot: what was applied with it, without originals."""
    for change in reversed(before):
        if isinstance(change, AppliedSysctls) and change.values == file.sysctls:
            return replace(change, originals={})
    return AppliedSysctls({}, file.sysctls, file.at)


def left_by_a_killed_run(directory: Path, system: System | None = None) -> tuple[str, ...]:
    """Return what the next start reverts, in words. Raises JournalError and HostError."""
    sweep, apply = Host(directory, WRITER, system), AppliedHost(directory, system)
    run, governor = Host(directory, RUN, system), raised_by_a_killed_governor(system)
    is_held = bool(living(directory, run.system))
    return (
        *(governor.pending() if governor else ()),
        *(() if is_held else run.pending()),
        *sweep.pending(),
        *apply.interrupted(),
    )


@contextlib.contextmanager
def applying(
    purpose: str, system: System | None = None, now: Now = utc_now
) -> Iterator[AppliedHost]:
    """Hold the lock of every writer; first revert what killed runs left.

    What the block did not `keep` is reverted at its end. Raises LockedError.
    """
    with Host.exclusive(WRITER, purpose, system) as writer:
        host = AppliedHost(state_directory(), system, now)
        host.recovered, host.left = writer.recovered, writer.left
        try:
            try:
                yield host
            finally:
                host.recover()
        finally:
            host.recover()  # needed only if a signal came just before the first call
