"""A recommendation as a systemd mount unit (systemd.mount(5)), which takes precedence over fstab.

The unit must be named after its mount point (systemd.unit(5), "String escaping for inclusion in
unit names"). Values are taken as they are, but for `%`, blanks around them and a backslash at the
end of a line (`config_parse()` in src/shared/conf-parser.c, as of systemd 252).
"""

from __future__ import annotations

import re

from contracts.text import quoted
from sysctl.recommendation import MountAdvice, RecommendedChange
from sysctl.render.checked import filesystem, mount_options, old_mount_options, printable_text
from sysctl.render.comments import comment, evidence_lines
from sysctl.render.snippet import TITLE, InexpressibleError, Snippet

FOLDER = "/etc/systemd/system"
_SUFFIX = ".mount"
#: Named after the mount point.
FILE_NAMES = f"*{_SUFFIX}"
#: UNIT_NAME_MAX in src/basic/unit-name.h, which counts the terminating zero.
_MAX_NAME_BYTES = 255
_UNESCAPED = re.compile(rb"[A-Za-z0-9:_.]")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The unit; nothing where no mount options are to be changed. Raises InexpressibleError."""
    mount = change.mount
    if mount is None:
        return ()
    name = unit_name(mount.target)
    head = [
        f"{TITLE}a mount unit with the options recommended for this volume.",
        mount.reason,
        "",
        *evidence_lines(change),
        "",
        f"To use:   install -m 0644 '{name}' {FOLDER}/ && systemctl daemon-reload,",
        f"          then systemctl enable '{name}' and mount afresh by systemctl restart of it.",
        "          It takes precedence over a line in fstab.",
        f"To undo:  systemctl disable '{name}'; rm {FOLDER}/'{name}';",
        "          systemctl daemon-reload, and mount afresh;",
        f"          the options were {old_mount_options(mount)}.",
        "A device name may change between boots: prefer a name in /dev/disk/by-uuid.",
    ]
    return (Snippet(name, comment(head) + _unit(mount)),)


def unit_name(mount_point: str) -> str:
    r"""`/my data` → `my\x20data.mount`, as `systemd-escape -p --suffix=mount` has it.

    Raises InexpressibleError for paths that no unit can have.
    """
    printable_text(mount_point, "mount point")
    if mount_point == "/":
        raise InexpressibleError("the root file system is mounted before systemd reads this unit")
    start, *parts = mount_point.split("/")
    if start or not parts or {"", ".", ".."} & set(parts):
        raise InexpressibleError(f"{quoted(mount_point)} is no normalized absolute path")
    name = "".join(map(_escaped, mount_point[1:].encode())) + _SUFFIX
    if name.startswith("."):  # would be a hidden file
        name = f"\\x{ord('.'):02x}{name[1:]}"
    if len(name) > _MAX_NAME_BYTES:
        raise InexpressibleError(
            f"the mount point {quoted(mount_point)} is too long for a unit's name"
        )
    return name


def _escaped(byte: int) -> str:
    if byte == ord("/"):
        return "-"
    return chr(byte) if _UNESCAPED.match(bytes([byte])) else f"\\x{byte:02x}"


def _unit(mount: MountAdvice) -> str:
    if not mount.device.startswith("/"):
        raise InexpressibleError(
            f"{quoted(mount.device)} is no device that a mount unit could name"
        )
    options = mount_options(mount)
    target = "remote-fs" if "_netdev" in options.split(",") else "local-fs"
    return (
        "\n[Unit]\nDescription=Volume with the mount options that writewise recommends\n"
        f"\n[Mount]\nWhat={_value(mount.device)}\nWhere={_value(mount.target)}\n"
        f"Type={filesystem(mount)}\nOptions={_value(options)}\n"
        f"\n[Install]\nWantedBy={target}.target\n"
    )


def _value(text: str) -> str:
    """`text` with its specifiers escaped, if a line can hold it."""
    printable_text(text, "device or mount point")
    if text != text.strip() or text.endswith("\\"):
        raise InexpressibleError(f"a line of a unit cannot end as {quoted(text)} does")
    return text.replace("%", "%%")
