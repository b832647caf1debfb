# SPDX-License-Identifier: Apache-2.0
"""The circumstances of a sweep: what the node shares with its class, and what is its own.

The nodes of a class pull the same objects with the same client to volumes of the same kind, so a
result of one node holds for the others.

- *class*: a node with another value would give another result (the instance type, the kernel, the
  file system and its options, the limits of control groups, the client), or it is an option of the
  sweep (the contract, the limits);
- *node*: the host, the volume, the destination, the time, and the amount of memory. Ratios are
  shares of that memory, so each run records it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sysctl.change.recommendation import DiskIdentity, FstabLine
from sysctl.evidence.checks import share, share_or_time, whole, whole_or_none, words
from sysctl.knobs.writeback import PAGE_BYTES


@dataclass(frozen=True)
class GroupLimits:
    """The number of control groups with a memory limit of their own, and the smallest limit."""

    count: int
    smallest_bytes: int


@dataclass(frozen=True)
class KnownVolume:
    """The EBS volume of the destination: its type, size, provisioned IOPS and throughput (MiB/s).

    None: unknown, or the type does not offer the choice.
    """

    type: str | None = None
    size_gib: int | None = None
    iops: int | None = None
    mib_per_s: float | None = None


@dataclass(frozen=True)
class Credits:
    """The volume's credits at the start of the sweep, in percent, and the source of the figure."""

    percent: float
    source: str


@dataclass(frozen=True)
class NodeClass:
    """What the nodes of a class have in common; None, 0 and empty mappings mean unknown.

    `mount_options` are all options of the mount, `mount_words` the tunable ones, `mount_policy`
    those that stay (`nosuid`). `volume` is the EBS volume, `instance` the type of the EC2 instance.
    `present` are the write-back sysctls in force, `present_device` the knobs of the disk. `workers`
    is the number of worker processes; `transfer` has the transfer settings as text,
    `transfer_settings` as values if the sweep varied some. `objects` and `bytes` are of one pull;
    `whole_objects` and `whole_bytes` are of the prefix if only a sample of it was pulled, else 0.
    `contract` is the name of the pull's contract. `max_at_risk_bytes` and `max_durable_s` are the
    limits of the sweep.
    """

    fstype: str
    mount_options: tuple[str, ...] = ()
    mount_words: tuple[str, ...] = ()
    mount_policy: tuple[str, ...] = ()
    volume: KnownVolume | None = None
    instance: str | None = None
    kernel: str | None = None
    cpus: int | None = None
    limited_groups: GroupLimits | None = None
    present: Mapping[str, int] = field(default_factory=dict)
    present_device: Mapping[str, str] = field(default_factory=dict)
    client: str | None = None
    workers: int | None = None
    transfer: str | None = None
    transfer_settings: Mapping[str, int] | None = None
    objects: int = 0
    bytes: int = 0
    whole_objects: int = 0
    whole_bytes: int = 0
    contract: str | None = None
    max_at_risk_bytes: int | None = None
    max_durable_s: float | None = None


@dataclass(frozen=True)
class Node:
    """One node and its sweep; None and a `memory_bytes` of 0 mean unknown.

    `memory_bytes` is all memory of the host; `available_bytes`, and `dirtyable_bytes` as a part of
    it, are from the start of the sweep. `endpoint_url` is the option of the sweep, None for AWS's
    own. `device` is mounted on `mount_target`; `disk` is the disk below it, `volume_id` its EBS
    volume (`vol-…`), and `credits` are the volume's.
    """

    available_bytes: int
    dirtyable_bytes: int
    memory_bytes: int = 0
    host: str | None = None
    started_at: str | None = None
    version: str | None = None
    source: str | None = None
    endpoint_url: str | None = None
    destination: str | None = None
    device: str | None = None
    mount_target: str | None = None
    fstab: FstabLine | None = None
    disk: DiskIdentity | None = None
    volume_id: str | None = None
    credits: Credits | None = None


@dataclass(frozen=True)
class Circumstances:
    """The class and the node of a sweep."""

    node_class: NodeClass
    node: Node

    def differing(self, other: Circumstances) -> list[str]:
        """Return the names of the fields that differ."""
        pairs = ((self.node_class, other.node_class), (self.node, other.node))
        return [
            name for one, two in pairs for name in vars(one) if vars(one)[name] != vars(two)[name]
        ]

    def flat(self) -> dict[str, Any]:
        """Return what is known in one object, for reports and comparisons with other measurements.

        The values are texts and numbers; only `sysctls` and `knobs`, those in force, are objects.
        """
        shared, node = self.node_class, self.node
        volume, groups = shared.volume or KnownVolume(), shared.limited_groups
        fields = {
            "host": node.host,
            "kernel": shared.kernel,
            "started_at": node.started_at,
            "version": node.version,
            "instance": shared.instance,
            "cpus": shared.cpus,
            "memory_bytes": node.memory_bytes,
            "available_bytes": node.available_bytes,
            "dirtyable_bytes": node.dirtyable_bytes,
            "limited_groups": groups.count if groups else None,
            "smallest_group_bytes": groups.smallest_bytes if groups else None,
            "volume_type": volume.type,
            "volume_gib": volume.size_gib,
            "volume_iops": volume.iops,
            "volume_mib_per_s": volume.mib_per_s,
            "volume_id": node.volume_id,
            "credits_percent": node.credits.percent if node.credits else None,
            "device": node.device,
            "fstype": shared.fstype,
            "mount_options": ",".join(shared.mount_options),
            "source": node.source,
            "endpoint_url": node.endpoint_url,
            "destination": node.destination,
            "client": shared.client,
            "workers": shared.workers,
            "transfer": shared.transfer,
            "contract": shared.contract,
            "sysctls": dict(shared.present),
            "knobs": dict(shared.present_device),
        }
        known = {name: value for name, value in fields.items() if value not in (None, "", {})}
        if not node.memory_bytes:
            known.pop("memory_bytes")
        return known

    def to_json(self) -> dict[str, Any]:
        """Return the document for the results file."""
        return {"class": asdict(self.node_class), "node": asdict(self.node)}


