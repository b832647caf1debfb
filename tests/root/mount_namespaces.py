# SPDX-License-Identifier: Apache-2.0
"""Mount namespaces for tests, which mount and unmount there and never on the host."""

from __future__ import annotations

#: Shell text for `apart`: with or without tracefs (and debugfs, below which the kernel mounts it).
TRACEFS_UNMOUNTED = """
for path in debug/tracing debug tracing; do
    while umount --lazy /sys/kernel/$path 2>/dev/null; do :; done
done
"""
TRACEFS_MOUNTED = f"{TRACEFS_UNMOUNTED}\nmount -t tracefs none /sys/kernel/tracing"
DEBUGFS_MOUNTED = f"{TRACEFS_UNMOUNTED}\nmount -t debugfs none /sys/kernel/debug"
#: A state directory that has no room left.
FULL_STATE_DIRECTORY = """
mount -t tmpfs -o size=4k,mode=700 tmpfs "$WRITEWISE_STATE_DIRECTORY"
head -c 4096 /dev/zero > "$WRITEWISE_STATE_DIRECTORY/full"
"""


def apart(script: str, *arguments: object, propagation: str = "private") -> list[str]:
    """Return the words that start a command in a mount namespace after `script` changed its mounts.

    `arguments` are the script's. No mount in the namespace reaches the host.
    """
    made = f'{script}\nshift {len(arguments)}; exec "$@"'
    if propagation != "private":
        made = f"mount --make-r{propagation} /\n{made}"
    return ["unshare", "--mount", "sh", "-ec", made, "-", *map(str, arguments)]
