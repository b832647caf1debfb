"""What a sweep tries: the candidates and the strategy, from what was asked for and what is there.

What the host does not take is found out before the first trial and left out with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from contracts.errors import UsageError
from sysctl.host.devices import Disk, lacking, present_values
from sysctl.host.host import Host
from sysctl.host.mount_table import Mount
from sysctl.host.mounts import check_sweepable, present_words, words_of
from sysctl.host.probe import judge_device_values, judge_options
from sysctl.host.sysctls import dirtyable_bytes, read_writeback
from sysctl.host.system import HostError, System
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.vm import BACKGROUND_PAIR, BY_NAME, DIRTY_PAIR, KNOBS
from sysctl.results import LeftOut
from sysctl.search.grid import Transfer, build_grid
from sysctl.search.staged import (
    MOUNT,
    StagedSearch,
    Variation,
    in_one_mount,
    wide_variations,
)
from sysctl.search.strategies import BAYES, GRID, MODEL, RANDOM, make_strategy
from sysctl.setting import Setting, replace_values

#: Tried when nothing is asked for: by the grid, and by the strategies that try few of many.
GRID_VALUES = {"vm.dirty_ratio": (20, 40, 60, 80), "vm.dirty_background_ratio": (5, 10)}
FINE_VALUES = {
    "vm.dirty_ratio": tuple(range(5, 95, 5)),
    "vm.dirty_background_ratio": (1, 2, 5, 10, 20, 30, 40),
}
_THRESHOLDS = (*DIRTY_PAIR, *BACKGROUND_PAIR)


@dataclass(frozen=True)
class Space:
    """What was asked for; nothing at all is the default space.

    `values` are by sysctl, `device` by knob of the destination's disk; `mount_options` are option
    texts. `wide` also tries every other knob, one at a time. `strategy` is one of
    `sysctl.search.strategies.NAMES`; by default `grid` where values are given, else `model`.

    `transfer` combines settings of the pull with all that, or without `vm` tries them alone: by
    `bayes` where it is installed, else `random`. Raises UsageError for `model`, which knows nothing
    of them.

    The default space has the thresholds, and then, one at a time around the fastest of them, the
    other vm.dirty_* and the mount options that are often recommended, these in one trial.
    """

    values: Mapping[str, Sequence[int]] = field(default_factory=dict)
    mount_options: Sequence[str] = ()
    device: Mapping[str, Sequence[str]] = field(default_factory=dict)
    wide: bool = False
    strategy: str | None = None
    seed: int = 0
    vm: bool = True
    transfer: bool = False

    def __post_init__(self) -> None:
        """See the class."""
        if self.transfer and self.strategy == MODEL:
            raise UsageError(
                "the strategy model predicts write-back settings alone, no transfer settings",
                f"use --strategy {BAYES}, {RANDOM} or {GRID}",
            )

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
        return GRID if self.is_explicit else MODEL

    @property
    def swept_values(self) -> Mapping[str, Sequence[int]]:
        """The sysctls to combine, with their values."""
        if self.is_explicit:
            return self.values
        if not self.vm:
            return {}
        is_coarse = self.transfer or self.strategy_name == GRID
        return GRID_VALUES if is_coarse else FINE_VALUES

    @property
    def has_variations(self) -> bool:
        """Whether other knobs are tried after the thresholds."""
        return self.wide or (self.vm and not self.is_explicit)

    def present(self, in_force: Mapping[str, int]) -> Setting:
        """The thresholds in force, and the other sysctls that may be changed."""
        others = [knob.name for knob in KNOBS if self.has_variations and knob.wide]
        shown = {*_THRESHOLDS, *self.swept_values, *others}
        return Setting(tuple((name, value) for name, value in in_force.items() if name in shown))

    def to_json(self) -> dict[str, Any]:
        """For the results: a sweep can be resumed with the same space alone."""
        return {
            "sysctls": {name: list(values) for name, values in self.swept_values.items()},
            "mount_options": list(self.mount_options),
            "device": {name: list(values) for name, values in self.device.items()},
            "wide": self.wide,
            "strategy": self.strategy_name,
            "seed": self.seed,
            **({"transfer": True} if self.transfer else {}),
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
    place: Place,
    present: Setting,
    context: Mapping[str, Any],
    transfers: Sequence[Transfer] = ((),),
) -> tuple[StagedSearch, list[LeftOut]]:
    """The search, and what it leaves out. Raises UsageError when there is nothing to try.

    `transfers` are the transfer settings to combine with all else (`profiler.tune.joint`).
    Raises HostError when mount options or the disk's knobs cannot be changed at all.
    """
    options, refused = _usable_options(space.mount_options, place)
    device, unusable = _usable_device(space.device, place)
    dirtyable = dirtyable_bytes(place.host.system)
    values = space.swept_values
    grid, invalid = build_grid(values, options, present, dirtyable, device, transfers)
    candidates = tuple(s for s in grid.candidates if not _is_present(s, present))
    variations, not_varied = _variations(space, place) if space.has_variations else ((), [])
    left_out = [*refused, *unusable, *invalid, *not_varied]
    if not candidates and not variations:
        reasons = "; ".join(f"{item.what}: {item.why}" for item in left_out)
        raise UsageError(f"there is nothing to try: {reasons or 'these are the present settings'}")
    search = StagedSearch(
        core=make_strategy(space.strategy_name, candidates, context, space.seed),
        core_names=() if space.is_explicit or space.transfer else tuple(values),
        variations=variations,
        context=context,
    )
    return search, left_out


def _is_present(setting: Setting, present: Setting) -> bool:
    """Whether it only says what is in force already."""
    is_same = replace_values(present.values, setting.values) == present.values
    is_alone = setting.mount_options is None and not setting.device
    return is_same and is_alone and setting.transfer == present.transfer


def always_tried(space: Space, present: Setting) -> tuple[Setting, ...]:
    """The kernel's default thresholds, if thresholds are swept and these are not in force."""
    names = (name for name in _THRESHOLDS if BY_NAME[name].kernel_default)
    sysctls = tuple((name, BY_NAME[name].kernel_default) for name in names)
    default = Setting(sysctls, transfer=present.transfer)
    is_due = bool({*space.swept_values} & {*_THRESHOLDS}) and not _is_present(default, present)
    return (default,) if is_due else ()


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