def circumstances_from_json(data: Mapping[str, Any]) -> Circumstances:
    """Parse a document of `to_json`. Raises KeyError, TypeError, ValueError or AttributeError."""
    return Circumstances(_node_class(data["class"]), _node(data["node"]))


def circumstances_of(context: Mapping[str, Any]) -> Circumstances:
    """Parse the `context` of files of versions 2 and 3, which has all fields in one object."""
    return Circumstances(_node_class(context), _node(context))


def _node_class(data: Mapping[str, Any]) -> NodeClass:
    options, tunable, policy = (
        words(data[name], name) for name in ("mount_options", "mount_words", "mount_policy")
    )
    groups, durable_s = data.get("limited_groups"), data.get("max_durable_s")
    return NodeClass(
        fstype=str(data["fstype"]),
        mount_options=options,
        mount_words=tunable,
        mount_policy=policy,
        volume=_volume(data.get("volume")),
        instance=_text(data.get("instance")),
        kernel=_text(data.get("kernel")),
        cpus=_count(data.get("cpus")),
        limited_groups=None if groups is None else _group_limits(groups),
        present=_numbers(data.get("present")) or {},
        present_device={str(k): str(v) for k, v in data.get("present_device", {}).items()},
        client=_text(data.get("client")),
        workers=_count(data.get("workers")),
        transfer=_text(data.get("transfer")),
        transfer_settings=_numbers(data.get("transfer_settings")),
        objects=whole(data.get("objects", 0)),
        bytes=whole(data.get("bytes", 0)),
        whole_objects=whole(data.get("whole_objects", 0)),
        whole_bytes=whole(data.get("whole_bytes", 0)),
        contract=_text(data.get("contract")),
        max_at_risk_bytes=whole_or_none(data.get("max_at_risk_bytes")),
        max_durable_s=None if durable_s is None else share_or_time(durable_s),
    )


def _node(data: Mapping[str, Any]) -> Node:
    if whole(data["dirtyable_bytes"]) < PAGE_BYTES:
        raise ValueError("dirtyable_bytes is too small")
    fstab, disk = data.get("fstab"), data.get("disk")
    return Node(
        available_bytes=whole(data["available_bytes"]),
        dirtyable_bytes=data["dirtyable_bytes"],
        memory_bytes=whole(data.get("memory_bytes", 0)),
        host=_text(data.get("host")),
        started_at=_text(data.get("started_at")),
        version=_text(data.get("version")),
        source=_text(data.get("source")),
        endpoint_url=_text(data.get("endpoint_url")),
        destination=_text(data.get("destination")),
        device=_text(data.get("device")),
        mount_target=_text(data.get("mount_target")),
        fstab=None if fstab is None else _fstab_line(fstab),
        disk=_disk(disk) if isinstance(disk, dict) and disk else None,
        volume_id=_text(data.get("volume_id")),
        credits=_credits(data.get("credits")),
    )


def _fstab_line(data: Mapping[str, Any]) -> FstabLine:
    return FstabLine(
        source=str(data["source"]),
        fstype=str(data["fstype"]),
        options=words(data["options"], "fstab.options"),
        dump=whole(data["dump"]),
        check=whole(data["check"]),
    )


def _disk(data: Mapping[str, Any]) -> DiskIdentity:
    name, wwid, serial = (_text(data.get(key)) for key in ("name", "wwid", "serial"))
    return DiskIdentity(name or "", wwid, serial)


def _volume(data: Mapping[str, Any] | None) -> KnownVolume | None:
    """Return the volume; None from files of earlier versions, which do not have it."""
    if data is None:
        return None
    mib_per_s = data.get("mib_per_s")
    return KnownVolume(
        _text(data.get("type")),
        whole_or_none(data.get("size_gib")),
        whole_or_none(data.get("iops")),
        None if mib_per_s is None else share_or_time(mib_per_s),
    )


def _credits(data: Mapping[str, Any] | None) -> Credits | None:
    if data is None:
        return None
    share(data["percent"] / 100)
    return Credits(float(data["percent"]), str(data["source"]))


def _group_limits(data: Mapping[str, Any]) -> GroupLimits:
    return GroupLimits(whole(data["count"]), whole(data["smallest_bytes"]))


def _text(value: object) -> str | None:
    return str(value) if value else None


def _count(value: object) -> int | None:
    """Return a number for display only; None if it is invalid."""
    return value if isinstance(value, int) and value > 0 else None


def _numbers(data: object) -> dict[str, int] | None:
    if not isinstance(data, dict):
        return None
    return {str(name): whole(value) for name, value in data.items()}
