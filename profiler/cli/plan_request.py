# SPDX-License-Identifier: Apache-2.0
"""Turn the options of `writewise plan` into a plan: what is known, assumed and unknown."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.units import format_size
from profiler.cli.volume_arguments import flag_of_the_volume, prices_from, volume_from
from profiler.ec2.node import Ec2Node, discover
from profiler.report.plan import Question
from sysctl.evidence.prediction import Model, fit
from sysctl.evidence.results import load
from sysctl.evidence.runs import Runs
from sysctl.knobs.setting import Setting
from sysctl.volume import instances, volume_types
from sysctl.volume.cheapest import VolumeSearch
from sysctl.volume.instances import Instance
from sysctl.volume.limits import Ceiling, LimitedBy
from sysctl.volume.planning import MeasuredDevice, Plan, Pull, PullNode
from sysctl.volume.prices import Prices
from sysctl.volume.volume_types import EbsVolume
from sysctl.volume.write_back import DEFAULT, Memory

#: The kernel, the programs and the reserves of zones take about a sixteenth of a node's memory.
_DIRTYABLE_SHARE = 15 / 16
_NS_PER_S = 10**9


@dataclass(frozen=True)
class Request:
    """What to plan; `volume` is None with `--cheapest`."""

    pull: Pull
    node: PullNode
    volume: EbsVolume | MeasuredDevice | None
    prices: Prices
    asked: Question
    capacity_gib: int | None

    def plan(self) -> Plan:
        """Return the plan of one volume."""
        assert self.volume is not None  # noqa: S101 - `request_from` saw to it
        return Plan(self.pull, self.node, self.volume, self.prices)

    def wanted(self) -> VolumeSearch:
        """Return what `--cheapest` has to find."""
        assert self.capacity_gib is not None  # noqa: S101 - `request_from` saw to it
        return VolumeSearch(
            self.pull, self.node, self.prices, self.capacity_gib, self.asked.deadline_s
        )


@dataclass
class _Notes:
    """Notes for the reader on how the options were read."""

    assumed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def request_from(arguments: argparse.Namespace) -> Request:
    """Read the options, the files and, on an EC2 node, the metadata. Raises UsageError."""
    _check_cheapest(arguments)
    model = fit(Runs.of(load(arguments.results))) if arguments.results else None
    here = discover() if arguments.instance_type is None else Ec2Node()
    _check_known(arguments, model, here)
    notes = _Notes()
    table = prices_from(arguments)
    notes.warnings += [f"{table.origin} has no price of {gap}" for gap in table.gaps()]
    instance = _instance(arguments, here, notes)
    volume = None if arguments.cheapest else _volume(arguments, model, notes)
    node = _node(arguments, model, instance, notes)
    size_bytes = arguments.burst or (model.burst_bytes if model else 0)
    return Request(
        Pull(size_bytes, arguments.io_size, _seconds(arguments.idle)),
        node,
        volume,
        table,
        Question(
            deadline_s=_seconds(arguments.deadline),
            shows_empty=arguments.credits is None,
            assumed=tuple(notes.assumed),
            warnings=tuple(notes.warnings),
        ),
        arguments.capacity.gib if arguments.capacity else None,
    )


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / _NS_PER_S


def _check_cheapest(arguments: argparse.Namespace) -> None:
    if not arguments.cheapest:
        if arguments.capacity:
            raise UsageError("--capacity is for --cheapest", "add --cheapest, or --volume-size")
        return
    flag = flag_of_the_volume(arguments)
    if flag:
        raise UsageError(f"--cheapest chooses the volume, but {flag} is given", f"omit {flag}")
    if arguments.capacity is None:
        raise UsageError(
            "--cheapest needs the size that the volume must have at least",
            "add --capacity, such as --capacity 100GiB",
        )


def _check_known(arguments: argparse.Namespace, model: Model | None, here: Ec2Node) -> None:
    """Raise UsageError if there is nothing to plan; its hint says where to find each figure."""
    missing = {}
    if arguments.burst is None and model is None:
        missing["the size of the pull"] = "--burst SIZE, or --results FILE of a sweep"
    if arguments.volume_type is None and model is None and not arguments.cheapest:
        missing["the volume's type"] = "--volume-type with --volume-size, or --cheapest"
    if not missing:
        return
    hints = [f"{what}: {remedy}" for what, remedy in missing.items()]
    raise UsageError(
        f"a plan needs {' and '.join(missing)}", "\n    ".join([*hints, *_where(arguments, here)])
    )


def _where(arguments: argparse.Namespace, here: Ec2Node) -> Iterator[str]:
    """Yield what this host reports about itself, and where to find the rest."""
    for volume in here.volumes:
        size = format_size(volume.size_bytes)
        yield f"found on this node: {volume.volume_id} ({volume.disk}, {size})"
    if here.instance_type:
        yield f"found on this node: instance type {printable(here.instance_type)}"
    if here.problem:
        yield f"the instance type is unknown, because {here.problem}: --instance-type"
    if arguments.volume_type is None and not arguments.cheapest:
        volume_id = here.volumes[0].volume_id if here.volumes else "vol-…"
        yield (
            "type, IOPS and throughput of a volume are not on the node: "
            f"`aws ec2 describe-volumes --volume-ids {volume_id}` (IAM: ec2:DescribeVolumes)"
        )
        yield (
            "credits now: BurstBalance of AWS/EBS in CloudWatch (IAM: cloudwatch:GetMetricData), "
            "for --credits"
        )
    if not here.is_ec2 and arguments.instance_type is None:
        yield "this host is not an EC2 instance: --instance-type, for the instance's limits"


def _instance(arguments: argparse.Namespace, here: Ec2Node, notes: _Notes) -> Instance | None:
    """Return the instance; None, with a note, if it is unknown."""
    name = arguments.instance_type or here.instance_type
    if name is None:
        if arguments.instance_credits is not None:
            raise UsageError("--instance-credits needs --instance-type", "add --instance-type")
        why = f" ({here.problem})" if here.problem else ""
        what = "instance's EBS limits" if arguments.results else "instance and its network"
        notes.assumed.append(
            f"the {what} are unknown{why} and taken to be fast enough; add --instance-type"
        )
        return None
    if arguments.instance_type is None and name not in instances.table().by_name:
        notes.warnings.append(
            f"this node's type, {printable(name)}, is not in the table of "
            f"{instances.table().as_of}: its limits are unknown"
        )
        return None
    instance = instances.table().find(name)
    if instance.ebs is None:
        notes.warnings.append(f"the EBS limits of {instance.name} are unknown and left out")
    return instance


def _volume(
    arguments: argparse.Namespace, model: Model | None, notes: _Notes
) -> EbsVolume | MeasuredDevice:
    """Return the volume given, checked; without one the device that a sweep measured."""
    checked = volume_from(arguments)
    if checked is None:
        assert model is not None  # noqa: S101 - `_check_known` saw to it
        notes.assumed.append(
            "the volume is the device that the sweep measured; its type and its credits are "
            "unknown: add --volume-type and --volume-size"
        )
        return MeasuredDevice(model.device_bytes_per_s)
    notes.assumed += checked.notes
    if arguments.credits is not None and not volume_types.path(checked.volume).buckets:
        notes.assumed.append(
            f"this {checked.volume.type} has no credits: --credits changes nothing"
        )
    notes.warnings += checked.warnings
    return checked.volume


def _node(
    arguments: argparse.Namespace, model: Model | None, instance: Instance | None, notes: _Notes
) -> PullNode:
    given = {
        LimitedBy.VOLUME: arguments.credits,
        LimitedBy.INSTANCE: arguments.instance_credits,
    }
    return PullNode(
        _source(arguments, model, instance),
        instance,
        _memory(arguments, model, instance, notes),
        {owner: share for owner, share in given.items() if share is not None},
    )


def _source(
    arguments: argparse.Namespace, model: Model | None, instance: Instance | None
) -> Ceiling | None:
    """Return the lower one of the network's rate and the measured one; None if none is known."""
    known = []
    if instance is not None:
        network = instance.network_bytes_per_s(is_bursting=arguments.network == "burst")
        if network is not None:
            known.append(Ceiling(LimitedBy.NETWORK, network))
    if model is not None:
        known.append(Ceiling(LimitedBy.SOURCE, model.source_bytes_per_s))
    return min(known, key=lambda each: each.bytes_per_s) if known else None


def _memory(
    arguments: argparse.Namespace, model: Model | None, instance: Instance | None, notes: _Notes
) -> Memory | None:
    """Return the memory that can be dirtied, and the settings in force; None if unknown."""
    current = Setting(tuple(sorted(model.present.items()))) if model else DEFAULT
    if arguments.memory is not None:
        return Memory(arguments.memory, current)
    if model is not None:
        return Memory(model.dirtyable_bytes, current)
    if instance is None:
        return None
    dirtyable_bytes = round(instance.memory_bytes * _DIRTYABLE_SHARE)
    notes.assumed.append(
        f"{format_size(dirtyable_bytes)} of memory can be dirtied, 15/16 of the instance's "
        "(--memory); the settings in force are the kernel's defaults"
    )
    return Memory(dirtyable_bytes, current)
