# SPDX-License-Identifier: Apache-2.0
"""The options of a volume, and their values: GiB, MiB/s and shares of credits, as in AWS.

A bare number has AWS's unit: `--volume-size 500` is 500 GiB, `--throughput 125` is 125 MiB/s. The
report says so.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from contracts.shared import units
from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from profiler.cli import argument_types as types
from profiler.cli.argument_types import typed
from profiler.cli.parser import rare

if TYPE_CHECKING:
    from sysctl.volume.prices import Prices
    from sysctl.volume.volume_types import Checked

_OF_THE_VOLUME = ("volume_type", "volume_size", "iops", "throughput")
_GIB, _MIB = 2**30, 2**20
_SHARES = {"full": 1.0, "empty": 0.0}


class Gib(NamedTuple):
    """A size in whole GiB, and how it was read if that differs from the text."""

    gib: int
    note: str | None = None


class Throughput(NamedTuple):
    """A throughput in MiB/s, and how it was read if that differs from the text."""

    mib_per_s: float
    note: str | None = None


def _is_bare(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii()


def _gib(text: str) -> Gib:
    size_bytes = units.parse_size_bytes(f"{text}GiB" if _is_bare(text) else text)
    if size_bytes < 1:
        raise ValueError(f"invalid size {quoted(text)}; it must be more than 0")
    gib = -(-size_bytes // _GIB)
    if _is_bare(text):
        return Gib(gib, f"{text} is taken as {gib:,} GiB, as AWS does")
    rounded = f"{text} is rounded up to {gib:,} GiB: volumes have whole GiB"
    return Gib(gib, rounded if gib * _GIB != size_bytes else None)


def _throughput(text: str) -> Throughput:
    amount = text[:-2] if text.endswith("/s") else text
    size_bytes = units.parse_size_bytes(f"{amount}MiB" if _is_bare(amount) else amount)
    if size_bytes < 1:
        raise ValueError(f"invalid throughput {quoted(text)}; it must be more than 0")
    note = f"{text} is taken as {text} MiB/s, as AWS does" if _is_bare(text) else None
    return Throughput(size_bytes / _MIB, note)


def _share(text: str) -> float:
    if text in _SHARES:
        return _SHARES[text]
    number = text[:-1] if text.endswith("%") else text
    if not _is_bare(number) or float(number) > 100:
        raise ValueError(
            f"invalid credits {quoted(text)}; use full, empty or a percentage: 0 to 100"
        )
    return float(number) / 100


#: Of a volume: `500`, `500GiB`, `1T`.
gib = typed(_gib)
#: Of a volume: `125`, `125MiB`, `125MiB/s`.
throughput = typed(_throughput)
#: Of a bucket, from 0 to 1: `full`, `empty`, `35`, `35%`.
share = typed(_share)


def add_volume(
    group: argparse._ActionsContainer, *, is_rare: bool = False, of_iops: str = "provisioned IOPS"
) -> None:
    """Add the type, the size, the IOPS and the throughput of a volume."""
    actions = (
        group.add_argument("--volume-type", metavar="TYPE", help="gp2, gp3, io1, io2, st1 or sc1"),
        group.add_argument("--volume-size", metavar="SIZE", type=gib, help="size, in GiB"),
        group.add_argument("--iops", metavar="N", type=types.count, help=of_iops),
        group.add_argument(
            "--throughput",
            metavar="RATE",
            type=throughput,
            help="provisioned throughput, in MiB/s",
        ),
    )
    for action in actions if is_rare else ():
        rare(action)


def add_credits(group: argparse._ActionsContainer, otherwise: str = "") -> argparse.Action:
    """Add the credits at the start, and return the option."""
    return group.add_argument(
        "--credits",
        metavar="LEVEL",
        type=share,
        help=f"credits at the start: full, empty or a percentage{otherwise}",
    )


def add_instance_type(group: argparse._ActionsContainer) -> argparse.Action:
    """Add the instance type, and return the option."""
    return group.add_argument("--instance-type", metavar="TYPE", help="such as m5.large")


def add_instance_credits(group: argparse._ActionsContainer) -> None:
    """Add the instance's credits at the start."""
    rare(
        group.add_argument(
            "--instance-credits",
            metavar="LEVEL",
            type=share,
            help="EBS credits of the instance at the start: full (default), empty or a percentage",
        )
    )


def add_prices(group: argparse._ActionsContainer) -> None:
    """Add the file of prices."""
    rare(
        group.add_argument(
            "--prices", metavar="FILE", type=types.file, help="prices in YAML or JSON"
        )
    )


def flag_of_the_volume(arguments: argparse.Namespace) -> str | None:
    """Return the first option given that describes the volume; None if there is none."""
    given = (name for name in _OF_THE_VOLUME if getattr(arguments, name) is not None)
    return next((f"--{name.replace('_', '-')}" for name in given), None)


def volume_from(arguments: argparse.Namespace) -> Checked | None:
    """Return the volume that the options describe, with notes on how they were read.

    None if no option describes it. Raises UsageError for a volume that AWS would refuse.
    """
    from dataclasses import replace

    from sysctl.volume import volume_types
    from sysctl.volume.volume_types import EbsVolume

    if arguments.volume_type is None:
        flag = flag_of_the_volume(arguments)
        if flag:
            raise UsageError(f"{flag} needs --volume-type", "add --volume-type")
        return None
    size, rate = arguments.volume_size, arguments.throughput
    notes = [f"--volume-size {size.note}"] if size and size.note else []
    notes += [f"--throughput {rate.note}"] if rate and rate.note else []
    checked = volume_types.check(
        EbsVolume(
            arguments.volume_type.lower(),
            size.gib if size else None,
            arguments.iops,
            rate.mib_per_s if rate else None,
        )
    )
    return replace(checked, notes=(*notes, *checked.notes))


def prices_from(arguments: argparse.Namespace) -> Prices:
    """Return the prices of `--prices`, else those that are part of Writewise."""
    from sysctl.volume import prices

    return prices.load(str(arguments.prices)) if arguments.prices else prices.us_east_1()


def options_to_repeat(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return those options of `plan` that decide its figures and that a plan does not have."""
    words: list[str] = []
    for name in ("results", "prices"):
        path = getattr(arguments, name)
        words += [f"--{name}", str(Path(path).absolute())] if path else []
    for name in ("credits", "instance_credits"):
        level = getattr(arguments, name)
        words += [] if level is None else [f"--{name.replace('_', '-')}", _level(level)]
    words += ["--memory", units.exact_size(arguments.memory)] if arguments.memory else []
    for name in ("region", "profile"):
        words += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    return tuple(words)


def _level(share: float) -> str:
    return {1.0: "full", 0.0: "empty"}.get(share, f"{100 * share:.6g}%")
