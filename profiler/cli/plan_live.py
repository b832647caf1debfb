# SPDX-License-Identifier: Apache-2.0
"""What `writewise plan` finds out by itself: on an EC2 node, or in AWS if it is asked to.

Elsewhere no request leaves the host: only --region, --profile and --volume-id ask AWS.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contracts.shared.errors import UsageError
from contracts.shared.text import printable, quoted
from contracts.shared.units import format_size
from profiler.ec2.aws import AwsAccess, LiveError
from profiler.ec2.live import Balance, Balances, LiveApi, is_volume_id
from profiler.ec2.mounts import Mounts, read_mounts
from profiler.ec2.node import AttachedVolume, Ec2Node, discover
from sysctl.volume import instances, volume_types
from sysctl.volume.instances import Instance
from sysctl.volume.volume_types import Checked


@dataclass
class NodeFindings:
    """What the node and AWS report. `sources` say where each figure is from, in sentences.

    `problem` is why the volume is unknown, `instance_problem` why the instance's limits are not
    those that AWS reports; None: nobody asked, or it is known.
    """

    node: Ec2Node
    mounts: Mounts
    volume: Checked | None = None
    instance: Instance | None = None
    balances: Balances = field(default_factory=Balances)
    problem: LiveError | None = None
    instance_problem: LiveError | None = None
    sources: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ChosenVolume:
    """The volume to plan, and why it is this one; or why none was chosen."""

    volume_id: str | None
    reason: str


def look(arguments: argparse.Namespace, *, wants_volume: bool) -> NodeFindings:
    """Return what can be found. Raises UsageError or LiveError for a --volume-id that fails."""
    _check_id(arguments.volume_id)
    is_asked = bool(arguments.region or arguments.profile or arguments.volume_id)
    needs_node = is_asked or wants_volume or arguments.instance_type is None
    found = NodeFindings(discover() if needs_node else Ec2Node(), read_mounts())
    if not (is_asked or found.node.is_ec2):
        return found
    region = arguments.region or found.node.region
    api = LiveApi(AwsAccess(region, arguments.profile, found.node.is_ec2))
    name = arguments.instance_type or found.node.instance_type
    if name is not None:
        _find_instance(found, api, name.lower())  # as the table is read
    if wants_volume:
        _find_volume(found, api, _choice(arguments, found), arguments)
    if name is None and not wants_volume:
        found.assumed.append("nothing was looked up in AWS: add --instance-type or --volume-id")
    return found


def _check_id(volume_id: str | None) -> None:
    if volume_id is not None and not is_volume_id(volume_id):
        raise UsageError(
            f"invalid volume id {quoted(volume_id)}", "ids look like vol-0123456789abcdef0"
        )


def _choice(arguments: argparse.Namespace, found: NodeFindings) -> ChosenVolume:
    """Return the volume asked for; else this node's only one, or that of the current directory.

    The root volume is not chosen while there are others: who has a second volume pulls to it.
    """
    if arguments.volume_id is not None:
        return ChosenVolume(arguments.volume_id, "named by --volume-id")
    attached = found.node.volumes
    if not attached:
        return ChosenVolume(None, "no NVMe disk of this node is an EBS volume")
    if len(attached) == 1:
        return ChosenVolume(attached[0].volume_id, "the only EBS volume of this node")
    here = found.mounts.disks(_current_directory()) - found.mounts.disks("/")
    held = [each for each in attached if each.disk in here]
    if len(held) == 1 and len(here) == 1:
        return ChosenVolume(held[0].volume_id, "which holds the current directory")
    return ChosenVolume(
        None,
        f"this node has {len(attached)} EBS volumes; --volume-id chooses one, or run this in a "
        "directory on it",
    )


def _current_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was deleted
        return "/"


def volume_line(volume: AttachedVolume, mounts: Mounts) -> str:
    """Return `vol-0123 (nvme1n1, 500 GiB, mounted at /data)`."""
    targets = mounts.targets(volume.disk)
    at = f", mounted at {printable(targets[0])}" if targets else ""
    return f"{volume.volume_id} ({volume.disk}, {format_size(volume.size_bytes)}{at})"


def _find_instance(found: NodeFindings, api: LiveApi, name: str) -> None:
    try:
        found.instance = api.instance(name)
    except LiveError as error:
        found.instance_problem = error
        return
    whose = ", the type of this node" if found.node.instance_type == name else ""
    found.sources.append(f"limits of {found.instance.name}{whose} (ec2:DescribeInstanceTypes)")


def _find_volume(
    found: NodeFindings, api: LiveApi, choice: ChosenVolume, arguments: argparse.Namespace
) -> None:
    """Look a volume up and its credits. Raises LiveError if --volume-id names it."""
    if choice.volume_id is None:
        found.problem = LiveError(choice.reason)
        return
    try:
        volume = api.volume(choice.volume_id)
    except LiveError as error:
        named = "" if choice.volume_id in error.message else f"{choice.volume_id}: "
        found.problem = LiveError(f"{named}{error.message}", error.hint)
        if arguments.volume_id is not None:
            raise found.problem from None
        return
    found.volume = volume_types.check(volume, exists=True)
    found.sources.append(f"{choice.volume_id}, {choice.reason} (ec2:DescribeVolumes)")
    _find_balances(found, api, choice.volume_id, arguments)


def _find_balances(
    found: NodeFindings, api: LiveApi, volume_id: str, arguments: argparse.Namespace
) -> None:
    """Ask for the credits that exist and that no option gives."""
    assert found.volume is not None  # noqa: S101 - `_find_volume` saw to it
    has_credits = bool(volume_types.path(found.volume.volume).buckets)
    of_volume = volume_id if has_credits and arguments.credits is None else None
    of_instance = _instance_with_credits(found, volume_id, arguments)
    try:
        found.balances = api.balances(of_volume, of_instance)
    except LiveError as error:
        found.assumed.append(f"credits are full, since they are unknown: {error.message}")
        return
    now = found.balances
    if of_volume and now.volume is None:
        found.assumed.append(_unmeasured("BurstBalance", of_volume))
    if of_instance and now.instance_bytes is None and now.instance_ios is None:
        found.assumed.append(_unmeasured("EBSByteBalance%", "this instance"))
    found.sources += _balance_texts(now)


def _instance_with_credits(
    found: NodeFindings, volume_id: str, arguments: argparse.Namespace
) -> str | None:
    """Return this instance's id, if it has the volume, and credits that no option gives."""
    is_here = any(each.volume_id == volume_id for each in found.node.volumes)
    is_given = arguments.instance_type is not None or arguments.instance_credits is not None
    instance = found.instance or instances.table().by_name.get(found.node.instance_type or "")
    has_credits = instance is not None and bool(instances.path(instance).buckets)
    return found.node.instance_id if is_here and has_credits and not is_given else None


def _unmeasured(metric: str, owner: str) -> str:
    return f"credits are full: CloudWatch has no {metric} of {owner} of the last hour"


def _balance_texts(balances: Balances) -> Iterator[str]:
    named = (
        ("the volume's credits", balances.volume),
        ("the instance's credits of bytes", balances.instance_bytes),
        ("the instance's credits of I/Os", balances.instance_ios),
    )
    for name, balance in named:
        if balance is not None:
            yield f"{name} {100 * balance.share:.3g} % ({measured_text(balance)})"


def measured_text(balance: Balance) -> str:
    """Return `CloudWatch, 16:05 UTC`."""
    return f"CloudWatch, {balance.measured_at:%H:%M} UTC"
