# SPDX-License-Identifier: Apache-2.0
"""What a sweep tries: the candidates and the strategy, for a request on this host.

What the host does not support is found before the first trial and left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from contracts.shared.units import format_size
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.price import Limits
from sysctl.evidence.results import LeftOut
from sysctl.host.devices import Disk, lacking, present_values, unavailable
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.mounts import check_sweepable, present_words, words_of
from sysctl.host.probe import check_judged, judge_device_values, judge_options
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.setting import Setting, replace_values, threshold_bytes
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.knobs.vm import BY_NAME, DIRTY_PAIR, KNOBS, THRESHOLDS
from sysctl.search import Strategy
from sysctl.search.edge import EdgeSearch, ladders_of
from sysctl.search.extras import MOUNT, Extra, in_one_mount, wide_extras
from sysctl.search.grid import Grid, Transfer, build_grid
from sysctl.search.strategies import BAYES, EDGE, GRID, RANDOM, make_strategy

#: Thresholds that a search over candidates tries by default: for the grid, which tries all, and for
#: strategies that try a few of many.
GRID_VALUES = {"vm.dirty_ratio": (20, 40, 60, 80), "vm.dirty_background_ratio": (5, 10)}
FINE_VALUES = {
    "vm.dirty_ratio": tuple(range(5, 95, 5)),
    "vm.dirty_background_ratio": (1, 2, 5, 10, 20, 30, 40),
}


#: The extras to try, and those that this host refuses.
Extras = tuple[tuple[Extra, ...], list[LeftOut]]


@dataclass(frozen=True)
class Space:
    """The requested space; without arguments it is the default space.

    `values` maps sysctls to values: thresholds are combined, every other sysctl is an extra. So are
    the values in `device` (by knob of the destination's disk) and `mount_options` (option texts).
    Extras are tried one at a time with the thresholds found (`sysctl.search.extras`). `wide` also
    tries all other knobs. `strategy` is one of `sysctl.search.strategies.NAMES`, by default `grid`
    if thresholds are given, else `edge`.

    `transfer` names transfer settings (`sysctl.knobs.transfer`). They are combined with the
    thresholds, or without `vm` tried alone, by `bayes` if it is installed, else by `random`. Raises
    UsageError for an unknown name, and for `edge` with `transfer` or thresholds, because it chooses
    thresholds itself.

    The default space has the thresholds, and often recommended mount options if writers wait for
    something that these could shorten.
    """

    values: Mapping[str, Sequence[int]] = field(default_factory=dict)
    mount_options: Sequence[str] = ()
    device: Mapping[str, Sequence[str]] = field(default_factory=dict)
    wide: bool = False
    strategy: str | None = None
    seed: int = 0
    vm: bool = True
    transfer: Sequence[str] = ()

    def __post_init__(self) -> None:
        """See the class."""
        unknown = [name for name in self.transfer if name not in TRANSFER_BY_NAME]
        if unknown:
            known = ", ".join(TRANSFER_BY_NAME)
            raise UsageError(
                f"unknown transfer setting {quoted(unknown[0])}", f"use some of {known}"
            )
        if self.strategy == EDGE and (self.transfer or self.thresholds):
            what = "transfer settings" if self.transfer else "given thresholds"
            raise UsageError(
                f"the strategy edge chooses thresholds itself and does not try {what}",
                f"use --strategy {BAYES}, {RANDOM} or {GRID}",
            )

    @property
    def thresholds(self) -> dict[str, Sequence[int]]:
        """The given thresholds with their values."""
        return {name: values for name, values in self.values.items() if name in THRESHOLDS}

    @property
    def is_of_pull_alone(self) -> bool:
        """Whether only transfer settings are tried."""
        return bool(self.transfer) and not (self.vm or self.wide or self.is_explicit)

    @property
    def is_explicit(self) -> bool:
        """Whether any values were given."""
        return bool(self.values or self.mount_options or self.device)

    @property
    def strategy_name(self) -> str:
        """The requested strategy, or the default."""
        if self.strategy:
            return self.strategy
        if self.transfer:
            return BAYES if find_spec("optuna") else RANDOM
        return GRID if self.thresholds or not self.searches_thresholds else EDGE

    @property
    def searches_thresholds(self) -> bool:
        """Whether thresholds are searched: not if only extras are given."""
        return self.vm and bool(self.thresholds or not self.is_explicit or self.wide)

    @property
    def swept_values(self) -> Mapping[str, Sequence[int]]:
        """The thresholds to combine with their values; none for the edge search."""
        if self.thresholds or not self.searches_thresholds or self.strategy_name == EDGE:
            return self.thresholds
        is_coarse = self.transfer or self.strategy_name == GRID
        return GRID_VALUES if is_coarse else FINE_VALUES

    def present(self, in_force: Mapping[str, int]) -> Setting:
        """Return the thresholds in force and the other sysctls that may be changed."""
        others = [knob.name for knob in KNOBS if self.wide and knob.wide]
        shown = {*THRESHOLDS, *self.values, *others}
        return Setting(tuple((name, value) for name, value in in_force.items() if name in shown))

    def to_json(self) -> dict[str, Any]:
        """Return the space for the results: a sweep can only be resumed with the same space."""
        return {
            "sysctls": {n: list(v) for n, v in {**self.swept_values, **self.values}.items()},
            "mount_options": list(self.mount_options),
            "device": {name: list(values) for name, values in self.device.items()},
            "wide": self.wide,
            "strategy": self.strategy_name,
            "seed": self.seed,
            **({"transfer": list(self.transfer)} if self.transfer else {}),
        }


@dataclass(frozen=True)
class Place:
    """The destination of the trials, its mount, and its disk (None if it has no single disk)."""

    host: Host
    destination: str
    mount: Mount
    disk: Disk | None


def make_search(
    space: Space,
    place: Place | None,
    present: Setting,
    limits: Limits,
    circumstances: Circumstances,
    transfers: Sequence[Transfer] = ((),),
    expected: Extras = ((), []),
) -> tuple[Strategy, tuple[Extra, ...], list[LeftOut]]:
    """Return the search, the extras that follow it, and what is left out.

    `circumstances` are those of the results, so that a resumed sweep tries the same settings.
    `transfers` are the transfer settings to combine with everything else (`profiler.study.joint`).
    Without a `place` only these and the `expected` extras are tried, which a dry run shows. Raises
    UsageError if there is nothing to try or no threshold keeps the limits, HostError if mount
    options or the disk's knobs cannot be changed at all.
    """
    dirtyable = circumstances.node.dirtyable_bytes
    extras, refused = _extras(space, place) if place else expected
    if space.strategy_name == EDGE:
        ladders = ladders_of(present.values, dirtyable, limits, circumstances.node_class.bytes)
        if not (ladders or space.is_explicit or space.wide):
            _check_limit(present, dirtyable, limits)
        strategy: Strategy = EdgeSearch(ladders)
        is_empty, invalid = not ladders, list[LeftOut]()
    else:
        strategy, invalid = _over_candidates(space, present, dirtyable, transfers)
        is_empty = strategy == Grid(())
    left_out = [*refused, *invalid]
    if is_empty and not extras:
        reasons = "; ".join(f"{item.what}: {item.why}" for item in left_out)
        raise UsageError(
            f"there is nothing to try: {reasons or 'these are the current settings'}",
            "pass other values, or leave the options out to search all thresholds",
        )
    return strategy, extras, left_out


def _check_limit(present: Setting, dirtyable_bytes: int, limits: Limits) -> None:
    """Raise UsageError if not even the current thresholds keep the limit on the bytes at risk."""
    allowed = limits.max_at_risk_bytes
    if allowed is None or threshold_bytes(present.values, DIRTY_PAIR, dirtyable_bytes) <= allowed:
        return
    name = DIRTY_PAIR[bool(present.values.get(DIRTY_PAIR[1]))]
    raise UsageError(
        f"no {name} keeps at most {format_size(allowed)} at risk on this host",
        "raise --max-at-risk",
    )


def _over_candidates(
    space: Space, present: Setting, dirtyable: int, transfers: Sequence[Transfer]
) -> tuple[Strategy, list[LeftOut]]:
    candidates, invalid = build_grid(space.swept_values, present, dirtyable, transfers)
    others = tuple(each for each in candidates if not _is_present(each, present))
    if not others:
        return Grid(()), invalid
    return make_strategy(space.strategy_name, others, space.seed), invalid


def _is_present(setting: Setting, present: Setting) -> bool:
    """Return whether the setting is already in force."""
    is_same = replace_values(present.values, setting.values) == present.values
    return is_same and setting.transfer == present.transfer


def expected_extras(
    space: Space, system: System, destination: str, mount: Mount, disk: Disk | None
) -> Extras:
    """Return the extras that a sweep would try, and those refused, as far as reading shows it.

    Raises HostError if mount options or the disk's knobs cannot be changed at all.
    """
    for text in space.mount_options:
        words_of(text)
    if space.mount_options:
        check_sweepable(system, destination)
        check_judged(mount.fstype)
    device, refused = _offered(space, system, mount, disk)
    asked = _asked(space, system, mount, disk, space.mount_options, device)
    others = _worth_a_look(space, system, mount, disk)
    try:
        if any(each.name == MOUNT for each in others):
            check_sweepable(system, destination)
    except HostError as error:
        others = tuple(each for each in others if each.name != MOUNT)
        refused.append(LeftOut(MOUNT, error.message))
    return (*asked, *others), refused


def _offered(
    space: Space, system: System, mount: Mount, disk: Disk | None
) -> tuple[dict[str, list[str]], list[LeftOut]]:
    """Return the named values by knob that this disk has or offers, and the others."""
    usable: dict[str, list[str]] = {}
    refused = []
    for name, values in space.device.items():
        for value in values:
            reason = unavailable(system, _disk_with_queue(mount, disk), name, value)
            if reason is None:
                usable.setdefault(name, []).append(value)
            else:
                refused.append(LeftOut(f"{name}={value}", reason))
    return usable, refused


def _disk_with_queue(mount: Mount, disk: Disk | None) -> Disk:
    if disk is None:
        raise HostError(
            f"{mount.target} ({mount.fstype}) is not on a single disk with a queue",
            "use a destination on a single disk, or omit the options for the disk's knobs",
        )
    return disk


def _extras(space: Space, place: Place) -> Extras:
    """Return the requested extras that are not in force, then others worth trying here."""
    options, refused = _usable_options(space.mount_options, place)
    device, unusable = _usable_device(space.device, place)
    asked = _asked(space, place.host.system, place.mount, place.disk, options, device)
    others, not_tried = _unasked(space, place)
    return (*asked, *others), [*refused, *unusable, *not_tried]


def _asked(
    space: Space,
    system: System,
    mount: Mount,
    disk: Disk | None,
    options: Sequence[str],
    device: Mapping[str, Sequence[str]],
) -> tuple[Extra, ...]:
    """What was asked for and is not in force, with these mount options and knobs of the disk."""
    sysctls = {name: v for name, v in space.values.items() if name not in THRESHOLDS}
    in_force = dict[str, object](read_writeback(system))
    if device and disk:
        in_force.update(present_values(system, disk))
    mounted = set(present_words(mount))
    found = [
        *((n, str(v)) for n, values in sysctls.items() for v in values if in_force.get(n) != v),
        *((n, v) for n, values in device.items() for v in values if in_force.get(n) != v),
        *((MOUNT, text) for text in options if set(words_of(text)) != mounted),
    ]
    return tuple(Extra(name, value, is_asked_for=True) for name, value in found)


def _usable_options(texts: Sequence[str], place: Place) -> tuple[list[str], list[LeftOut]]:
    """Return the option texts without words that this kernel refuses, and those words."""
    if not texts:
        return [], []
    split = [words_of(text) for text in texts]
    check_sweepable(place.host.system, place.destination)
    words = dict.fromkeys(word for text in split for word in text)
    verdicts = {v.word: v for v in judge_options(place.host, place.mount.fstype, words)}
    usable = [[word for word in text if verdicts[word].usable] for text in split]
    kept = [",".join(some) or "defaults" for some, text in zip(usable, split) if some or not text]
    refused = [
        LeftOut(f"mount option {v.word}", v.reason) for v in verdicts.values() if not v.usable
    ]
    return list(dict.fromkeys(kept)), refused


def _usable_device(
    values: Mapping[str, Sequence[str]], place: Place
) -> tuple[dict[str, list[str]], list[LeftOut]]:
    """Return the values by knob that the destination's disk accepts, and those it refuses."""
    if not values:
        return {}, []
    verdicts = judge_device_values(place.host, _disk_with_queue(place.mount, place.disk), values)
    usable: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.usable:
            usable.setdefault(verdict.name, []).append(verdict.value)
    refused = [LeftOut(f"{v.name}={v.value}", v.reason) for v in verdicts if not v.usable]
    return usable, refused


def _worth_a_look(
    space: Space, system: System, mount: Mount, disk: Disk | None
) -> tuple[Extra, ...]:
    """Return one or two values of every knob that was not named; none if only these are tried.

    In the default space these are only the mount options, as one extra.
    """
    if not (space.wide or (space.vm and not space.is_explicit)):
        return ()
    thresholds = [name for name in space.values if name in THRESHOLDS]
    sysctls = [name for name in space.values if name not in thresholds]
    named = {*sysctls, *space.device, *[MOUNT] * bool(space.mount_options)}
    every = wide_extras(
        read_writeback(system),
        present_values(system, disk) if disk and space.wide else {},
        mount.fstype,
        present_words(mount),
    )
    every = tuple(each for each in every if each.name not in {*named, *_counterparts(named)})
    return every if space.wide else in_one_mount([each for each in every if each.name == MOUNT])


def _unasked(space: Space, place: Place) -> Extras:
    """Return those that this host supports, and the others with the reason."""
    system, disk = place.host.system, place.disk
    every = _worth_a_look(space, system, place.mount, disk)
    if not (every or space.wide):
        return (), []
    options, refused = _wide_options([e.value for e in every if e.name == MOUNT], place)
    knobs: dict[str, list[str]] = {}
    for each in every:
        if each.name != MOUNT and each.name not in BY_NAME:
            knobs.setdefault(each.name, []).append(each.value)
    device, unusable = _usable_device(knobs, place)
    usable = {(name, value) for name, values in device.items() for value in values}
    kept = [each for each in every if each.name in BY_NAME or (each.name, each.value) in usable]
    remounted = [Extra(MOUNT, text) for text in options]
    missing = _missing_knobs(system, disk) if disk and space.wide else []
    return (*kept, *remounted), [*refused, *missing, *unusable]


def _counterparts(named: Collection[str]) -> set[str]:
    """Return the knobs of a disk that set the same limit as one of `named`."""
    return {str(knob.counterpart) for knob in DEVICE_KNOBS if knob.name in named}


def _missing_knobs(system: System, disk: Disk) -> list[LeftOut]:
    reasons = {knob.name: lacking(system, disk, knob.name) for knob in DEVICE_KNOBS if knob.wide}
    return [LeftOut(name, reason) for name, reason in reasons.items() if reason]


def _wide_options(texts: Sequence[str], place: Place) -> tuple[list[str], list[LeftOut]]:
    """Do what `_usable_options` does, but leave out a mount that cannot be changed."""
    try:
        return _usable_options(texts, place)
    except HostError as error:
        return [], [LeftOut(MOUNT, error.message)]
