# SPDX-License-Identifier: Apache-2.0
"""The circumstances of a sweep on this host, and whether an earlier sweep had the same."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from contracts.shared.errors import UsageError
from profiler.ec2.node import instance_type_of_firmware
from profiler.pull.source import PullPlan
from profiler.study.node_here import node_here
from profiler.study.request import StudyRequest
from profiler.study.volume_here import VolumeHere, asked_of_aws, combined, volume_seen
from sysctl.evidence.circumstances import Circumstances, GroupLimits, Node, NodeClass
from sysctl.evidence.results import Results, load
from sysctl.host.devices import Disk, steady_values
from sysctl.host.disk_identity import disk_identity
from sysctl.host.fstab import fstab_line
from sysctl.host.limited_groups import limited_groups
from sysctl.host.mount_table import Mount
from sysctl.host.mounts import present_words
from sysctl.host.system import System
from sysctl.knobs.mount import is_tunable
from sysctl.knobs.setting import Setting
from sysctl.search.strategies import NAMES

#: Circumstances that may differ when a sweep is resumed; each trial checks memory itself.
_MAY_DIFFER = (
    "started_at",
    "version",
    "endpoint_url",
    "memory_bytes",
    "available_bytes",
    "dirtyable_bytes",
    "fstab",
    "limited_groups",
    "credits",
)
#: Circumstances that only differ if they are known both times.
_MAY_BE_UNKNOWN = ("instance", "volume", "volume_id")


def circumstances_here(
    request: StudyRequest,
    system: System,
    mount: Mount,
    disk: Disk | None,
    plan: PullPlan,
    present: Setting,
    volume: VolumeHere,
) -> Circumstances:
    """Return the circumstances of a sweep that begins now."""
    return Circumstances(
        _node_class(request, system, mount, disk, plan, present, volume),
        _node(request, system, mount, disk, volume),
    )


def resumed_results(path: Path, space: Mapping[str, Any], circumstances: Circumstances) -> Results:
    """Return the results to resume. Raises UsageError if new trials would not be comparable."""
    results = load(path, trusted=True)
    differing = circumstances.differing(results.circumstances)
    may_differ = (*_MAY_DIFFER, *_unknown(circumstances), *_unknown(results.circumstances))
    differing = [name for name in differing if name not in may_differ]
    if results.space != space:
        differing.append("values to try")
    if differing:
        raise UsageError(
            f"{path} is from a different sweep: {', '.join(differing)} differ",
            _resume_hint(results.space),
        )
    results.circumstances = _completed(results.circumstances, circumstances)
    return results


def _unknown(circumstances: Circumstances) -> list[str]:
    """Return what is not known and need not be."""
    fields = {**vars(circumstances.node_class), **vars(circumstances.node)}
    return [name for name in _MAY_BE_UNKNOWN if fields[name] is None]


def _completed(earlier: Circumstances, now: Circumstances) -> Circumstances:
    """Return the earlier circumstances, with what is known only now."""
    return Circumstances(
        replace(
            earlier.node_class,
            volume=earlier.node_class.volume or now.node_class.volume,
            instance=earlier.node_class.instance or now.node_class.instance,
        ),
        replace(earlier.node, volume_id=earlier.node.volume_id or now.node.volume_id),
    )


def _resume_hint(space: Mapping[str, Any]) -> str:
    """Return what to do with results that cannot be resumed."""
    kept = "run `writewise advise` on it as it is, or start a new sweep with another --output"
    if space.get("strategy") not in NAMES:
        return f"the strategy {space.get('strategy')} no longer exists: {kept}"
    if space.get("transfer") is True:  # today the names of the settings
        return f"an earlier version wrote it, without the transfer settings to try: {kept}"
    return "repeat the command that wrote it, or use another file with --output"


def volume_of(request: StudyRequest, disk: Disk | None) -> VolumeHere:
    """Return what is known of the volume: from the options, a lab, the node, and AWS."""
    known = combined(request.volume, volume_seen(request.destination.resolve(), disk))
    return combined(known, asked_of_aws(known, request.access.profile))


def _node_class(
    request: StudyRequest,
    system: System,
    mount: Mount,
    disk: Disk | None,
    plan: PullPlan,
    present: Setting,
    volume: VolumeHere,
) -> NodeClass:
    options, fstype = mount.all_options, mount.fstype
    limits = [group.limit_bytes for group in limited_groups(system)]
    return NodeClass(
        fstype=fstype,
        mount_options=options,
        mount_words=present_words(mount),
        mount_policy=tuple(o for o in options if o != "rw" and not is_tunable(o, fstype)),
        volume=volume.volume,
        instance=volume.instance or instance_type_of_firmware(system.path("/sys")),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        limited_groups=GroupLimits(len(limits), min(limits)) if limits else None,
        present=present.values,
        present_device=steady_values(system, disk) if disk else {},
        client=request.client.name,
        workers=request.workers or os.cpu_count(),
        transfer=str(request.transfer),
        transfer_settings=asdict(request.transfer) if request.space.transfer else None,
        objects=len(plan.objects),
        bytes=plan.bytes,
        whole_objects=plan.whole_objects,
        whole_bytes=plan.whole_bytes,
        contract=request.contract.source,
        max_at_risk_bytes=request.limits.max_at_risk_bytes,
        max_durable_s=request.limits.max_durable_s,
    )


def _node(
    request: StudyRequest, system: System, mount: Mount, disk: Disk | None, volume: VolumeHere
) -> Node:
    return replace(
        node_here(system),
        source=str(request.location),
        endpoint_url=request.access.endpoint_url,
        destination=str(request.destination.resolve()),
        device=mount.source,
        mount_target=mount.target,
        fstab=fstab_line(system, mount.target),
        disk=disk_identity(system, disk) if disk else None,
        volume_id=volume.volume_id,
        credits=volume.credits,
    )
