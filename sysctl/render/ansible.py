# SPDX-License-Identifier: Apache-2.0
"""A recommendation as Ansible tasks (collection ansible.posix) for a play as root, and their undo.

Ansible treats every text as a Jinja template, so text that may contain braces is marked `!unsafe`.

In a node's fstab only the options of the line for the mount point are edited, and only if they are
those of the measured host. The mount module would rewrite the whole line, and its `state: absent`
unmounts the volume, deletes the line and removes the mount point.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from sysctl.change.recommendation import DiskAdvice, MountAdvice, RecommendedChange
from sysctl.host import fstab
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.render import sysctl_d, udev
from sysctl.render.checked import fstab_line, fstab_options, sysctl_lines
from sysctl.render.comments import comment, evidence_lines
from sysctl.render.installed import InstalledFile, header, installed_files, mount_left_out
from sysctl.render.snippet import STEM, TITLE, Format, Snippet
from sysctl.render.yaml_text import Command, Unsafe, dump

FILE_NAME = f"{STEM}.ansible.yaml"
UNDO_NAME = f"{STEM}.ansible-undo.yaml"
_INCLUDE = "with become: true, ansible.builtin.include_tasks:"
_MOUNT_AGAIN = (
    "The fstab task changes only the options, and only of a line with the options that your fstab",
    "had. Other lines stay as they are. Unmount and mount the volume, or reboot, to apply it.",
)
_UNDO_MOUNT = (
    "The fstab task restores the old options in a line that has exactly the new ones, even on a",
    "node that always had these. Unmount and mount the volume, or reboot, to apply it.",
)
USE = (
    f"To use:   {_INCLUDE} {FILE_NAME}",
    "          Required collection: ansible-galaxy collection install ansible.posix",
)
Task = dict[str, Any]


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the tasks and their undo tasks. Raises InexpressibleError."""
    mount = change.mount if change.mount and change.mount.fstab else None
    tasks = [*_sysctl_tasks(change), *_udev_tasks(change), *_fstab_tasks(mount)]
    if not tasks:
        if change.mount:
            fstab_line(change.mount)  # raises the reason
        return ()
    notes = _MOUNT_AGAIN if mount else mount_left_out(change)
    title = f"{TITLE}tasks for Ansible (ansible.builtin, ansible.posix)."
    head = [*header(title, change, USE), f"  or run the tasks of {UNDO_NAME}.", "", *notes]
    return (
        Snippet(FILE_NAME, comment(head) + "\n" + dump(tasks)),
        Snippet(UNDO_NAME, _undo_text(change, mount)),
    )


def _undo_text(change: RecommendedChange, mount: MountAdvice | None) -> str:
    head = [
        f"{TITLE}tasks for Ansible that undo those of {FILE_NAME}.",
        *evidence_lines(change),
        "",
        f"To undo:  {_INCLUDE} {UNDO_NAME}",
        "On nodes that have the files, the tasks remove them and restore the values of the",
        "measured host. They unmount nothing.",
        *(_UNDO_MOUNT if mount else ()),
    ]
    tasks = [*_undo_sysctl_tasks(change), *_undo_udev_tasks(change), *_fstab_tasks(mount, True)]
    return comment(head) + "\n" + dump(tasks)


def _sysctl_tasks(change: RecommendedChange) -> list[Task]:
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


def _udev_tasks(change: RecommendedChange) -> list[Task]:
    return [
        task
        for file in installed_files(change)
        if file.path == udev.PATH
        for task in _tasks_of(file)
    ]


def _tasks_of(file: InstalledFile) -> list[Task]:
    """Return the tasks that copy a file and load it if it changed."""
    copied = {"dest": file.path, "content": file.text, "owner": "root", "mode": "0644"}
    reloaded = [
        _command(f"Writewise - {' '.join(command[:2])}", Command(command), "writewise_rules")
        for command in file.commands
    ]
    task = {"name": "Writewise - udev rules", "ansible.builtin.copy": copied}
    return [{**task, "register": "writewise_rules"}, *reloaded]


