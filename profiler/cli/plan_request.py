# SPDX-License-Identifier: Apache-2.0
"""Turn the options of `writewise plan` into a plan: what is known, assumed and unknown."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field

from contracts.shared.errors import UsageError
from contracts.shared.text import printable
from contracts.shared.units import format_size
from profiler.cli.plan_live import NodeFindings, look, measured_text
from profiler.cli.plan_missing import check_known
from profiler.cli.plan_results import Swept, read
from profiler.cli.volume_arguments import (
    flag_of_the_volume,
    options_to_repeat,
    prices_from,
    volume_from,
)
from profiler.ec2.live import Balance
from profiler.report.plan import Question
from sysctl.evidence.prediction import Model
from sysctl.knobs.setting import Setting
from sysctl.volume import instances, prices, volume_types
from sysctl.volume.cheapest import VolumeSearch
from sysctl.volume.instances import Instance
from sysctl.volume.limits import GIB, Ceiling, LimitedBy
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
    """Read the options and the files, and look at the node and AWS.

    Raises UsageError, and LiveError if AWS does not answer about --volume-id.
    """
    _check_cheapest(arguments)
    swept = read(arguments.results) if arguments.results else None
    model = swept.model if swept else None
    found = look(arguments, wants_volume=_wants_volume(arguments, model))
    check_known(arguments, model, found)
    notes = _Notes(assumed=list(found.assumed))
    table = prices_from(arguments)
    notes.assumed += _elsewhere(arguments, found)
    instance = _instance(arguments, found, notes)
    volume = None if arguments.cheapest else _volume(arguments, swept, found, notes)
    notes.warnings += _gaps(table, volume)
    node = _node(arguments, model, found, instance, notes)
    size_bytes = arguments.burst or (model.burst_bytes if model else 0)
    capacity_gib = arguments.capacity.gib if arguments.capacity else None
    notes.warnings += _too_small(size_bytes, volume, capacity_gib)
    measured = found.balances.volume
    return Request(
        Pull(size_bytes, arguments.io_size, _seconds(arguments.idle)),
        node,
        volume,
        table,
        Question(
            deadline_s=_seconds(arguments.deadline),
            shows_empty=arguments.credits is None and measured is None,
            assumed=tuple(notes.assumed),
            warnings=tuple(notes.warnings),
            sources=tuple(found.sources),
            credits_from=None if measured is None else measured_text(measured),
            is_instance_live=found.instance is not None,
            options=options_to_repeat(arguments),
        ),
        capacity_gib,
    )


def _gaps(table: Prices, volume: EbsVolume | MeasuredDevice | None) -> Iterator[str]:
    """Yield which prices are missing: those that the volume needs, or all if it is to be found."""
    gaps = table.gaps()
    if isinstance(volume, MeasuredDevice):
        return
    if volume is not None:
        is_known = table.monthly_usd(volume) is not None
        gaps = () if is_known else tuple(gap for gap in gaps if gap.split()[0] == volume.type)
    if gaps:
        yield f"{table.origin} has no price of {', '.join(gaps)}"


def _too_small(
    size_bytes: int, volume: EbsVolume | MeasuredDevice | None, capacity_gib: int | None
) -> Iterator[str]:
    """Yield that the pull does not fit on the volume."""
    holds_gib = volume.size_gib if isinstance(volume, EbsVolume) else capacity_gib
    if holds_gib is not None and size_bytes > holds_gib * GIB:
        yield f"the pull of {format_size(size_bytes)} does not fit on {holds_gib:,} GiB"


def _wants_volume(arguments: argparse.Namespace, model: Model | None) -> bool:
    """Return whether a volume of this node or of AWS is to be planned. Raises UsageError."""
    if arguments.volume_id is not None:
        flag = flag_of_the_volume(arguments)
        if flag:
            raise UsageError(f"--volume-id and {flag} exclude each other", f"omit {flag}")
        return True
    return arguments.volume_type is None and model is None and not arguments.cheapest


def _elsewhere(arguments: argparse.Namespace, found: NodeFindings) -> Iterator[str]:
    """Yield that the table's prices are of another region."""
    region = arguments.region or found.node.region
    if region is not None and region != prices.REGION and arguments.prices is None:
        yield (
            f"prices are those of {prices.REGION}, not of {printable(region)}; --prices FILE has "
            "your own"
        )


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / _NS_PER_S


