"""A recommendation as a line for /etc/fstab (fstab(5)), with its undo in comments."""

from __future__ import annotations

from contracts.text import quoted
from sysctl.recommendation import MountAdvice, RecommendedChange
from sysctl.render.checked import (
    filesystem,
    mount_options,
    old_mount_options,
    printable_text,
)
from sysctl.render.comments import comment, evidence_lines
from sysctl.render.snippet import STEM, TITLE, InexpressibleError, Snippet

FILE_NAME = f"{STEM}.fstab"
#: What util-linux, glibc and systemd all read back.
_ESCAPES = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
_NAMED = ("UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The line; nothing where no mount options are to be changed. Raises InexpressibleError."""
    mount = change.mount
    if mount is None:
        return ()
    head = [
        f"{TITLE}the options (4th field) for this volume in /etc/fstab.",
        mount.reason,
        "",
        *evidence_lines(change),
        "",
        f"To use:   put the line in place of that of {mount.target}, and mount afresh.",
        f"To undo:  write the old options back, {old_mount_options(mount)}, and mount afresh.",
        "Keep what only your line knows: UUID= in place of a device name, which may change between",
        "boots, and options such as nofail, which the mount table does not have.",
    ]
    return (Snippet(FILE_NAME, comment(head) + _line(mount)),)


def _line(mount: MountAdvice) -> str:
    if not mount.device.startswith(("/", *_NAMED)):  # `#` would make it a comment
        raise InexpressibleError(f"{quoted(mount.device)} is no device that fstab could name")
    if not mount.target.startswith("/"):
        raise InexpressibleError(f"{quoted(mount.target)} is no mount point")
    fields = (mount.device, mount.target, filesystem(mount), mount_options(mount))
    return " ".join(_field(field) for field in fields) + " 0 0\n"


def _field(text: str) -> str:
    printable_text(text, "device or mount point", escaped="\t\n")
    return "".join(_ESCAPES.get(character, character) for character in text)
