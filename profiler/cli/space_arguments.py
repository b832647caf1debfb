"""The flags that say what a sweep tries, made from the knobs' own data."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contracts.shared.text import quoted
from sysctl.knobs.catalogue import DEVICE_BY_NAME, DEVICE_KNOBS
from sysctl.knobs.transfer import SWEPT_BY_DEFAULT
from sysctl.knobs.vm import BY_NAME, KNOBS

if TYPE_CHECKING:
    from profiler.study.space import Space

#: Of `--space`: the default one has the write-back settings and mount options.
VM, TRANSFER, WIDE = "vm", "transfer", "wide"
#: As `sysctl.search.strategies.NAMES`, which takes longer to import than the help should.
STRATEGIES = ("edge", "grid", "random", "bayes", "syne-tune")


def add_space_arguments(parser: argparse.ArgumentParser) -> None:
    """A flag for each knob, which of the others to try too, and how to search."""
    from profiler.cli import argument_types as types

    group = parser.add_argument_group(
        "what to try", "without any: the smallest change with which writers no longer wait"
    )
    for knob in KNOBS:
        group.add_argument(
            knob.flag,
            metavar="N,N…",
            type=types.integers,
            dest=knob.name,
            help=f"{knob.what}, in {knob.unit}".replace("%", "%%"),
        )
    for of_disk in DEVICE_KNOBS:
        group.add_argument(
            of_disk.flag,
            metavar="N,N…" if of_disk.maximum is not None else "NAME,NAME…",
            type=types.words,
            dest=of_disk.name,
            help=f"of DEST's disk: {of_disk.what}; {of_disk.range}".replace("%", "%%"),
        )
    group.add_argument(
        "--mount-options",
        metavar="OPTIONS",
        nargs="+",
        default=(),
        help="texts such as noatime,logbsize=256k to try on DEST's own volume",
    )
    group.add_argument(
        "--space",
        metavar="NAME,NAME…",
        type=_space,
        default=(VM,),
        help="vm (default): the thresholds, and mount options of DEST's volume if they could help; "
        "wide: then also every other knob of the host, one at a time; transfer,vm: settings of the "
        "pull together with the thresholds; transfer: these alone",
    )
    group.add_argument(
        "--strategy",
        choices=STRATEGIES,
        help="how to search: edge, or grid where thresholds are named",
    )
    group.add_argument(
        "--seed", metavar="N", type=types.seed, default=0, help="of random, bayes and syne-tune"
    )


def space_of(arguments: argparse.Namespace) -> Space:
    """What the arguments ask for. Raises UsageError for values that no knob has."""
    from profiler.study.space import Space

    values: dict[str, tuple[int, ...]] = _named(arguments, list(BY_NAME))
    device: dict[str, tuple[str, ...]] = _named(arguments, list(DEVICE_BY_NAME))
    check_ranges(values)
    check_device(device)
    return Space(
        values=values,
        device=device,
        mount_options=tuple(arguments.mount_options),
        wide=WIDE in arguments.space,
        vm=arguments.space != (TRANSFER,),
        transfer=SWEPT_BY_DEFAULT if TRANSFER in arguments.space else (),
        strategy=arguments.strategy,
        seed=arguments.seed,
    )


def _space(text: str) -> tuple[str, ...]:
    """`transfer,vm` → its words; `default` is `vm`."""
    words = tuple(dict.fromkeys(VM if word == "default" else word for word in text.split(",")))
    for word in words:
        if word not in (VM, TRANSFER, WIDE):
            known = f"{VM}, {TRANSFER} or {WIDE}"
            raise argparse.ArgumentTypeError(f"{quoted(word)} is no space; use {known}")
    return words


def _named(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    asked = {name: getattr(arguments, name) for name in names}
    return {name: tuple(dict.fromkeys(chosen)) for name, chosen in asked.items() if chosen}


def check_ranges(values: Mapping[str, Sequence[int]]) -> None:
    """Raise UsageError for a value out of its sysctl's range, or both members of a pair."""
    from contracts.shared.errors import UsageError

    for name, chosen in values.items():
        knob = BY_NAME[name]
        wrong = [value for value in chosen if not knob.minimum <= value <= knob.maximum]
        if wrong:
            span = f"{knob.minimum} to {knob.maximum}"
            raise UsageError(f"{knob.flag}: {wrong[0]} is out of range, use {span} ({knob.unit})")
        if knob.counterpart in values:
            other = BY_NAME[str(knob.counterpart)].flag
            raise UsageError(
                f"{knob.flag} and {other} set the same threshold: each zeroes the other",
                "sweep one of them",
            )


def check_device(values: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError for a value that a knob of a disk cannot have, or two for one limit."""
    from contracts.shared.errors import UsageError

    for name, chosen in values.items():
        knob = DEVICE_BY_NAME[name]
        refused = next((why for why in map(knob.refusal, chosen) if why), "")
        if refused:
            raise UsageError(f"{knob.flag}: {refused}")
        if knob.counterpart in values:
            other = DEVICE_BY_NAME[knob.counterpart].flag
            raise UsageError(f"{knob.flag} and {other} set the same limit", "sweep one of them")
