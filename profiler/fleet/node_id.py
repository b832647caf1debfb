# SPDX-License-Identifier: Apache-2.0
"""The random name of this node in its records, which says nothing about the host.

It is a UUID in a file of the state directory. A second file has a hash that ties it to the machine:
a node that was started from an image of another one gets a name of its own.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.files import FileKind
from contracts.shared.writing import write_atomically
from profiler.fleet.record import RecordError
from sysctl.host.host import state_directory
from sysctl.host.journal import private_directory
from sysctl.host.system import HostError, System
from sysctl.rollout.marker import NODE_FILE, NODE_MACHINE_FILE

_FILE = FileKind("node-id", 4096, "delete it; the node then gets a new name")
#: The machine's own number, which only root can read; another machine has another.
_MACHINE = "/sys/class/dmi/id/product_uuid"


def node_id(system: System) -> str:
    """Return the UUID of this node, made at the first call. Raises WritewiseError."""
    directory = state_directory()
    if os.geteuid() == 0:
        directory = private_directory(directory)
    name, machine = directory / NODE_FILE, directory / NODE_MACHINE_FILE
    kept = kept_node_id(system)
    node = kept or str(uuid.uuid4())
    if kept is None:
        write_atomically(name, f"{node}\n")
    if kept is None or _read(machine) is None:
        write_atomically(machine, f"{_hash(system, node)}\n")
    return node


def kept_node_id(system: System) -> str | None:
    """Return the UUID of this node; None if it has none yet. Raises RecordError."""
    directory = state_directory()
    node, made_for = _read(directory / NODE_FILE), _read(directory / NODE_MACHINE_FILE)
    is_of_another = node and made_for is not None and made_for != _hash(system, node)
    return None if is_of_another else node


def _read(path: Path) -> str | None:
    """Return a file's line; None without a file. Raises RecordError for a name that is no UUID."""
    if not os.path.lexists(path):
        return None
    try:
        text = _FILE.read_text(str(path), trusted=True).strip()
        if path.name == NODE_FILE and str(uuid.UUID(text)) != text:
            raise ValueError
    except UsageError as error:
        raise RecordError(error.message, error.hint) from None
    except ValueError:
        raise RecordError(f"{path} has no UUID in lower case", _FILE.hint) from None
    return text


def _hash(system: System, node: str) -> str:
    """Return a hash of the node's name and the machine's number, or `unknown`."""
    try:
        number = system.read(_MACHINE).strip()
    except HostError:
        return "unknown"
    return hashlib.sha256(f"{node} {number}".encode()).hexdigest()
