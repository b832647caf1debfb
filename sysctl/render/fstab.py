"""A recommendation as the user's line of /etc/fstab (fstab(5)), with other options alone.

The line is that of the host that was measured: its name of the volume (`UUID=`), its type, its last
two fields and every option that was not part of the sweep. Without one there is nothing to write.
"""

from __future__ import annotations

from sysctl.change.recommendation import MountAdvice, RecommendedChange
from sysctl.host.fstab import escaped
from sysctl.render.checked import fstab_line, fstab_options
from sysctl.render.comments import comment, evidence_lines
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.fstab"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The line; nothing where no mount options are to be changed. Raises InexpressibleError."""
    mount = change.mount
    if mount is None:
        return ()
    new = fstab_text(mount, fstab_options(mount))
    head = [
        f"{TITLE}the options (4th field) for this volume in /etc/fstab.",
        mount.reason,
        "",
        *evidence_lines(change),
        "",
        f"To use:   put the line in place of that of {mount.target}, and mount afresh.",
        "To undo:  put the old line back, and mount afresh:",
        f"  {fstab_text(mount, ','.join(fstab_line(mount).options))}",
        "All but the options is as in your fstab. For another host take the options alone.",
    ]
    return (Snippet(FILE_NAME, comment(head) + new + "\n"),)


def fstab_text(mount: MountAdvice, options: str) -> str:
    """The user's line with `options` as its fourth field. Raises InexpressibleError."""
    line = fstab_line(mount)
    fields = (line.source, mount.target, line.fstype, options)
    return " ".join([*map(escaped, fields), str(line.dump), str(line.check)])


FORMAT = Format("fstab", render, (FILE_NAME,), is_default=True)