def _check_cheapest(arguments: argparse.Namespace) -> None:
    if not arguments.cheapest:
        if arguments.capacity:
            raise UsageError("--capacity is for --cheapest", "add --cheapest, or --volume-size")
        return
    flag = "--volume-id" if arguments.volume_id else flag_of_the_volume(arguments)
    if flag:
        raise UsageError(f"--cheapest chooses the volume, but {flag} is given", f"omit {flag}")
    if arguments.capacity is None:
        raise UsageError(
            "--cheapest needs the size that the volume must have at least",
            "add --capacity, such as --capacity 100GiB",
        )


def _instance(arguments: argparse.Namespace, found: NodeFindings, notes: _Notes) -> Instance | None:
    """Return the instance; None, with a note, if it is unknown."""
    instance = found.instance or _of_the_table(arguments, found, notes)
    if instance is not None and instance.ebs is None:
        notes.warnings.append(f"the EBS limits of {instance.name} are unknown and left out")
    return instance


def _of_the_table(
    arguments: argparse.Namespace, found: NodeFindings, notes: _Notes
) -> Instance | None:
    """Return the instance with the table's limits, and say why not with those of AWS."""
    here = found.node
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
        because = f" ({found.instance_problem.message})" if found.instance_problem else ""
        notes.warnings.append(
            f"this node's type, {printable(name)}, is not in the table of "
            f"{instances.table().as_of}: its limits are unknown{because}"
        )
        return None
    instance = instances.table().find(name)
    if found.instance_problem is not None:
        notes.assumed.append(
            f"the limits of {instance.name} are those of the table: "
            f"{found.instance_problem.message}"
        )
    return instance


def _volume(
    arguments: argparse.Namespace, swept: Swept | None, found: NodeFindings, notes: _Notes
) -> EbsVolume | MeasuredDevice:
    """Return the volume given or found, checked; else that of a sweep, or its device."""
    checked = found.volume or volume_from(arguments)
    if checked is None:
        assert swept is not None  # noqa: S101 - `check_known` saw to it
        notes.assumed.append(swept.note)
        if swept.volume is None:
            return MeasuredDevice(swept.model.device_bytes_per_s)
        checked = swept.volume
    notes.assumed += checked.notes
    if arguments.credits is not None and not volume_types.path(checked.volume).buckets:
        notes.assumed.append(
            f"this {checked.volume.type} has no credits: --credits changes nothing"
        )
    notes.warnings += checked.warnings
    return checked.volume


def _node(
    arguments: argparse.Namespace,
    model: Model | None,
    found: NodeFindings,
    instance: Instance | None,
    notes: _Notes,
) -> PullNode:
    now = found.balances
    shares = {
        LimitedBy.VOLUME: _share(arguments.credits, now.volume),
        LimitedBy.INSTANCE: _share(arguments.instance_credits, now.instance_bytes),
    }
    of_ios = {LimitedBy.INSTANCE: _share(arguments.instance_credits, now.instance_ios)}
    return PullNode(
        _source(arguments, model, instance),
        instance,
        _memory(arguments, model, instance, notes),
        {owner: share for owner, share in shares.items() if share is not None},
        {owner: share for owner, share in of_ios.items() if share is not None},
    )


def _share(given: float | None, measured: Balance | None) -> float | None:
    """Return the credits that an option gives, else those measured, else None."""
    if given is not None or measured is None:
        return given
    return measured.share


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
        if model is None:
            notes.assumed.append("the settings in force are the kernel's defaults")
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
