# SPDX-License-Identifier: Apache-2.0
"""`Host`: the only way to change the host. Journal first, then apply, verify, and restore.

    with Host.exclusive(WRITER, "sweep of …") as host:   # restores what an earlier run left
        host.set_writeback({"vm.dirty_ratio": 40, "vm.dirty_background_ratio": 5})
        …
                                                         # restored here, whatever happens

SIGINT, SIGTERM and SIGHUP are held back during the restore, so a second Ctrl-C cannot interrupt it.
After SIGKILL the next `Host.exclusive` or `writewise rollback` restores from the journal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from contracts.shared.errors import WritewiseError
from contracts.shared.trust import resolved
from sysctl.host import devices, holders, mounts, slices, sysctls
from sysctl.host.applied import AppliedSysctls, WrittenFile
from sysctl.host.changes import (
    TRIAL_PREFIX,
    Applied,
    Change,
    ChildProcess,
    DeviceCap,
    DeviceOriginals,
    GroupController,
    LiftedCap,
    LoopDevice,
    MountOriginal,
    NewGroup,
    NewMount,
    NewPath,
    NewSlice,
    StackedLoopDevice,
    SysctlOriginal,
    WritebackOriginals,
    from_json,
    to_json,
)
from sysctl.host.journal import Entry, Journal, private_directory
from sysctl.host.lock import exclusive_lock
from sysctl.host.mount_table import Mount, mount_at, mount_of
from sysctl.host.signals import signals_held_back
from sysctl.host.system import HostError, System, host_errors
from sysctl.knobs.setting import replace_values

T = TypeVar("T")

STATE_DIRECTORY = Path("/var/lib/writewise")
#: The lock that every writer of sysctls, knobs and mount options holds, and the sweep's journal.
WRITER = "sweep"
#: The journal of what `writewise apply` changed.
APPLIED = "applied"
#: The journal of what is changed while `writewise run` runs a command (`sysctl.host.holding`).
RUN = "run"
#: The journals of all who hold the lock of every writer, in the order of their recovery.
JOURNALS = (RUN, APPLIED, WRITER)
#: The journal of what `writewise govern` raised (`sysctl.host.raising_host`), in memory.
GOVERN = "govern"
RUNTIME_DIRECTORY = Path("/run/writewise")


def state_directory() -> Path:
    """Return the folder of journals and locks; WRITEWISE_STATE_DIRECTORY overrides it, for tests.

    Symlinks are resolved, because the mount table has resolved paths. Raises HostError, and
    UntrustedError for a symlink that others could have made.
    """
    path = Path(os.environ.get("WRITEWISE_STATE_DIRECTORY") or STATE_DIRECTORY)
    with host_errors(f"use {path}"):
        return resolved(path.parent) / path.name


def runtime_directory() -> Path:
    """Return the folder of the journal that a boot removes; in tests, one of the state directory.

    Raises as `state_directory`.
    """
    if os.environ.get("WRITEWISE_STATE_DIRECTORY"):
        return state_directory() / "run"
    return RUNTIME_DIRECTORY


def raised_by_a_killed_governor(system: System | None = None) -> Host | None:
    """Return the host of the governor's journal; None if there is no journal.

    To be called with the lock of every writer, which a living governor holds.
    """
    return Host(runtime_directory(), GOVERN, system) if is_raised_by_a_governor() else None


def is_raised_by_a_governor() -> bool:
    """Return whether a governor, alive or killed, has raised the thresholds and not lowered them.

    Needs no lock.
    """
    return os.path.lexists(runtime_directory() / f"{GOVERN}.journal")


class Host:
    """Changes to this host, each journaled in `<directory>/<name>.journal` before it is made."""

    def __init__(self, directory: Path, name: str, system: System | None = None) -> None:
        self.system = system or System()
        self.directory = private_directory(directory)
        self._boot_id = self.system.boot_id()
        self._journal = Journal(directory / f"{name}.journal", self._boot_id)

    @staticmethod
    @contextlib.contextmanager
    def exclusive(name: str, purpose: str, system: System | None = None) -> Iterator[Host]:
        """Hold the lock, restore what a killed run left, and restore again at the end.

        Raises LockedError at once if another program holds the lock.
        """
        with Host.lasting(name, purpose, system) as host:
            journals = JOURNALS if name == WRITER else (name,)
            host.recovered, host.left = recover_killed(host.directory, journals, system)
            try:
                try:
                    yield host
                finally:
                    host.restore()
            finally:
                host.restore()  # needed only if a signal came just before the first call

    @staticmethod
    @contextlib.contextmanager
    def lasting(name: str, purpose: str, system: System | None = None) -> Iterator[Host]:
        """Hold the lock, but keep the changes at the end: the caller must `restore`.

        Raises LockedError also if settings are held that every writer must leave alone.
        """
        directory = private_directory(state_directory())
        with exclusive_lock(directory / f"{name}.lock", purpose, system):
            if name == WRITER:
                holders.require_none(directory, system or System())
            yield Host(directory, name, system)

    #: What an earlier, killed run had left and `exclusive` restored.
    recovered: Sequence[str] = ()
    #: Sentences on what was not restored, because it was changed since.
    left: Sequence[str] = ()

    # --- the changes ------------------------------------------------------------------------

    def set_writeback(self, values: Mapping[str, int]) -> None:
        """Set write-back sysctls; the originals of all of them are journaled once."""
        if not self._is_recorded(kind=WritebackOriginals.kind):
            self._record(WritebackOriginals(sysctls.read_writeback(self.system)))
        sysctls.write_writeback(self.system, values)

    def replace_writeback(self, values: Mapping[str, int]) -> None:
        """Do the same, and restore what is not named to its value before the first change."""
        originals = next(self._pending_of(WritebackOriginals), None)
        before = originals.values if originals else sysctls.read_writeback(self.system)
        self.set_writeback(replace_values(before, values))

    def set_device(self, disk: devices.Disk, values: Mapping[str, str]) -> None:
        """Set knobs of the destination's disk, and restore those that are not named.

        To be called after `set_writeback`, because some are shares of the dirty threshold. Raises
        HostError if a value is refused or has no effect.
        """
        originals = next((o for o in self._pending_of(DeviceOriginals) if o.disk == disk), None)
        if originals:
            devices.check_kept(disk, values, originals.values)
            originals.undo(self.system)
        elif values:
            kept = devices.kept_values(self.system, disk)
            devices.check_kept(disk, values, kept)
            self._record(DeviceOriginals(disk.name, disk.number, disk.sequence, kept))
        devices.write_values(self.system, disk, values)

    def set_sysctl(self, name: str, value: int) -> int:
        """Set one other sysctl; return the resulting value (a pool may grant less)."""
        if not self._is_recorded(kind=SysctlOriginal.kind, name=name):
            self._record(SysctlOriginal(name, sysctls.read_sysctl(self.system, name)))
        self.system.write(sysctls.sysctl_path(name), str(value))
        return sysctls.read_sysctl(self.system, name)

    def set_mount_options(self, target: str, words: Sequence[str]) -> str:
        """Mount `target` with option `words` instead of its tunable ones.

        Returns how it was done. Raises HostError if it is refused or has no effect.
        """
        if mount_at(self.system.mounts(), target) is None:  # an earlier change failed
            self.restore_mount_options(target)
        mount = mount_at(self.system.mounts(), target)
        if mount is None:
            raise HostError(f"nothing is mounted on {target}")
        if not self._is_recorded(kind=MountOriginal.kind, target=target):
            uuid = mounts.file_system_uuid(self.system, mount.source) or ""
            original = MountOriginal(target, mount.source, mount.fstype, mount.all_options, uuid)
            self._record(original)
        how = mounts.apply_words(self.system, mount, self._original_of(target).options, words)
        missing = mounts.missing_words(self.system, target, words)
        if missing:
            holders = mounts.held_elsewhere(self.system, mount.device)
            why = f"; the mount namespace of {', '.join(holders)} holds the volume" * bool(holders)
            raise HostError(f"mounted by {how}, but without {', '.join(missing)}{why}")
        return how

    def restore_mount_options(self, target: str) -> None:
        """Mount `target` as before its first change; do nothing if it was not changed."""
        if self._is_recorded(kind=MountOriginal.kind, target=target):
            self._original_of(target).undo(self.system)

    def _original_of(self, target: str) -> MountOriginal:
        return next(c for c in self._pending_of(MountOriginal) if c.target == target)

    def _pending_of(self, kind: type[T]) -> Iterator[T]:
        changes = (from_json(entry.change) for entry in self._journal.pending())
        return (change for change in changes if isinstance(change, kind))

    def make_directory(self, path: Path, mounted_on: str = "") -> None:
        """Make a folder (0700) that is deleted at the restore with everything in it."""
        self._record(NewPath(str(path), mounted_on))
        with host_errors(f"make {path}"):
            path.mkdir(mode=0o700)

    def make_trial_directory(self, destination: Path, token: str) -> Path:
        """Make a folder for one trial's files below a destination."""
        path = destination / f"{TRIAL_PREFIX}{token}"
        self.make_directory(path, mount_of(self.system.mounts(), str(destination)).target)
        return path

    def make_sparse_file(self, path: Path, size_bytes: int) -> None:
        """Make a sparse file."""
        self._record(NewPath(str(path)))
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with host_errors(f"make {path}"), os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.truncate(size_bytes)

    def attach_loop_device(self, backing_file: Path) -> str:
        """Attach a loop device with direct I/O to a file of ours; return `/dev/loopN`."""
        self._record(LoopDevice(str(backing_file)))
        return self._attach(str(backing_file))

    def stack_loop_device(self, backing_file: Path, device: str) -> str:
        """Attach another loop device to `device`, that of a file of ours; return `/dev/loopN`."""
        self._record(StackedLoopDevice(str(backing_file)))
        return self._attach(device)

    def _attach(self, below: str) -> str:
        argv = ["losetup", "--find", "--show", "--direct-io=on", "--", below]
        return self.system.run(argv).strip()

    def mount(self, source: str, target: Path, fstype: str, options: str = "") -> Mount:
        """Mount `source` on an empty folder of ours."""
        self._record(NewMount(str(target)))
        chosen = ["-o", options] if options else []
        self.system.run(["mount", "-t", fstype, *chosen, "--", source, str(target)])
        mount = mount_at(self.system.mounts(), str(target))
        if mount is None:
            raise HostError(f"{source} was mounted on {target}, but is not in the mount table")
        return mount

    def cap_device(
        self,
        path: str,
        setting_line: str,
        clearing_line: str,
        other_settings: tuple[str, ...] = (),
    ) -> None:
        """Cap a device of ours with a line in a cgroup file.

        `other_settings` are the lines that `change_cap` may set instead.
        """
        self._record(DeviceCap(path, setting_line, clearing_line, other_settings))
        self.system.write(path, setting_line)

    def change_cap(self, path: str, setting_line: str) -> None:
        """Replace a cap of ours by a line that was journaled with it. Needs no lock.

        A cap that is lifted, or that another program has cleared, stays so. Raises HostError for a
        line that is not in the journal, which a restore would leave.
        """
        for cap in self._pending_of(DeviceCap):
            if cap.path == path and setting_line in (cap.setting_line, *cap.other_settings):
                if cap.is_in_force(self.system):
                    self.system.write(path, setting_line)
                return
        raise HostError(f"the journal has no cap {setting_line!r} in {path}")

    def lift_cap(
        self, path: str, setting_line: str, clearing_line: str, backing_file: Path
    ) -> None:
        """Clear a cap on the loop device of a file of ours until the restore."""
        self._record(LiftedCap(path, setting_line, str(backing_file)))
        self.system.write(path, clearing_line)

    def is_cap_lifted(self) -> bool:
        """Return whether a cap is temporarily cleared."""
        return self._is_recorded(kind=LiftedCap.kind)

    def enable_controller(self, folder: str, controller: str) -> None:
        """Enable a controller for the groups below a cgroup v2 folder, if it is not enabled."""
        path = f"{folder}/cgroup.subtree_control"
        if controller not in self.system.read(path).split():
            self._record(GroupController(path, controller))
            self.system.write(path, f"+{controller}")

    def make_cgroup(self, path: Path) -> None:
        """Make an empty control group."""
        self._record(NewGroup(str(path)))
        with host_errors(f"make the control group {path}"):
            self.system.path(str(path)).mkdir(exist_ok=True)

    def start_slice(self, unit: str, path: str, controllers: Sequence[str]) -> str:
        """Make systemd start a slice with these controllers; return `path`, its control group."""
        self._record(NewSlice(unit, path))
        slices.start(self.system, unit, path, controllers)
        return path

    def adopt_process(self, pid: int) -> int:
        """Journal a process of ours that keeps running, so that `restore` ends it.

        Returns its start time in clock ticks, which identifies it together with the pid.
        """
        started = self.system.process_start_ticks(pid)
        if started is None:
            raise HostError(f"process {pid} is gone")
        self._record(ChildProcess(pid, started))
        return started

    def drop_clean_caches(self) -> None:
        """Drop clean page cache, dentries and inodes (dirty pages stay); nothing to restore."""
        self.system.write("/proc/sys/vm/drop_caches", "3")

    # --- taking them back -------------------------------------------------------------------

    @contextlib.contextmanager
    def temporary(self) -> Iterator[None]:
        """Undo at the end of the block what was first changed inside it."""
        already = {entry.sequence for entry in self._journal.pending()}
        try:
            yield
        finally:
            self._take_back(lambda entry: entry.sequence not in already)

    def pending(self) -> list[str]:
        """Return what `restore` would restore, in words, the newest change first."""
        due = [from_json(entry.change) for entry in self._journal.pending() if self._is_due(entry)]
        return [text for change in due if (text := _restoring(change, self.system))]

    def has_pending(self) -> bool:
        """Return whether the journal has any change, even one with nothing to restore."""
        return bool(self._journal.pending())

    def recover(self, *, give_up: bool = False) -> list[str]:
        """Undo what a killed run left: everything except what a complete `apply` changed.

        Applied values of an earlier boot stay only with a file that stays. Without one, the boot
        has reset them, and any file that set them since is removed here. Else like `restore`.
        """
        pending = self._journal.pending()
        has_file = any(e.is_kept and e.kind == WrittenFile.kind for e in pending)

        def is_left(entry: Entry) -> bool:
            is_value = entry.kind == AppliedSysctls.kind
            is_lost = is_value and entry.boot_id != self._boot_id and not has_file
            return not entry.is_kept or is_lost

        return self._take_back(is_left, give_up=give_up)

    def restore(self, *, give_up: bool = False) -> list[str]:
        """Undo every pending change, the newest first; return what is restored, in words.

        Continues after failures and then raises HostError with all of them. A failed change stays
        in the journal; with `give_up` it is removed from it and added to `left`. A boot has already
        undone the changes of earlier boots, except files.
        """
        return self._take_back(lambda entry: True, give_up=give_up)

    def _take_back(self, chosen: Callable[[Entry], bool], *, give_up: bool = False) -> list[str]:
        restored: list[str] = []
        failures: list[WritewiseError] = []
        with signals_held_back():
            pending = list(filter(chosen, self._journal.pending()))
            due = {entry.sequence for entry in pending if self._is_due(entry)}
            self._mount_again([entry for entry in pending if entry.sequence in due])
            for entry in pending:
                try:
                    text = self._undo(entry, is_due=entry.sequence in due)
                    restored.extend([text] if text else [])
                except WritewiseError as error:
                    failures.append(error)
                    if give_up:
                        self._forget(entry, error)
        if failures and not give_up:
            raise HostError(
                "not everything could be restored: " + "; ".join(f.message for f in failures),
                "fix the cause and run `writewise rollback` again; for what can never be restored "
                "(a volume that is gone) run `writewise rollback --give-up`",
            )
        self._journal.tidy()
        return restored

    def _mount_again(self, pending: Sequence[Entry]) -> None:
        """Mount volumes again first: files on a volume can only be deleted while it is mounted."""
        for entry in (each for each in pending if each.kind == MountOriginal.kind):
            with contextlib.suppress(WritewiseError):  # reported when the change itself is undone
                change = from_json(entry.change)
                if isinstance(change, MountOriginal) and not mount_at(
                    self.system.mounts(), change.target
                ):
                    change.undo(self.system)

    def _forget(self, entry: Entry, error: WritewiseError) -> None:
        self._journal.mark_undone(entry.sequence)
        what: object = entry.change
        with contextlib.suppress(WritewiseError):
            what = from_json(entry.change)
        self.left = [*self.left, f"not restored, and removed: {what} ({error.message})"]

    def _undo(self, entry: Entry, *, is_due: bool) -> str | None:
        """Undo one change if it is due; return what is restored, in words, if anything.

        What is due was decided before the first undo: a file that is deleted by now may have set
        the values at boot.
        """
        change, restored = from_json(entry.change), None
        if is_due:
            restored = _restoring(change, self.system)
            if isinstance(change, Applied):
                self.left = [*self.left, *change.left_alone(self.system)]
            change.undo(self.system)
        self._journal.mark_undone(entry.sequence)
        return restored

    def _is_due(self, entry: Entry) -> bool:
        """Return whether a change may still exist: files outlive a boot, and so do their sysctls.

        Sysctls also count if a killed rollback has deleted their file since the boot.
        """
        if entry.boot_id == self._boot_id or entry.kind in (NewPath.kind, WrittenFile.kind):
            return True
        if entry.kind != AppliedSysctls.kind:
            return False
        gone = self._journal.undone_since_boot()
        return self._is_recorded(kind=WrittenFile.kind) or any(
            change.get("kind") == WrittenFile.kind for change in gone
        )

    def _is_recorded(self, **fields: str) -> bool:
        pending = self._journal.pending()
        return any(fields.items() <= entry.change.items() for entry in pending)

    def _record(self, change: Change) -> int:
        return self._journal.record(to_json(change))


def _restoring(change: Change, system: System) -> str | None:
    return change.restoring(system) if isinstance(change, Applied) else str(change)


def recover_killed(
    directory: Path, journals: Sequence[str] = JOURNALS, system: System | None = None
) -> tuple[list[str], list[str]]:
    """Undo what killed programs left; return what is restored, and what is left because it changed.

    To be called with the lock of these journals. Raises HostError and JournalError.
    """
    recovered: list[str] = []
    left: list[str] = []
    hosts = [Host(directory, journal, system) for journal in journals]
    governor = raised_by_a_killed_governor(system) if WRITER in journals else None
    for host in [governor, *hosts] if governor else hosts:
        recovered += host.recover()
        left += host.left
    return recovered, left
