# SPDX-License-Identifier: Apache-2.0
"""The destination of a pull: checked before the pull starts, and never left through a symlink.

An object is downloaded to a part file (`.writewise-DEST-RUN-NUMBER.part`) in its final directory
and renamed after verification, so a partial file never has a final name. The rename replaces an
existing file; it replaces a symlink itself, without following it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contracts.shared.beneath import directory_beneath
from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.trust import UntrustedError, walk
from contracts.shared.units import format_size
from profiler.pull import leftovers
from profiler.pull.errors import PullError, explain_local
from profiler.pull.source import PullPlan


@dataclass
class Staging:
    """A plan and the destination it is pulled to: an open directory and the run's token.

    `root_fd` is open in the process that made it. `made_directories` are the directories made for
    the keys, parents first.
    """

    plan: PullPlan
    root_fd: int
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    made_directories: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def root_path(self) -> str:
        """A path through which other processes of this user open exactly this directory."""
        return f"/proc/{os.getpid()}/fd/{self.root_fd}"

    def part_name(self, number: int) -> str:
        """Return the file name of object `number` of the plan until it is published.

        It does not contain the final name, which may already have the maximum length.
        """
        return f"{self._part_prefix}{number}.part"

    @property
    def directory_name(self) -> str:
        """Name of the directory below the destination that a program fetches into."""
        return f"{self._part_prefix}all.part"

    @functools.cached_property
    def _part_prefix(self) -> str:
        return f"{leftovers.part_prefix(self.root_fd)}{self.token}-"

    @property
    def _directories(self) -> list[tuple[str, ...]]:
        """All directories of the plan's files, parents first."""
        leaves = {remote.directory for remote in self.plan.objects}
        every = {names[:depth] for names in leaves for depth in range(len(names) + 1)}
        return sorted(every, key=lambda names: (len(names), names))

    def claim(self, shown: str) -> None:
        """Mark the destination as in use by a pull, and remove what killed pulls left.

        Raises PullError; `shown` is the printable destination.
        """
        remove = functools.partial(leftovers.remove, self.root_fd, self._directories)
        leftovers.share(self.root_fd, remove, shown)

    def make_directories(self) -> None:
        """Make the directories for the keys.

        Raises PullError if a symlink or a file is in the way of a directory, or a directory in the
        way of an object.
        """
        for names in self._directories:
            try:
                if names:
                    self._make_directory(names)
            except OSError as error:
                raise explain_local(error, _shown(names)) from error
        _check_final_names(self.root_fd, self.plan)

    def _make_directory(self, names: tuple[str, ...]) -> None:
        with directory_beneath(self.root_fd, names[:-1]) as parent_fd:
            with contextlib.suppress(FileExistsError):
                os.mkdir(names[-1], 0o777, dir_fd=parent_fd)
                self.made_directories.append(names)
                return
            _check_is_directory(parent_fd, names)

    def discard(self) -> None:
        """Remove what this run has not published: part files and empty directories."""
        leftovers.remove(self.root_fd, self._directories, self.token)
        for names in reversed(self.made_directories):
            parent = directory_beneath(self.root_fd, names[:-1])
            with contextlib.suppress(OSError), parent as directory:
                os.rmdir(names[-1], dir_fd=directory)  # ENOTEMPTY: it holds published files
        self.made_directories.clear()


