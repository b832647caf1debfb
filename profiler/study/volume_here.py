# SPDX-License-Identifier: Apache-2.0
"""The EBS volume of a sweep: from the options, the lab that emulates it, this node, or AWS.

AWS is asked only on an EC2 node, and only for what the options do not say. A request that fails is
one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from contracts.shared.errors import WritewiseError
from profiler.ec2.aws import AwsAccess
from profiler.ec2.live import LiveApi
from profiler.ec2.node import AttachedVolume, discover, ebs_volumes
from profiler.lab import lab
from profiler.lab.emulated import Emulated
from profiler.lab.follower import CreditsNow
from sysctl.evidence.circumstances import Credits, KnownVolume
from sysctl.host.devices import Disk
from sysctl.volume import volume_types
from sysctl.volume.limits import GIB, LimitedBy
from sysctl.volume.volume_types import EbsVolume

#: The sources of credits, as the report names them.
FROM_OPTION, FROM_LAB = "--credits", "the lab"


@dataclass(frozen=True)
class VolumeHere:
    """A volume, its id, the instance type and the credits; None: unknown.

    `notes` are sentences on how options were read and what could not be found out.
    """

    volume: KnownVolume | None = None
    volume_id: str | None = None
    instance: str | None = None
    credits: Credits | None = None
    notes: tuple[str, ...] = ()


def of_options(
    volume: EbsVolume | None,
    instance: str | None,
    credits: float | None,
    notes: tuple[str, ...] = (),
) -> VolumeHere:
    """Return what the options say; `credits` is a share, 0 to 1."""
    return VolumeHere(
        volume=as_known(volume) if volume else None,
        instance=instance,
        credits=None if credits is None else Credits(100 * credits, FROM_OPTION),
        notes=notes,
    )


def of_lab(emulated: Emulated | None, now: CreditsNow | None) -> VolumeHere:
    """Return what a lab emulates, with its present credits; nothing without an EBS volume."""
    if emulated is None:
        return VolumeHere()
    owner = LimitedBy.VOLUME.value
    levels = (
        [each.level / each.capacity for each in now.buckets if each.owner == owner] if now else []
    )
    return VolumeHere(
        volume=as_known(emulated.volume),
        instance=emulated.instance_type,
        credits=Credits(100 * min(levels), FROM_LAB) if levels else None,
    )


def of_node(disk: str | None, attached: Callable[[], list[AttachedVolume]]) -> VolumeHere:
    """Return what the node shows of the volume that is the disk of that name: id and size."""
    for each in attached():
        if each.disk == disk:
            return VolumeHere(KnownVolume(size_gib=each.size_bytes // GIB or None), each.volume_id)
    return VolumeHere()


def volume_seen(destination: Path, disk: Disk | None) -> VolumeHere:
    """Return what a lab or the node shows of the volume, without a request to AWS."""
    present = lab.at(destination)
    if present is not None:
        return of_lab(present.spec.emulated, lab.credits_now(present))
    return of_node(disk.name if disk else None, attached_here)


def asked_of_aws(
    known: VolumeHere, profile: str | None, make_api: Callable[[AwsAccess], LiveApi] = LiveApi
) -> VolumeHere:
    """Return what AWS knows of a node's volume that is not known yet; nothing without its id.

    After the first request that fails no other is sent.
    """
    if known.volume_id is None or (known.volume and known.volume.type and known.credits):
        return VolumeHere()
    node = discover()
    api = make_api(AwsAccess(node.region, profile, is_on_ec2=node.is_ec2))
    found = VolumeHere()
    try:
        volume = _planned(known.volume) or api.volume(known.volume_id)
        found = VolumeHere(as_known(volume))
        if (
            known.credits
            or not volume_types.path(volume_types.check(volume, exists=True).volume).buckets
        ):
            return found
        balance = api.balances(known.volume_id, None).volume
    except WritewiseError as error:
        return replace(found, notes=(_unknown(known.volume_id, error),))
    if balance is None:
        note = f"CloudWatch has no credits of {known.volume_id} of the last hour."
        return replace(found, notes=(note,))
    source = f"CloudWatch, {balance.measured_at:%Y-%m-%d %H:%M} UTC"
    return replace(found, credits=Credits(100 * balance.share, source))


def _planned(volume: KnownVolume | None) -> EbsVolume | None:
    if volume is None or volume.type is None:
        return None
    return EbsVolume(volume.type, volume.size_gib, volume.iops, volume.mib_per_s)


def _unknown(volume_id: str, error: WritewiseError) -> str:
    return (
        f"AWS did not say all about {volume_id}, because {error.message}. --volume-type and "
        "--credits supply it."
    )


def attached_here() -> list[AttachedVolume]:
    """Return the EBS volumes that are attached to this node."""
    return list(ebs_volumes(Path("/sys")))


def as_known(volume: EbsVolume) -> KnownVolume:
    """Return a volume as the results have it."""
    return KnownVolume(volume.type, volume.size_gib, volume.iops, volume.mib_per_s)


def combined(first: VolumeHere, second: VolumeHere) -> VolumeHere:
    """Return what the first knows, and of the rest what the second knows.

    Of a volume with a type only the size is completed: the rest follows from what was given.
    """
    volume = first.volume or second.volume
    if first.volume and second.volume:
        if first.volume.type is None:
            volume = second.volume
        size_gib = first.volume.size_gib or second.volume.size_gib
        volume = replace(volume or first.volume, size_gib=size_gib)
    return VolumeHere(
        volume,
        first.volume_id or second.volume_id,
        first.instance or second.instance,
        first.credits or second.credits,
        (*first.notes, *second.notes),
    )
