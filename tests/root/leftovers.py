# SPDX-License-Identifier: Apache-2.0
"""Find, name and clean up what root tests can leave on this host.

A session of pytest recognizes its own leftovers by their place. Its mounts, loop devices and
journals are below its folder. Its processes are in its UTS namespace: each process inherits that,
even if it changes its environment, session, control group and mounts. Other things (sysctls, caps,
control groups, files in /etc) are compared with a record of the host at the start of the session;
of these, only what cannot belong to another program is cleaned up.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from contracts.shared.errors import WritewiseError
from sysctl.host.host import Host
from sysctl.host.mount_table import is_below
from sysctl.host.sysctls import read_sysctl, read_writeback, sysctl_path, write_writeback
from tests.root import groups
from tests.root.hosts import SLOWNESS, has_systemd
from tests.root.labs import SYSTEM, caps

_SYSCTLS = Path("/proc/sys/vm")
#: Reading or writing these files starts something; they hold no value.
_TRIGGERS = ("compact_memory", "drop_caches", "stat_refresh")
_HUGE_PAGES = "vm.nr_hugepages"
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_LOOP_MAJOR = "7:"
_FILES = (
    *("/etc/sysctl.d/*writewise*", "/etc/sysctl.d/.*writewise*"),
    "/etc/systemd/system/*writewise*",
)
#: `profiler/workloads/folder.py` and `profiler/lab/s3_server.py`.
_TEMPORARY = ("writewise-objects-*", "writewise-s3-*")
_END_S = 30 * SLOWNESS
_POLL_S = 0.05


@dataclass(frozen=True)
class Owner:
    """What belongs to a session: below its folder, in its namespace, or a group with its pid."""

    folder: Path
    namespace: str
    pid: int


@dataclass(frozen=True)
class Record:
    """The host at a moment. `traces` maps names such as `mount /tmp/…` to their state."""

    writeback: Mapping[str, int]
    huge_pages: int
    traces: Mapping[str, str]

    def left_since(self, before: Record) -> list[str]:
        """Return in words what is new or different since then."""
        return [
            f"{what}: {now}" + (f", before {before.traces[what]}" if what in before.traces else "")
            for what, now in self.traces.items()
            if before.traces.get(what) != now
        ]


def record_of(owner: Owner) -> Record:
    """Return the present state of all that the session could change."""
    folder = owner.folder
    traces = {
        **{f"vm.{file.name}": text for file, text in _sysctls()},
        **{f"mount {target}": how for target, how in _mounted(folder).items()},
        **{f"loop device {name}": f"of {file}" for name, file in loop_devices_below(folder)},
        **{f"cap {line}": "set" for line in caps()},
        **{f"control group {path}": "there" for path in _groups(owner)},
        **{f"controllers of {path}": " ".join(names) for path, names in _controllers()},
        **{f"file {path}": "there" for path in (*_files(), *_temporary_folders())},
    }
    return Record(read_writeback(SYSTEM), read_sysctl(SYSTEM, _HUGE_PAGES), traces)


def namespace_of(pid: int | str = "self") -> str:
    """Return the UTS namespace of a process. Raises OSError when it has ended."""
    return os.readlink(f"/proc/{pid}/ns/uts")


def processes_in(namespace: str) -> dict[int, str]:
    """Return a session's processes by pid, with their command lines, without this one."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if namespace_of(process.name) == namespace and int(process.name) != os.getpid():
                words = (process / "cmdline").read_bytes().split(b"\0")
                found[int(process.name)] = b" ".join(words).decode(errors="replace").strip()
    return found


def mounts_below(folder: Path) -> list[str]:
    """Return mount points in the mount table's order; one with several mounts is repeated."""
    return [mount.target for mount in SYSTEM.mounts() if is_below(mount.target, str(folder))]


