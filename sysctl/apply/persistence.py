"""Writewise's own file in /etc/sysctl.d: its name, its text, and what would override it."""

from __future__ import annotations

from sysctl.apply.sysctl_files import Assignment, after, contradicting
from sysctl.host.root_file import read_file
from sysctl.host.system import HostError, System
from sysctl.recommendation import RecommendedChange
from sysctl.render import sysctl_d

#: The first is the one that the snippets name; the second wins against 99-sysctl.conf, the link to
#: /etc/sysctl.conf of Debian and Red Hat.
PATHS = ("/etc/sysctl.d/90-writewise.conf", "/etc/sysctl.d/99-writewise.conf")
#: How every file that Writewise writes begins.
OURS = "# Written by writewise"


def choose_path(system: System, change: RecommendedChange) -> str:
    """The path under which the fewest lines override the file; one that is there already first."""
    there = [path for path in PATHS if is_ours(system, path)]
    return min(
        dict.fromkeys([*there, *PATHS]), key=lambda path: len(overriding(system, change, path))
    )


def overriding(system: System, change: RecommendedChange, path: str) -> list[Assignment]:
    """The lines that are read after the file at `path` and say something else."""
    found = [
        each
        for name, value in change.sysctl_values.items()
        for each in after(contradicting(system, name, value), path)
    ]
    return list(dict.fromkeys(found))


def is_ours(system: System, path: str) -> bool:
    """Whether there is a file that Writewise wrote."""
    return (read_file(system, path) or "").startswith(OURS)


def check_is_free(system: System, path: str) -> None:
    """Raise HostError where a file is in the way that Writewise did not write."""
    if read_file(system, path) is not None and not is_ours(system, path):
        raise HostError(
            f"{path} was not written by writewise, so it is not replaced",
            "look into it, and move it out of the way",
        )


def text_of(change: RecommendedChange, path: str) -> str:
    """The file's text: the snippet of `writewise advise`. Raises HostError where there is none."""
    snippets = sysctl_d.render(change)
    if not snippets:
        raise HostError(
            "the recommendation changes no sysctl, so there is no file to write",
            "leave out --persist",
        )
    return snippets[0].text.replace(sysctl_d.FILE_NAME, path.rpartition("/")[2])