def _variations(space: Space, place: Place) -> tuple[tuple[Variation, ...], list[LeftOut]]:
    """Every other knob with a value or two, as far as this host takes them.

    In the default space those that are no disk's, and all mount options as one.
    """
    system, disk = place.host.system, place.disk
    named = {*space.swept_values, *space.device, *([MOUNT] if space.mount_options else [])}
    every = wide_variations(
        read_writeback(system),
        present_values(system, disk) if disk and space.wide else {},
        place.mount.fstype,
        present_words(place.mount),
        named,
    )
    if not space.wide:
        every = in_one_mount(every)
    mounts = [each.value for each in every if each.name == MOUNT]
    options, refused = _wide_options(mounts, place)
    knobs: dict[str, list[str]] = {}
    for each in every:
        if each.name != MOUNT and each.name not in BY_NAME:
            knobs.setdefault(each.name, []).append(each.value)
    device, unusable = _usable_device(knobs, place)
    usable = {(name, value) for name, values in device.items() for value in values}
    kept = [each for each in every if each.name in BY_NAME or (each.name, each.value) in usable]
    remounted = [Variation(MOUNT, text) for text in options]
    missing = _missing_knobs(system, disk) if disk and space.wide else []
    return (*kept, *remounted), [*refused, *missing, *unusable]


def _missing_knobs(system: System, disk: Disk) -> list[LeftOut]:
    reasons = {knob.name: lacking(system, disk, knob.name) for knob in DEVICE_KNOBS if knob.wide}
    return [LeftOut(name, reason) for name, reason in reasons.items() if reason]


def _wide_options(texts: Sequence[str], place: Place) -> tuple[list[str], list[LeftOut]]:
    """As `_usable_options`; a mount that cannot be changed is a reason here, not an error."""
    try:
        return _usable_options(texts, place)
    except HostError as error:
        return [], [LeftOut(MOUNT, error.message)]