def _fstab_tasks(mount: MountAdvice | None, is_undo: bool = False) -> list[Task]:
    """Return the task that edits the options of the node's line, if they are the expected ones."""
    if mount is None:
        return []
    old, new = ",".join(fstab_line(mount).options), fstab_options(mount)
    if is_undo:
        old, new = new, old
    # not \s, which also matches a no-break space
    fields = (r"[^# \t\n][^ \t\n]*", re.escape(fstab.escaped(mount.target)), r"[^ \t\n]+")
    before = r"[ \t]+".join((*fields, ""))
    edited = {
        "path": fstab.PATH,
        "regexp": _literal(rf"^([ \t]*{before}){re.escape(old)}(?=[ \t]|$)"),
        "replace": rf"\g<1>{new}",
    }
    return [{"name": "Writewise - mount options in fstab", "ansible.builtin.replace": edited}]


def _undo_sysctl_tasks(change: RecommendedChange) -> list[Task]:
    """Return the tasks that remove the file and, if it existed, restore the old values."""
    if not change.changes_sysctls:
        return []
    values = change.undo_values
    sysctl_lines(values)
    task: Task = {"name": "Writewise - remove the sysctl.d file", **_absent(sysctl_d.PATH)}
    if not values:
        return [task]
    words = Command(["sysctl", "-w", *(f"{name}={value}" for name, value in values.items())])
    name = "Writewise - restore the old values"
    return [{**task, "register": "writewise_sysctls"}, _command(name, words, "writewise_sysctls")]


def _undo_udev_tasks(change: RecommendedChange) -> list[Task]:
    """Return the tasks that restore the old values by rules, then remove the rules."""
    if not any(file.path == udev.PATH for file in installed_files(change)):
        return []
    found = {"path": udev.PATH}
    stat = {"name": "Writewise - look for udev rules", "ansible.builtin.stat": found}
    is_there = "writewise_rules.stat.exists"
    rules = udev.rules(_former(change.disk)) if change.disk else []
    copied = {"dest": udev.PATH, "content": "".join(f"{rule}\n" for rule in rules)}
    reload, trigger = udev.RELOAD
    settle = ("udevadm", "settle", "--timeout=30")
    return [
        {**stat, "register": "writewise_rules"},
        {
            "name": "Writewise - rules with the old values",
            "ansible.builtin.copy": {**copied, "owner": "root", "mode": "0644"},
            "when": is_there,
        },
        *(
            {**_command(f"Writewise - {' '.join(words[:2])}", Command(words), ""), "when": is_there}
            for words in (reload, trigger, settle)
        ),
        {"name": "Writewise - remove the udev rules", **_absent(udev.PATH), "when": is_there},
        {**_command("Writewise - udevadm control", Command(reload), ""), "when": is_there},
    ]


def _former(disk: DiskAdvice) -> DiskAdvice:
    """Return the disk with the old values of its knobs, without values that cannot be set."""
    knobs = (
        replace(knob, value=knob.present)
        for knob in disk.knobs
        if knob.name in DEVICE_BY_NAME and not DEVICE_BY_NAME[knob.name].refusal(knob.present)
    )
    return replace(disk, knobs=tuple(knobs))


def _absent(path: str) -> Task:
    return {"ansible.builtin.file": {"path": path, "state": "absent"}}


def _command(name: str, words: Command, registered: str) -> Task:
    """Return the task of a command that runs only if the task `registered` changed something."""
    task = {"name": name, "ansible.builtin.command": {"argv": words}, "changed_when": True}
    return {**task, "when": f"{registered} is changed"} if registered else task


def _literal(text: str) -> str:
    return Unsafe(text) if "{" in text else text


FORMAT = Format("ansible", render, (FILE_NAME, UNDO_NAME))
