# SPDX-License-Identifier: Apache-2.0
"""The lines of shell that find a node's name in its records, or give it one.

They do what `writewise` does when it writes the first record: the file has a random UUID and a hash
that ties it to the machine, so a node made from another's image has a name of its own.
"""

from __future__ import annotations

from sysctl.rollout.marker import NODE_FILE

_UUID, _MACHINE = "/proc/sys/kernel/random/uuid", "/sys/class/dmi/id/product_uuid"


def node_name_lines() -> list[str]:
    """Return lines that set `node`; `state` is the directory, and with `check` nothing is kept."""
    file = f'"$state/{NODE_FILE}"'
    new = f'"$state/.{NODE_FILE}.new"'
    return [
        "machine_of() {",
        f"  if number=$(cat {_MACHINE} 2>/dev/null); then",
        '    printf \'"%s"\' "$(printf \'%s %s\' "$1" "$number" | sha256sum | cut -c1-64)"',
        "  else printf null; fi",
        "}",
        f'node=$(sed -n \'s/.*"node": "\\([0-9a-f-]*\\)".*/\\1/p\' {file} 2>/dev/null || true)',
        f'if [ -z "$node" ] || ! grep -qF "\\"machine\\": $(machine_of "$node")" {file}; then',
        f"  node=$(cat {_UUID})",
        '  if [ "${check-}" != True ]; then',
        '    printf \'{"node": "%s", "machine": %s}\\n\' "$node" '
        f'"$(machine_of "$node")" > {new}',
        f"    mv {new} {file}",
        "  fi",
        "fi",
    ]
