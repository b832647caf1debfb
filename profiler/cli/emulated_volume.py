# SPDX-License-Identifier: Apache-2.0
"""The options of the EBS volume that the lab emulates."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, NamedTuple

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from profiler.cli import volume_arguments
from profiler.cli.argument_types import typed

if TYPE_CHECKING:
    from profiler.lab.emulated import Emulated

#: What is of no use without `--volume-type`; `--iops` also limits a volume of `--rate`.
_OF_THE_TYPE = (
    *("volume_size", "throughput", "instance_type", "time_scale", "credits", "instance_credits"),
)


class EmulatedVolume(NamedTuple):
    """The volume, and notes on how the options were read."""

    volume: Emulated
    notes: tuple[str, ...]


def _time_scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and scale >= 1):
        raise ValueError(f"invalid time scale {quoted(text)}; use a number from 1 on, such as 60")
    return scale


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Add the volume, the instance, the time scale and the credits at the start."""
    volume_arguments.add_volume(group, of_iops="provisioned IOPS; with --rate: default 3000")
    volume_arguments.add_instance_type(group)
    group.add_argument(
        "--time-scale",
        metavar="N",
        type=typed(_time_scale),
        help="divide the credit buckets by N, to empty them sooner (default: 1)",
    )
    group.add_argument(
        "--credits",
        metavar="LEVEL",
        type=volume_arguments.share,
        help="credits at the start: full (default), empty or a percentage",
    )
    volume_arguments.add_instance_credits(group)


def read(arguments: argparse.Namespace) -> EmulatedVolume | None:
    """Return the volume that the options describe; None without `--volume-type`.

    Raises UsageError for what cannot be emulated, and for options that exclude each other.
    """
    from profiler.lab.emulated import Emulated
    from sysctl.volume import instances

    if arguments.volume_type is None:
        _require_no_other(arguments)
        return None
    if arguments.rate is not None:
        raise UsageError(
            "--rate and --volume-type exclude each other: the type decides the rate",
            "omit --rate, or omit --volume-type",
        )
    if arguments.instance_credits is not None and arguments.instance_type is None:
        raise UsageError("--instance-credits needs --instance-type", "add --instance-type")
    instance = instances.table().find(arguments.instance_type) if arguments.instance_type else None
    checked = volume_arguments.volume_from(arguments)
    assert checked is not None  # noqa: S101 - it has a type
    volume = Emulated(
        checked.volume,
        instance.name if instance else None,
        arguments.time_scale or 1.0,
        1.0 if arguments.credits is None else arguments.credits,
        1.0 if arguments.instance_credits is None else arguments.instance_credits,
    )
    notes = [*checked.notes, *(f"warning: {each}" for each in checked.warnings)]
    if instance and instance.ebs is None:
        notes.append(f"warning: the EBS limits of {instance.name} are unknown and left out")
    notes += _without_effect(arguments, volume)
    return EmulatedVolume(volume, tuple(notes))


def _require_no_other(arguments: argparse.Namespace) -> None:
    for name in _OF_THE_TYPE:
        if getattr(arguments, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} needs --volume-type", "add --volume-type, such as st1")


def _without_effect(arguments: argparse.Namespace, volume: Emulated) -> list[str]:
    """Return notes on options of credits that this volume or instance does not have."""
    from sysctl.volume.limits import LimitedBy

    owners = {bucket.owner for bucket in volume.path().buckets}
    useless = {
        "--time-scale": arguments.time_scale is not None and not owners,
        "--credits": arguments.credits is not None and LimitedBy.VOLUME not in owners,
        "--instance-credits": (
            arguments.instance_credits is not None and LimitedBy.INSTANCE not in owners
        ),
    }
    return [
        f"{volume} has no such credits: {flag} changes nothing"
        for flag, is_useless in useless.items()
        if is_useless
    ]
