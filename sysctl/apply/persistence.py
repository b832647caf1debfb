# SPDX-License-Identifier: Apache-2.0
"""Writewise's own file in /etc/sysctl.d: its name, its text, and what overrides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sysctl.apply.history import History
from sysctl.apply.sysctl_files import Assignment, after, contradicting
from sysctl.change.recommendation import RecommendedChange
from sysctl.host.applied import AppliedSysctls, WrittenFile
from sysctl.host.root_file import read_file
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.render import sysctl_d

#: The first is also the path in the snippets; the second overrides 99-sysctl.conf, the link to
#: /etc/sysctl.conf on Debian and Red Hat.
PATHS = ("/etc/sysctl.d/90-writewise.conf", "/etc/sysctl.d/99-writewise.conf")
#: The beginning of every file that Writewise writes.
OURS = "# Written by writewise"


@dataclass(frozen=True)
class PersistedFile:
    """The file that each boot reads: its path, its text, and what overrides it.

    `replaces` is what happens to a file at `path` that is not as `apply` wrote it, or "".
    """

    path: str
    text: str
    overridden_by: tuple[Assignment, ...]
    replaces: str


def persisted_file(system: System, change: RecommendedChange, history: History) -> PersistedFile:
    """Return the file that `apply --persist` would write now.

    Raises HostError if there is a file that Writewise did not write, or there is nothing to write.
    """
    path = choose_path(system, change)
    check_is_free(system, path)
    text = text_of(change, path, _originals(system, history))
    overridden_by = tuple(overriding(system, change, path))
    replaces = _replaced(read_file(system, path), path, text, history)
    return PersistedFile(path, text, overridden_by, replaces)


def _originals(system: System, history: History) -> Mapping[str, int]:
    """Return the write-back sysctls before the first change."""
    applied = [each for each in history.changes if isinstance(each, AppliedSysctls)]
    return applied[0].originals if applied else read_writeback(system)


def _replaced(present: str | None, path: str, text: str, history: History) -> str:
    """Return what happens to the existing file; "" if it is as `apply` wrote it."""
    if present is None or present == text:
        return ""
    if history.problem:
        return f"replaces the existing file, which rollback restores ({history.problem})"
    ours = [each for each in history.changes if isinstance(each, WrittenFile) and each.path == path]
    if ours and ours[-1].text == present:
        return ""
    was = "was edited since" if ours else "was not written by apply, or was edited since a rollback"
    return f"the existing file {was}: it is replaced, and rollback restores it"


def choose_path(system: System, change: RecommendedChange) -> str:
    """Return the path at which the fewest lines override the file; an existing one is preferred."""
    there = [path for path in PATHS if is_ours(system, path)]
    return min(
        dict.fromkeys([*there, *PATHS]), key=lambda path: len(overriding(system, change, path))
    )


def overriding(system: System, change: RecommendedChange, path: str) -> list[Assignment]:
    """Return the lines that are read after the file at `path` and set other values."""
    found = [
        each
        for name, value in change.sysctl_values.items()
        for each in after(contradicting(system, name, value), path)
    ]
    return list(dict.fromkeys(found))


def is_ours(system: System, path: str) -> bool:
    """Return whether `path` is a file that Writewise wrote."""
    return not _is_link(system, path) and (read_file(system, path) or "").startswith(OURS)


def _is_link(system: System, path: str) -> bool:
    return system.path(path).is_symlink()


def check_is_free(system: System, path: str) -> None:
    """Raise HostError if there is a file that Writewise did not write."""
    if _is_link(system, path):
        raise HostError(f"{path} is a symlink, so it is not replaced", "move it away")
    if read_file(system, path) is not None and not is_ours(system, path):
        raise HostError(
            f"{path} was not written by Writewise, so it is not replaced",
            "check its content and move it away",
        )


def text_of(change: RecommendedChange, path: str, originals: Mapping[str, int]) -> str:
    """Return the file's text; `originals` are for its undo. Raises HostError without sysctls."""
    if not change.changes_sysctls:
        raise HostError(
            "the recommendation changes no sysctl, so there is no file to write",
            "omit --persist",
        )
    return sysctl_d.installed_text(change, path, originals)
