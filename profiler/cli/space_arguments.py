# SPDX-License-Identifier: Apache-2.0
"""The flags for what a sweep tries, made from the knobs' data."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contracts.shared.text import quoted, suggestion
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.parser import rare
from sysctl.knobs.catalogue import DEVICE_BY_NAME, DEVICE_KNOBS
from sysctl.knobs.device import DeviceKnob
from sysctl.knobs.transfer import SWEPT_BY_DEFAULT
from sysctl.knobs.vm import BY_NAME, KNOBS

if TYPE_CHECKING:
    from profiler.study.space import Space

#: A word of `--space`: the default space has the write-back settings and mount options.
VM, TRANSFER, WIDE = SPACES = ("vm", "transfer", "wide")
_COMMON = ("vm.dirty_ratio", "vm.dirty_background_ratio")


def add_space_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each knob, the other spaces to try, and how to search."""
    group = parser.add_argument_group(
        "what to try (default: the smallest change with which writers no longer wait)"
    )
    group.add_argument(
        "--space",
        metavar="NAME,…",
        type=_space,
        default=(VM,),
        help="vm: write-back thresholds and mount options (default); wide: also every "
        "other knob; transfer: settings of the pull",
    )
    for knob in KNOBS:
        action = add_sysctl(group, knob.name, takes_several=True)
        if knob.name not in _COMMON:
            rare(action)
    for of_disk in DEVICE_KNOBS:
        rare(
            group.add_argument(
                of_disk.flag,
                metavar=_metavar(of_disk),
                type=types.size_words if _is_size(of_disk) else types.words,
                dest=of_disk.name,
                help=f"for DEST's disk: {of_disk.what}; {of_disk.range}".replace("%", "%%"),
            )
        )
    group.add_argument(
        "--mount-options",
        metavar="OPTIONS",
        type=types.mount_options,
        action="append",
        default=[],
        help="mount options to try, such as noatime,logbsize=256k; repeat it for each alternative",
    )
    options.add_search(group)


def add_sysctl(parser: options.Container, name: str, *, takes_several: bool) -> argparse.Action:
    """Add the flag of a write-back sysctl, for one value or for several; return the option."""
    knob = BY_NAME[name]
    is_size = knob.unit == "bytes"
    metavar, one, several = (
        ("SIZE", types.size, types.sizes) if is_size else ("N", types.whole, types.integers)
    )
    what = knob.what if is_size else f"{knob.what}, in {knob.unit}"
    return parser.add_argument(
        knob.flag,
        metavar=f"{metavar},…" if takes_several else metavar,
        type=several if takes_several else one,
        dest=name,
        help=what.replace("%", "%%"),
    )


def _metavar(knob: DeviceKnob) -> str:
    if knob.maximum is None:
        return "NAME,…"
    return "SIZE,…" if _is_size(knob) else "N,…"


def _is_size(knob: DeviceKnob) -> bool:
    return knob.unit.startswith("bytes")


def space_of(arguments: argparse.Namespace) -> Space:
    """Return the space that the arguments ask for. Raises UsageError for impossible values."""
    from profiler.study.space import Space

    values: dict[str, tuple[int, ...]] = _named(arguments, list(BY_NAME))
    device: dict[str, tuple[str, ...]] = _named(arguments, list(DEVICE_BY_NAME))
    check_ranges(values)
    check_device(device)
    return Space(
        values=values,
        device=device,
        mount_options=tuple(dict.fromkeys(arguments.mount_options)),
        wide=WIDE in arguments.space,
        vm=arguments.space != (TRANSFER,),
        transfer=SWEPT_BY_DEFAULT if TRANSFER in arguments.space else (),
        strategy=arguments.strategy,
        seed=arguments.seed,
    )


def _space(text: str) -> tuple[str, ...]:
    """Return the words of `transfer,vm`; `default` means `vm`."""
    words = tuple(dict.fromkeys(VM if word == "default" else word for word in text.split(",")))
    for word in words:
        if word not in SPACES:
            use = suggestion(word, SPACES) or f"use {VM}, {WIDE} or {TRANSFER}"
            raise argparse.ArgumentTypeError(f"unknown space {quoted(word)}; {use}")
    return words


def _named(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    asked = {name: getattr(arguments, name) for name in names}
    return {name: tuple(dict.fromkeys(chosen)) for name, chosen in asked.items() if chosen}


def check_ranges(values: Mapping[str, Sequence[int]]) -> None:
    """Raise UsageError for a value outside its sysctl's range, or for both members of a pair."""
    from contracts.shared.errors import UsageError

    for name, chosen in values.items():
        knob = BY_NAME[name]
        wrong = [value for value in chosen if not knob.minimum <= value <= knob.maximum]
        if wrong:
            span = f"{knob.minimum} to {knob.maximum}"
            raise UsageError(f"{knob.flag}: {wrong[0]} is out of range", f"use {span} {knob.unit}")
        if knob.counterpart in values:
            other = BY_NAME[str(knob.counterpart)].flag
            raise UsageError(
                f"{knob.flag} and {other} set the same threshold; the kernel keeps only one",
                "pass one of them",
            )


def check_device(values: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError for a value that a disk's knob cannot have, or two for one limit."""
    from contracts.shared.errors import UsageError

    for name, chosen in values.items():
        knob = DEVICE_BY_NAME[name]
        refused = next((why for why in map(knob.refusal, chosen) if why), "")
        if refused:
            raise UsageError(f"{knob.flag}: {refused}", f"use {knob.range}")
        if knob.counterpart in values:
            other = DEVICE_BY_NAME[knob.counterpart].flag
            raise UsageError(f"{knob.flag} and {other} set the same limit", "pass one of them")