def loop_devices_below(folder: Path) -> list[tuple[str, str]]:
    """Return the loop devices of files in the folder, deleted ones too, with their files."""
    found = []
    for device in Path("/sys/block").glob("loop*"):
        with contextlib.suppress(OSError):  # it has no file
            file = (device / "loop/backing_file").read_text().rstrip("\n")
            if is_below(file.removesuffix(" (deleted)"), str(folder)):
                found.append((f"/dev/{device.name}", file))
    return found


def restore_sysctls(before: Record) -> list[str]:
    """Restore the sysctls that tests change; return in words what could not be written."""
    problems: list[str] = []
    _try_each(
        problems,
        lambda: write_writeback(SYSTEM, before.writeback),
        lambda: _restore_huge_pages(before),
    )
    return problems


def take_back(owner: Owner, before: Record) -> list[str]:
    """End a session's processes and undo what it made; return in words what could not be undone."""
    folder, namespace = owner.folder, owner.namespace
    problems: list[str] = []
    _try_each(
        problems,
        lambda: _clear_caps(folder, before),  # do not wait for a slow device
        lambda: _end_processes(namespace),
        lambda: _restore_journals(folder, problems),
        lambda: _unmount_and_detach(folder),
        lambda: _remove_groups(owner, problems),
        lambda: _disable_controllers(before),
        lambda: problems.extend(restore_sysctls(before)),
        lambda: _remove_temporary_folders(before, problems),
        lambda: _remove_folder(folder),
    )
    processes = [f"process {pid}: {words}" for pid, words in processes_in(namespace).items()]
    return [*problems, *record_of(owner).left_since(before), *processes]


# --- finding --------------------------------------------------------------------------------


def _sysctls() -> Iterator[tuple[Path, str]]:
    for file in sorted(_SYSCTLS.iterdir()):
        if file.name not in _TRIGGERS and file.stat().st_mode & stat.S_IRUSR:
            yield file, " ".join(file.read_text().split())


def _mounted(folder: Path) -> dict[str, str]:
    """Return the options of all mounts below the folder, by mount point."""
    found: dict[str, str] = {}
    for mount in SYSTEM.mounts():
        if is_below(mount.target, str(folder)):
            others = f"{found[mount.target]}; " if mount.target in found else ""
            found[mount.target] = f"{others}{mount.fstype} {','.join(mount.all_options)}"
    return found


def _groups(owner: Owner) -> list[Path]:
    """Return the session's control groups, innermost first; a lab's group is in its journal."""
    found = groups.named(groups.prefix(owner.pid))
    return sorted(found, key=lambda path: (-len(path.parts), path))


def _controllers() -> Iterator[tuple[Path, list[str]]]:
    """Return the controllers enabled at the top of version 2; systemd may change them any time."""
    file = groups.tops().get("cgroup2", Path("/nowhere")) / "cgroup.subtree_control"
    if file.exists() and not has_systemd():
        yield file, sorted(file.read_text().split())


def _files() -> list[Path]:
    return sorted(path for name in _FILES for path in Path("/").glob(name.lstrip("/")))


def _temporary_folders() -> list[Path]:
    """Return what a killed workload or a killed start of its server leaves in TMPDIR."""
    top = Path(tempfile.gettempdir())
    folders = [folder for name in _TEMPORARY for folder in top.glob(name)]
    return sorted(folder for folder in folders if not _is_in_use(folder))