@dataclass(frozen=True)
class Destination:
    """A directory to pull to. It holds nothing open, so it may be unmounted between pulls.

    The context `deleting` lasts while unpublished files are removed.
    """

    path: Path
    deleting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext

    def check(self) -> None:
        """Raise UsageError if it is missing or not a directory, else PullError as `open`."""
        try:
            with self.open():
                pass
        except PullError as error:
            if isinstance(error.__cause__, (FileNotFoundError, NotADirectoryError)):
                hint = "create the directory, or mount the volume"
                raise UsageError(error.message, hint) from None
            raise

    @contextlib.contextmanager
    def open(self) -> Iterator[int]:
        """Yield a descriptor of the directory.

        Raises PullError if it is missing, not a directory, read-only or not writable, or if its
        path contains a symlink that another user could have made.
        """
        descriptor = _open_trusted(self.path)
        try:
            with _explained(self.path, "cannot be used"):
                _check_writable(descriptor, self.path)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def stage(self, plan: PullPlan) -> Iterator[Staging]:
        """Open it and make the plan's directories; at the end, remove what was not published.

        What killed pulls left in these directories is removed first. Raises PullError, also if the
        plan is larger than the free space, before anything is written.
        """
        with self.open() as root_fd:
            staging = Staging(plan, root_fd)
            with _explained(self.path, "cannot be used"):  # EIO of a failing volume, for example
                staging.claim(printable(str(self.path)))
                _check_space(root_fd, plan, self.path)
            try:
                staging.make_directories()
                yield staging
            finally:
                with self.deleting(), _explained(self.path, "still has unfinished files"):
                    staging.discard()


def publish(directory_fd: int, part_name: str, file_name: str) -> None:
    """Rename a verified part file to its final name, replacing any file there. Raises OSError."""
    os.rename(part_name, file_name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)


@contextlib.contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Raise a PullError for any OSError in the block."""
    try:
        yield
    except OSError as error:
        raise explain_local(error, f"the destination {printable(str(path))} {what}") from error


# -- checks before a pull --------------------------------------------------------------------------


def _check_writable(descriptor: int, path: Path) -> None:
    shown = printable(str(path))
    if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
        raise PullError(
            f"the destination {shown} is on a read-only file system",
            "remount it for writing or pull elsewhere; check `dmesg`, because file systems "
            "turn read-only after errors",
        )
    if not os.access(f"/proc/self/fd/{descriptor}", os.W_OK | os.X_OK):
        raise PullError(
            f"the destination {shown} is not writable", "run as root, or pull to another directory"
        )


def _check_space(descriptor: int, plan: PullPlan, path: Path) -> None:
    """Raise PullError if the plan does not fit; root's reserve does not count as free."""
    found = os.fstatvfs(descriptor)
    free_bytes = found.f_bavail * found.f_frsize
    if plan.bytes > free_bytes:
        raise PullError(
            f"{plan.location} has {format_size(plan.bytes)}, but {printable(str(path))} has only "
            f"{format_size(free_bytes)} free",
            "free space there, or pull to a larger volume",
        )


def _check_is_directory(parent_fd: int, names: Sequence[str]) -> None:
    mode = os.stat(names[-1], dir_fd=parent_fd, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise PullError(
            f"{_shown(names)} below the destination is a symlink, which a pull does not follow",
            "remove the symlink, or pull to the directory that it points to",
        )
    if not stat.S_ISDIR(mode):
        raise PullError(
            f"{_shown(names)} below the destination is a file, but objects need a directory there",
            "remove the file, or pull to another directory",
        )


def _check_final_names(root_fd: int, plan: PullPlan) -> None:
    """Raise PullError for an object whose name a directory has: a rename cannot replace it."""
    by_directory: dict[tuple[str, ...], list[str]] = {}
    for remote in plan.objects:
        by_directory.setdefault(remote.directory, []).append(remote.file_name)
    for names, files in by_directory.items():
        with directory_beneath(root_fd, names) as directory_fd:
            for file in files:
                if _is_directory(directory_fd, file):
                    raise PullError(
                        f"{_shown((*names, file))} below the destination is a directory, but an "
                        "object has this name",
                        "remove the directory, or pull to another one",
                    )


def _is_directory(directory_fd: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _shown(names: Sequence[str]) -> str:
    return printable("/".join(names)) or "the destination"


# -- opening the destination -----------------------------------------------------------------------


def _open_trusted(path: Path) -> int:
    """Open `path`, following only symlinks that other users cannot have made."""
    try:
        place = walk(str(path))
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        finally:
            os.close(place)
    except UntrustedError as error:
        raise PullError(f"the destination {error.message}", error.hint) from None
    except OSError as error:
        shown = printable(str(path))
        raise explain_local(error, f"the destination {shown} cannot be used") from error
