# SPDX-License-Identifier: Apache-2.0
"""The lines of shell that find a node's name in its records, or give it one.

They do what `writewise` does when it writes the first record: the file has a random UUID and a hash
that ties it to the machine, so a node made from another's image has a name of its own.
"""

from __future__ import annotations

from sysctl.rollout.marker import NODE_FILE, NODE_MACHINE_FILE

_UUID, _MACHINE = "/proc/sys/kernel/random/uuid", "/sys/class/dmi/id/product_uuid"


def node_name_lines() -> list[str]:
    """Return lines that set `node`; `state` is the directory, and with `check` nothing is kept."""
    name, machine = f'"$state/{NODE_FILE}"', f'"$state/{NODE_MACHINE_FILE}"'
    new = '"$state/.node-id.new"'
    return [
        "machine_of() {",
        f"  if number=$(cat {_MACHINE} 2>/dev/null); then",
        '    printf \'%s %s\' "$1" "$number" | sha256sum | cut -c1-64',
        "  else echo unknown; fi",
        "}",
        f"node=$(sed -n '1s/^\\([0-9a-f-]*\\)$/\\1/p' {name} 2>/dev/null || true)",
        f"made_for=$(cat {machine} 2>/dev/null || true)",
        'if [ -z "$node" ] ||',
        '  { [ "$made_for" ] && [ "$made_for" != "$(machine_of "$node")" ]; }; then',
        f"  node=$(cat {_UUID}) made_for=",
        '  if [ "${check-}" != True ]; then',
        f'    echo "$node" > {new}',
        f"    mv {new} {name}",
        "  fi",
        "fi",
        'if [ -z "$made_for" ] && [ "${check-}" != True ]; then',
        f'  machine_of "$node" > {new}',
        f"  mv {new} {machine}",
        "fi",
    ]
