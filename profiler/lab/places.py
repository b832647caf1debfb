# SPDX-License-Identifier: Apache-2.0
"""The lab's name, and where its files are: a folder that is private to root."""

from __future__ import annotations

from pathlib import Path

from sysctl.host.host import state_directory

#: The name of the lab's journal and lock.
NAME = "lab"


def folder() -> Path:
    """Return the lab's folder."""
    return state_directory() / "lab"


def record() -> Path:
    """Return the file that exists once the lab is complete."""
    return folder() / "lab.json"


def image() -> Path:
    """Return the backing file of the volume's loop device."""
    return folder() / "volume.img"


def credits_folder() -> Path:
    """Return the folder in memory (tmpfs) with the present credits: no disk is written for them."""
    return folder() / "credits"


def credits_file() -> Path:
    """Return the file with the present credits."""
    return credits_folder() / "credits.json"


def credits_log() -> Path:
    """Return the file with the errors of the process that follows the credits."""
    return folder() / "credits.log"


def task() -> Path:
    """Return the file with what that process has to follow."""
    return folder() / "follower.json"
