"""A recommendation as Ansible tasks (collection ansible.posix), to be included in a play as root.

Ansible takes every text for a Jinja template; what is not known to be none is marked `!unsafe`.
"""

from __future__ import annotations

from typing import Any

from contracts.text import quoted
from sysctl.recommendation import MountAdvice, RecommendedChange
from sysctl.render import sysctl_d, udev
from sysctl.render.checked import filesystem, mount_options, printable_text, sysctl_lines
from sysctl.render.comments import comment
from sysctl.render.installed import InstalledFile, header, installed_files
from sysctl.render.snippet import STEM, TITLE, InexpressibleError, Snippet
from sysctl.render.yaml_text import Command, Unsafe, dump

FILE_NAME = f"{STEM}.ansible.yaml"
USE = (
    f"To use:   in a play with become: true, ansible.builtin.include_tasks: {FILE_NAME}",
    "          The collection: ansible-galaxy collection install ansible.posix",
)


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The tasks. Raises InexpressibleError."""
    tasks = [*_sysctl_tasks(change), *_udev_tasks(change)]
    if change.mount:
        tasks.append(_mount_task(change.mount))
    if not tasks:
        return ()
    head = [
        *header(f"{TITLE}tasks for Ansible (ansible.builtin, ansible.posix).", change, USE),
        "  or with the same tasks and state: absent, before the values are written back.",
        "",
        "The mount's task changes fstab only: mount afresh, or restart, for it to take effect. Add",
        "to its opts what only your fstab has, such as nofail.",
    ]
    return (Snippet(FILE_NAME, comment(head) + "\n" + dump(tasks)),)


def _sysctl_tasks(change: RecommendedChange) -> list[dict[str, Any]]:
    if not change.changes_sysctls:
        return []
    values = change.sysctl_values
    return [
        {
            "name": f"Writewise - {line}",
            "ansible.posix.sysctl": {
                "name": name,
                "value": str(value),
                "sysctl_file": sysctl_d.PATH,
                "sysctl_set": True,
                "state": "present",
            },
        }
        for line, (name, value) in zip(sysctl_lines(values), values.items())
    ]


def _udev_tasks(change: RecommendedChange) -> list[dict[str, Any]]:
    return [
        task
        for file in installed_files(change)
        if file.path == udev.PATH
        for task in _tasks_of(file)
    ]


def _tasks_of(file: InstalledFile) -> list[dict[str, Any]]:
    """Copied whole, and taken in force if that changed it."""
    copied = {"dest": file.path, "content": file.text, "owner": "root", "mode": "0644"}
    reloaded = [
        {
            "name": f"Writewise - {' '.join(command[:2])}",
            "ansible.builtin.command": {"argv": Command(command)},
            "changed_when": True,
            "when": "writewise_rules is changed",
        }
        for command in file.commands
    ]
    task = {"name": "Writewise - udev rules", "ansible.builtin.copy": copied}
    return [{**task, "register": "writewise_rules"}, *reloaded]


def _mount_task(mount: MountAdvice) -> dict[str, Any]:
    for path in (mount.device, mount.target):
        printable_text(path, "device or mount point")
        if not path.startswith("/"):
            raise InexpressibleError(f"{quoted(path)} is no path")
    return {
        "name": "Writewise - mount options in fstab",
        "ansible.posix.mount": {
            "path": _literal(mount.target),
            "src": _literal(mount.device),
            "fstype": filesystem(mount),
            "opts": mount_options(mount),
            "state": "present",
        },
    }


def _literal(text: str) -> str:
    return Unsafe(text) if "{" in text else text
