"""What a sweep tries: the candidates and the strategy, from what was asked for and what is there.

What the host does not take is found out before the first trial and left out with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from contracts.shared.errors import UsageError
from contracts.shared.text import quoted
from sysctl.evidence.circumstances import Circumstances
from sysctl.evidence.price import Limits
from sysctl.evidence.results import LeftOut
from sysctl.host.devices import Disk, lacking, present_values
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.mounts import check_sweepable, present_words, words_of
from sysctl.host.probe import judge_device_values, judge_options
from sysctl.host.sysctls import read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.setting import Setting, replace_values
from sysctl.knobs.transfer import TRANSFER_BY_NAME
from sysctl.knobs.vm import BY_NAME, KNOBS, THRESHOLDS
from sysctl.search import Strategy
from sysctl.search.edge import EdgeSearch, ladders_of
from sysctl.search.extras import MOUNT, Extra, in_one_mount, wide_extras
from sysctl.search.grid import Grid, Transfer, build_grid
from sysctl.search.strategies import BAYES, EDGE, GRID, RANDOM, make_strategy

#: Thresholds that a search over candidates tries when none are given: by the grid, which tries
#: all, and by those that try few of many.
GRID_VALUES = {"vm.dirty_ratio": (20, 40, 60, 80), "vm.dirty_background_ratio": (5, 10)}
FINE_VALUES = {
    "vm.dirty_ratio": tuple(range(5, 95, 5)),
    "vm.dirty_background_ratio": (1, 2, 5, 10, 20, 30, 40),
}


@dataclass(frozen=True)
class Space:
    """What was asked for; nothing at all is the default space.

    `values` are by sysctl: thresholds are combined, each other sysctl is an extra. So is what
    `device` (by knob of the destination's disk) and `mount_options` (option texts) have: extras are
    tried one at a time under the thresholds found (`sysctl.search.extras`). `wide` also tries every
    other knob. `strategy` is one of `sysctl.search.strategies.NAMES`; by default `grid` where
    thresholds are given, else `edge`.

    `transfer` names settings of the pull (`sysctl.knobs.transfer`), combined with the thresholds,
    or without `vm` alone: by `bayes` where it is installed, else `random`. Raises UsageError for a
    name that is none of them, and for `edge` with that, or with thresholds given: it goes by the
    host's own.

    The default space has the thresholds, and the mount options that are often recommended, if the
    writers are seen to wait for what these could shorten.
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
            raise UsageError(f"{quoted(unknown[0])} is no transfer setting", f"use some of {known}")
        if self.strategy == EDGE and (self.transfer or self.thresholds):
            what = "settings of the pull" if self.transfer else "thresholds that are named"
            raise UsageError(
                f"the strategy edge finds thresholds by itself and does not try {what}",
                f"use --strategy {BAYES}, {RANDOM} or {GRID}",
            )

    @property
    def thresholds(self) -> dict[str, Sequence[int]]:
        """The thresholds that were given, with their values."""
        return {name: values for name, values in self.values.items() if name in THRESHOLDS}

    @property
    def is_of_pull_alone(self) -> bool:
        """Whether nothing of the host is tried."""
        return bool(self.transfer) and not (self.vm or self.wide or self.is_explicit)

    @property
    def is_explicit(self) -> bool:
        """Whether any values were given."""
        return bool(self.values or self.mount_options or self.device)

    @property
    def strategy_name(self) -> str:
        """The strategy asked for, or the default one."""
        if self.strategy:
            return self.strategy
        if self.transfer:
            return BAYES if find_spec("optuna") else RANDOM
        return GRID if self.thresholds or not self.searches_thresholds else EDGE

    @property
    def searches_thresholds(self) -> bool:
        """Whether thresholds are searched: not where extras alone were named."""
        return self.vm and bool(self.thresholds or not self.is_explicit or self.wide)

    @property
    def swept_values(self) -> Mapping[str, Sequence[int]]:
        """The thresholds to combine, with their values; none for the edge search."""
        if self.thresholds or not self.searches_thresholds or self.strategy_name == EDGE:
            return self.thresholds
        is_coarse = self.transfer or self.strategy_name == GRID
        return GRID_VALUES if is_coarse else FINE_VALUES

    def present(self, in_force: Mapping[str, int]) -> Setting:
        """The thresholds in force, and the other sysctls that may be changed."""
        others = [knob.name for knob in KNOBS if self.wide and knob.wide]
        shown = {*THRESHOLDS, *self.values, *others}
        return Setting(tuple((name, value) for name, value in in_force.items() if name in shown))

    def to_json(self) -> dict[str, Any]:
        """For the results: a sweep can be resumed with the same space alone."""
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
    """Where it is tried: the destination, its mount, its disk (None: on no single one)."""

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
) -> tuple[Strategy, tuple[Extra, ...], list[LeftOut]]:
    """Return the search, the extras that follow it, and what is left out.

    `circumstances` are those of the results, so that a resumed sweep tries the same as before it
    stopped. `transfers` are the transfer settings to combine
    with all else (`profiler.study.joint`). Without a `place` nothing of the host is tried.
    Raises UsageError when there is nothing to try, HostError when mount options or the disk's knobs
    cannot be changed at all.
    """
    dirtyable = circumstances.node.dirtyable_bytes
    extras, refused = _extras(space, place) if place else ((), [])
    if space.strategy_name == EDGE:
        ladders = ladders_of(present.values, dirtyable, limits, circumstances.node_class.bytes)
        strategy: Strategy = EdgeSearch(ladders)
        is_empty, invalid = not ladders, list[LeftOut]()
    else:
        strategy, invalid = _over_candidates(space, present, dirtyable, transfers)
        is_empty = strategy == Grid(())
    left_out = [*refused, *invalid]
    if is_empty and not extras:
        reasons = "; ".join(f"{item.what}: {item.why}" for item in left_out)
        raise UsageError(f"there is nothing to try: {reasons or 'these are the present settings'}")
    return strategy, extras, left_out


