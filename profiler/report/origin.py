# SPDX-License-Identifier: Apache-2.0
"""Where, when and under which circumstances something was measured: a document's `measured`.

The names are those of `Circumstances.flat`, so that every document can be compared with a sweep.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler.ec2.node import instance_type_of_firmware
from profiler.study.node_here import node_here
from sysctl.evidence.circumstances import Circumstances, NodeClass
from sysctl.host.devices import disk_of, steady_values
from sysctl.host.mount_table import mount_of
from sysctl.host.mounts import present_words
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System


def origin_here(system: System | None = None) -> Mapping[str, Any]:
    """Return this host and its kernel, memory and sysctls, the time in UTC, and the version."""
    return _host(system or System()).flat()


def origin_of_pull(here: Circumstances, pull: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the same, the destination's volume, and `pull`: what is pulled, and how."""
    known = {name: value for name, value in pull.items() if value is not None}
    return {**here.flat(), **known}


def circumstances_of_pull(destination: Path, client: str | None = None) -> Circumstances:
    """Return what is known of this host, the destination's volume and the client."""
    system = System()
    host = _host(system)
    with contextlib.suppress(HostError):  # an unreadable lab, or a disk that is being removed
        host = _with_destination(host, destination, system)
    return replace(host, node_class=replace(host.node_class, client=client))


def _host(system: System) -> Circumstances:
    shared = NodeClass(
        fstype="",
        instance=instance_type_of_firmware(system.path("/sys")),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        present=read_writeback(system),
    )
    return Circumstances(shared, node_here(system))


def _with_destination(host: Circumstances, destination: Path, system: System) -> Circumstances:
    """Return the circumstances with the file system, the disk and the volume. Raises HostError."""
    from profiler.study.volume_here import volume_seen

    place = destination.resolve()
    mount = mount_of(system.mounts(), str(place))
    try:
        disk = disk_of(system, mount)
    except HostError:  # it has no disk of its own
        disk = None
    volume = volume_seen(place, disk)
    shared = replace(
        host.node_class,
        fstype=mount.fstype,
        mount_options=mount.all_options,
        mount_words=present_words(mount),
        volume=volume.volume,
        instance=volume.instance or host.node_class.instance,
        present_device=steady_values(system, disk) if disk else {},
    )
    node = replace(
        host.node,
        destination=str(place),
        device=mount.source,
        volume_id=volume.volume_id,
        credits=volume.credits,
    )
    return Circumstances(shared, node)
