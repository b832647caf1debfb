# SPDX-License-Identifier: Apache-2.0
"""Extras: mount options, knobs of the disk, and sysctls other than thresholds.

By default they stay unchanged. An extra is recommended only after `PAIRS` pairs of its own: runs
with and without it next to each other, under the setting that the search found. The allowed error
is smaller than for thresholds and divided among the extras compared, because some of many useless
extras look good by chance. The best extra that counts stays, and the others that count are compared
again with it in force.

An extra that the user did not name is tried only if it could help: if the writers of the setting
found wait for the device or sleep for a reason other than dirty throttling.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sysctl.evidence.baseline import Baseline
from sysctl.evidence.comparison import Comparison, Verdict, compare, pairs_of
from sysctl.evidence.results import LeftOut, grouped
from sysctl.evidence.runs import Runs
from sysctl.evidence.statistics import Interval
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.mount import wide_texts
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import KNOBS, THRESHOLDS
from sysctl.search.relevance import no_other_waits, skip_reason

#: Pairs of an extra; after two it is dropped if its mean is not faster or it always fails.
PAIRS = 4
_FUTILE_AFTER = 2
#: A useless extra is found faster in half of these cases and slower in the other half.
ERROR = 0.01
#: The name of an extra of the mount; others have the name of their sysctl or knob.
MOUNT = "mount options"
_SYSCTLS = frozenset(knob.name for knob in KNOBS)


@dataclass(frozen=True)
class Extra:
    """One knob with one value, as text. `is_asked_for`: the user named it."""

    name: str
    value: str
    is_asked_for: bool = False

    def of(self, setting: Setting) -> Setting:
        """Return the setting with this knob changed."""
        if self.name == MOUNT:
            return replace(setting, mount_options=self.value)
        if self.name in _SYSCTLS:
            values = {**setting.values, self.name: int(self.value)}
            return replace(setting, sysctls=tuple(values.items()))
        knobs = {**dict(setting.device), self.name: self.value}
        return replace(setting, device=tuple(knobs.items()))

    def is_in(self, setting: Setting) -> bool:
        """Return whether the setting has this value."""
        return self.of(setting) == setting


@dataclass(frozen=True)
class Credited:
    """The setting with the extras that count so far, and the members of the next block."""

    setting: Setting
    members: tuple[Setting, ...]


class WhyNotCounted(enum.Enum):
    """Why the extras of a setting do not count yet."""

    NOT_COMPARED = enum.auto()
    FEW_PAIRS = enum.auto()
    NO_GAIN = enum.auto()


@dataclass(frozen=True)
class ExtrasNotCounted:
    """The extras of a setting (by name and value) that do not count, and why.

    `pairs` is the largest number of pairs with any base.
    """

    why: WhyNotCounted
    extras: Mapping[str, str]
    pairs: int = 0


@dataclass(frozen=True)
class ExtraPairs:
    """The results of the pairs with and without extras; immutable, like the runs."""

    runs: Runs

    def judge(self, base: Setting, extras: Sequence[Extra]) -> Credited:
        """Return the base with the extras that count, and the members of the next block.

        No members: there is nothing left to compare.
        """
        tried = {each: each.of(base) for each in extras if not each.is_in(base)}
        running = [setting for setting in tried.values() if self._is_running(setting, base)]
        if running:
            return Credited(base, (base, *running))
        counting = {e: s for e, s in tried.items() if self.credit(s, base)}
        if not counting:
            return Credited(base, ())
        best = min(counting, key=lambda extra: self._estimate(counting[extra], base))
        return self.judge(counting[best], [each for each in counting if each.name != best.name])

    def credit(self, setting: Setting, base: Setting) -> Comparison | None:
        """Return the comparison with the setting without an extra, if the extra counts."""
        if len(pairs_of(self.runs, setting, base)) < PAIRS:
            return None
        found = compare(self.runs, setting, base, error=ERROR / max(1, self._rivals[base]))
        return found if found.verdict is Verdict.FASTER else None

    @cached_property
    def compared(self) -> Mapping[tuple[str, str], Setting]:
        """The extras (name and value) that ran in pairs, each with a setting that has it."""
        baseline, tried = self.runs.baseline, self.runs.rechecked
        return {extra: each for each in reversed(tried) for extra in _extras_of(baseline, each)}

    def own_interval(self, setting: Setting, name: str) -> Interval | None:
        """Return the time with an extra divided by the time without it; None without pairs."""
        for base in self._bases_of(setting):
            if name not in dict(_extras_of(self.runs.baseline, base)):
                return compare(self.runs, setting, base).interval
        return None

    def not_counted(self, setting: Setting) -> ExtrasNotCounted | None:
        """Return why its extras do not count; None if they do or if it has none.

        They count if a chain of comparisons, each of which credits one extra, leads to a setting
        without extras.
        """
        extras = dict(_extras_of(self.runs.baseline, setting))
        if not extras or setting in self._credited:
            return None
        counts = [len(pairs_of(self.runs, setting, base)) for base in self._bases_of(setting)]
        if not counts:
            return ExtrasNotCounted(WhyNotCounted.NOT_COMPARED, extras)
        why = WhyNotCounted.FEW_PAIRS if max(counts) < PAIRS else WhyNotCounted.NO_GAIN
        return ExtrasNotCounted(why, extras, max(counts))

    @cached_property
    def _rivals(self) -> Counter[Setting]:
        """The number of settings with one more extra that were compared with each base."""
        return Counter(base for each in self.runs.rechecked for base in self._bases_of(each))

    def _bases_of(self, setting: Setting) -> list[Setting]:
        """Return the settings that lack one of its extras and have pairs with it."""
        rest, extras = _parts_of(self.runs.baseline, setting)
        less = [(rest, extras - {extra}) for extra in extras]
        bases = [base for parts in less for base in self._by_parts.get(parts, ())]
        return [base for base in bases if pairs_of(self.runs, setting, base)]

    @cached_property
    def _by_parts(self) -> Mapping[object, Sequence[Setting]]:
        ran = (trial.setting for trial in self.runs.trials if trial.pair is not None)
        return grouped((_parts_of(self.runs.baseline, each), each) for each in dict.fromkeys(ran))

    @cached_property
    def _credited(self) -> set[Setting]:
        """The settings whose extras count, found from fewer to more extras."""
        counts = {s: len(_parts_of(self.runs.baseline, s)[1]) for s in self.runs.rechecked}
        found: set[Setting] = set()
        for setting in sorted(counts, key=lambda each: counts[each]):
            for base in self._bases_of(setting):
                if (base in found or counts[setting] == 1) and self.credit(setting, base):
                    found.add(setting)
        return found

    def _is_running(self, setting: Setting, base: Setting) -> bool:
        """Return whether more pairs could credit it; settings that keep failing are dropped."""
        count = len(pairs_of(self.runs, setting, base))
        begun = len({trial.pair for trial in self.runs.of_setting(setting)} - {None})
        if count >= PAIRS or begun >= (2 * PAIRS if count else _FUTILE_AFTER):
            return False
        return count < _FUTILE_AFTER or self._estimate(setting, base) < 1

    def _estimate(self, setting: Setting, base: Setting) -> float:
        interval = compare(self.runs, setting, base).interval
        return interval.estimate if interval else 1.0


def _parts_of(baseline: Baseline, setting: Setting) -> tuple[object, frozenset[tuple[str, str]]]:
    """Return the thresholds and transfer settings of a setting, and its extras."""
    rest = (tuple(sorted(baseline.thresholds_with(setting).items())), setting.transfer)
    return rest, frozenset(_extras_of(baseline, setting))


def _extras_of(baseline: Baseline, setting: Setting) -> Iterator[tuple[str, str]]:
    """Yield what it changes except thresholds and transfer settings, as names and values."""
    if baseline.changed_options(setting):
        yield MOUNT, str(setting.mount_options)
    yield from setting.device
    values = setting.values
    for name in baseline.changed_sysctls(setting):
        if name not in THRESHOLDS:
            yield name, str(values[name])


def worth_trying(
    runs: Runs, base: Setting, extras: Sequence[Extra]
) -> tuple[list[Extra], list[LeftOut]]:
    """Return the extras that could help under the base, and the others with the reason.

    Extras that the user named are always tried.
    """
    if base not in runs.valid_by_setting:
        return [], []
    seen = runs.valid_by_setting[base][0]
    waits = no_other_waits(runs, seen)
    reasons = {
        each: None if each.is_asked_for else skip_reason(runs, each.name, seen) or waits
        for each in extras
    }
    left_out = {each.name: why for each, why in reasons.items() if why}
    kept = [each for each, why in reasons.items() if not why]
    return kept, [LeftOut(name, why) for name, why in left_out.items()]


def wide_extras(
    present: Mapping[str, int],
    disk: Mapping[str, str],
    fstype: str,
    mount_words: Sequence[str],
) -> tuple[Extra, ...]:
    """Return the extras of a wide sweep: each knob's `wide` values except the current one.

    `present` are the sysctls in force, `disk` the knobs of the destination's disk with their
    values, `mount_words` the tunable options of the mount.
    """
    sysctls = [(k.name, str(v)) for k in KNOBS for v in k.wide if present.get(k.name) != v]
    knobs = [
        (knob.name, value)
        for knob in DEVICE_KNOBS
        if knob.name in disk
        for value in knob.wide
        if value != disk[knob.name]
    ]
    mounts = [(MOUNT, text) for text in wide_texts(fstype) if text not in mount_words]
    return tuple(Extra(name, value) for name, value in (*sysctls, *knobs, *mounts))


def in_one_mount(extras: Sequence[Extra]) -> tuple[Extra, ...]:
    """Return the extras with all mount options joined: if they do nothing together, none helps."""
    texts = [each.value for each in extras if each.name == MOUNT]
    others = [each for each in extras if each.name != MOUNT]
    together = [Extra(MOUNT, ",".join(texts))] if texts else []
    return (*others, *together)