def _over_candidates(
    space: Space, present: Setting, dirtyable: int, transfers: Sequence[Transfer]
) -> tuple[Strategy, list[LeftOut]]:
    candidates, invalid = build_grid(space.swept_values, present, dirtyable, transfers)
    others = tuple(each for each in candidates if not _is_present(each, present))
    if not others:
        return Grid(()), invalid
    return make_strategy(space.strategy_name, others, space.seed), invalid


def _is_present(setting: Setting, present: Setting) -> bool:
    """Whether it only says what is in force already."""
    is_same = replace_values(present.values, setting.values) == present.values
    return is_same and setting.transfer == present.transfer


def _extras(space: Space, place: Place) -> tuple[tuple[Extra, ...], list[LeftOut]]:
    """What was asked for and is not in force, then what else is worth a look on this host."""
    options, refused = _usable_options(space.mount_options, place)
    device, unusable = _usable_device(space.device, place)
    sysctls = {name: v for name, v in space.values.items() if name not in THRESHOLDS}
    in_force = dict[str, object](read_writeback(place.host.system))
    if device and place.disk:
        in_force.update(present_values(place.host.system, place.disk))
    mounted = set(present_words(place.mount))
    asked = [
        *((n, str(v)) for n, values in sysctls.items() for v in values if in_force.get(n) != v),
        *((n, v) for n, values in device.items() for v in values if in_force.get(n) != v),
        *((MOUNT, text) for text in options if set(words_of(text)) != mounted),
    ]
    named = {*sysctls, *space.device, *[MOUNT] * bool(space.mount_options)}
    is_looking = space.wide or (space.vm and not space.is_explicit)
    others, not_tried = _unasked(space, place, named) if is_looking else ((), [])
    extras = (*(Extra(name, value, is_asked_for=True) for name, value in asked), *others)
    return extras, [*refused, *unusable, *not_tried]


def _usable_options(texts: Sequence[str], place: Place) -> tuple[list[str], list[LeftOut]]:
    """The option texts without the words that this kernel does not take, and those words."""
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
    """The values that the destination's disk takes by knob, and those that it does not."""
    if not values:
        return {}, []
    if place.disk is None:
        raise HostError(
            f"{place.mount.target} ({place.mount.fstype}) is not on one disk with a queue",
            "give a DEST on a disk of its own, or leave the knobs of the disk out",
        )
    verdicts = judge_device_values(place.host, place.disk, values)
    usable: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.usable:
            usable.setdefault(verdict.name, []).append(verdict.value)
    refused = [LeftOut(f"{v.name}={v.value}", v.reason) for v in verdicts if not v.usable]
    return usable, refused


def _unasked(
    space: Space, place: Place, named: Collection[str]
) -> tuple[tuple[Extra, ...], list[LeftOut]]:
    """Every other knob with a value or two, as far as this host takes them.

    In the default space the mount options alone, as one.
    """
    system, disk = place.host.system, place.disk
    every = wide_extras(
        read_writeback(system),
        present_values(system, disk) if disk and space.wide else {},
        place.mount.fstype,
        present_words(place.mount),
    )
    every = tuple(each for each in every if each.name not in {*named, *_counterparts(named)})
    if not space.wide:
        every = in_one_mount([each for each in every if each.name == MOUNT])
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
    """The knobs of a disk that set the same limit as one that was named."""
    return {str(knob.counterpart) for knob in DEVICE_KNOBS if knob.name in named}


def _missing_knobs(system: System, disk: Disk) -> list[LeftOut]:
    reasons = {knob.name: lacking(system, disk, knob.name) for knob in DEVICE_KNOBS if knob.wide}
    return [LeftOut(name, reason) for name, reason in reasons.items() if reason]


def _wide_options(texts: Sequence[str], place: Place) -> tuple[list[str], list[LeftOut]]:
    """As `_usable_options`; a mount that cannot be changed is a reason here, not an error."""
    try:
        return _usable_options(texts, place)
    except HostError as error:
        return [], [LeftOut(MOUNT, error.message)]
