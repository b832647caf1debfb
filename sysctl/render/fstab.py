# SPDX-License-Identifier: Apache-2.0
"""A recommendation as the user's line of /etc/fstab (fstab(5)), with only its options changed.

The line is that of the measured host: its name of the volume (`UUID=`), its type, its last two
fields and every option that was not part of the sweep. Without such a line no file is written.
"""

from __future__ import annotations

from sysctl.change.recommendation import MountAdvice, RecommendedChange
from sysctl.host.fstab import escaped
from sysctl.render.checked import fstab_line, fstab_options
from sysctl.render.comments import comment, evidence_lines, wrapped
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.fstab"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the line; nothing if no mount options change. Raises InexpressibleError."""
    mount = change.mount
    if mount is None:
        return ()
    new = fstab_text(mount, fstab_options(mount))
    head = [
        f"{TITLE}the options (4th field) for this volume in /etc/fstab.",
        *wrapped(mount.reason),
        "",
        *evidence_lines(change),
        "",
        f"To use:   replace the line for {mount.target}; unmount and mount the volume.",
        "To undo:  restore the old line; unmount and mount the volume:",
        f"  {fstab_text(mount, ','.join(fstab_line(mount).options))}",
        "Only the options differ from your fstab. On another host change only the options.",
    ]
    return (Snippet(FILE_NAME, comment(head) + new + "\n"),)


def fstab_text(mount: MountAdvice, options: str) -> str:
    """Return the user's line with `options` as its fourth field. Raises InexpressibleError."""
    line = fstab_line(mount)
    fields = (line.source, mount.target, line.fstype, options)
    return " ".join([*map(escaped, fields), str(line.dump), str(line.check)])


FORMAT = Format("fstab", render, (FILE_NAME,), is_default=True)
