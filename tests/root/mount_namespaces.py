"""Mount namespaces of the tests' own: what they need mounted or unmounted, never on the host."""

from __future__ import annotations

#: Shell text for `apart`: tracefs (and debugfs, below which the kernel mounts it) there or not.
TRACEFS_UNMOUNTED = """
for path in debug/tracing debug tracing; do
    while umount --lazy /sys/kernel/$path 2>/dev/null; do :; done
done
"""
TRACEFS_MOUNTED = f"{TRACEFS_UNMOUNTED}\nmount -t tracefs none /sys/kernel/tracing"
DEBUGFS_MOUNTED = f"{TRACEFS_UNMOUNTED}\nmount -t debugfs none /sys/kernel/debug"


def apart(script: str, *arguments: object, propagation: str = "private") -> list[str]:
    """What starts a command in a mount namespace in which the shell's `script` has changed mounts.

    `arguments` are the script's. Nothing that is mounted in it reaches the host.
    """
    made = f'{script}\nshift {len(arguments)}; exec "$@"'
    if propagation != "private":
        made = f"mount --make-r{propagation} /\n{made}"
    return ["unshare", "--mount", "sh", "-ec", made, "-", *map(str, arguments)]