def _is_in_use(folder: Path) -> bool:
    """Return whether a process locks it or has it in its arguments, or another user owns it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it is gone, or no folder
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.fstat(descriptor).st_uid != 0 or _is_named_by_a_process(folder)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _is_named_by_a_process(path: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.fsencode(path) in (process / "cmdline").read_bytes():
                return True
    return False


# --- cleaning up ----------------------------------------------------------------------------


def _try_each(problems: list[str], *steps: Callable[[], None]) -> None:
    """Take every step, even if earlier ones failed; add in words what failed."""
    for step in steps:
        try:
            step()
        except (OSError, WritewiseError) as error:
            problems.append(str(error))


def _restore_huge_pages(before: Record) -> None:
    if read_sysctl(SYSTEM, _HUGE_PAGES) != before.huge_pages:
        SYSTEM.write(sysctl_path(_HUGE_PAGES), str(before.huge_pages))


def _clear_caps(folder: Path, before: Record) -> None:
    """Clear caps in the root group for loop devices that no other program uses."""
    ours = {SYSTEM.read(f"/sys/block/{Path(n).name}/dev") for n, _ in loop_devices_below(folder)}
    for line in caps():
        file, device, _ = line.split(" ", 2)
        is_free = not Path(f"/sys/dev/block/{device}/loop").exists()
        is_ours = device in ours or (is_free and device.startswith(_LOOP_MAJOR))
        if is_ours and file.startswith("blkio/blkio.") and f"cap {line}" not in before.traces:
            (_CONTROL_GROUPS / file).write_text(f"{device} 0")


def _end_processes(namespace: str) -> None:
    """Kill until none is left: a process that was just starting is seen in the next round."""
    deadline_s = time.monotonic() + _END_S
    while processes_in(namespace) and time.monotonic() < deadline_s:
        for pid in processes_in(namespace):
            with contextlib.suppress(OSError):  # it has ended
                _kill(pid, namespace)
        time.sleep(_POLL_S)


def _kill(pid: int, namespace: str) -> None:
    """Kill it, unless another program's process has its number now. Raises OSError."""
    descriptor = os.pidfd_open(pid)
    try:
        if namespace_of(pid) == namespace:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _journals(folder: Path) -> list[Path]:
    """Return all journals, newest first, a lab's last, since a sweep may have used its volume.

    They are in directories named `state`. The search does not enter other mounts below the folder.
    """
    found = []
    for path, names, files in os.walk(folder):
        here = Path(path)
        found += [here / file for file in files if file.endswith(".journal")]
        names[:] = [n for n in names if n == "state" or not os.path.ismount(here / n)]
    return sorted(found, key=lambda file: (file.stem == "lab", -file.stat().st_mtime_ns))


def _restore_journals(folder: Path, problems: list[str]) -> None:
    """Restore what can be restored, forget the rest: it was a test's, and its volume goes too."""
    for file in _journals(folder):
        try:
            host = Host(file.parent, file.stem)
            with contextlib.suppress(WritewiseError):
                host.restore()
            host.restore(give_up=True)
        except (OSError, WritewiseError) as error:
            problems.append(str(error))


def _unmount_and_detach(folder: Path) -> None:
    """Do both in turns: a volume may be on a file of another, and the kernel needs a moment."""
    deadline_s = time.monotonic() + _END_S
    while mounts_below(folder) or loop_devices_below(folder):
        if time.monotonic() > deadline_s:
            return
        for target in reversed(mounts_below(folder)):
            _try("umount", "--", target)
        for device, _ in loop_devices_below(folder):
            _try("losetup", "--detach", device)
        time.sleep(_POLL_S)


def _try(*words: str) -> None:
    subprocess.run(words, capture_output=True, timeout=_END_S, check=False)


def _remove_groups(owner: Owner, problems: list[str]) -> None:
    _try_each(problems, *(path.rmdir for path in _groups(owner)))


def _disable_controllers(before: Record) -> None:
    for file, names in list(_controllers()):
        for name in set(names) - set(before.traces.get(f"controllers of {file}", "").split()):
            file.write_text(f"-{name}")


def _remove_temporary_folders(before: Record, problems: list[str]) -> None:
    new = [path for path in _temporary_folders() if f"file {path}" not in before.traces]
    _try_each(problems, *(partial(shutil.rmtree, path) for path in new))


def _remove_folder(folder: Path) -> None:
    """Remove the folder: without mounts below it, everything in it belongs to the session."""
    if not mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)
