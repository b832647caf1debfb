"""Extras: mount options, knobs of the disk and sysctls that are no thresholds.

The default is to leave them alone. One is recommended only if pairs of its own show it: runs with
it and without it next to each other, under the setting that the search found, `PAIRS` of them. The
interval is narrower than for thresholds and shared among the extras compared, since of many things
that do nothing some look good by chance. The best one that counts stays, and the others that count
are compared again with it in force.

An extra that nobody named is tried only where it could help: where the writers of the setting found
wait for the device or sleep for another reason than dirty throttling.
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

#: Pairs of an extra; two show that it is not even faster in the mean, or that it never works.
PAIRS = 4
_FUTILE_AFTER = 2
#: An extra that does nothing is found faster by half as often, slower as often.
ERROR = 0.01
#: The name of an extra of the mount; others are named by their sysctl or knob.
MOUNT = "mount options"
_SYSCTLS = frozenset(knob.name for knob in KNOBS)


@dataclass(frozen=True)
class Extra:
    """One knob with one value, as text. `is_asked_for`: a person named it."""

    name: str
    value: str
    is_asked_for: bool = False

    def of(self, setting: Setting) -> Setting:
        """Return the setting with this one knob changed."""
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
    """The setting with the extras that count so far, and the settings of the next block."""

    setting: Setting
    members: tuple[Setting, ...]


class Doubt(enum.Enum):
    """Why the extras of a setting do not count."""

    NOT_COMPARED = enum.auto()
    FEW_PAIRS = enum.auto()
    NO_GAIN = enum.auto()


@dataclass(frozen=True)
class Uncredited:
    """A doubt about a setting's extras, by name and value; `pairs` is the most with any base."""

    doubt: Doubt
    extras: Mapping[str, str]
    pairs: int = 0


@dataclass(frozen=True)
class ExtraPairs:
    """What the pairs with and without extras show; nothing in it changes, as in the runs."""

    runs: Runs

    def judge(self, base: Setting, extras: Sequence[Extra]) -> Credited:
        """Return the base with the extras that the pairs credit, and the next block's settings.

        No members: nothing is to be compared any more.
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
        """Return the comparison with the same setting without an extra, if it credits the extra."""
        if len(pairs_of(self.runs, setting, base)) < PAIRS:
            return None
        found = compare(self.runs, setting, base, error=ERROR / max(1, self._rivals[base]))
        return found if found.verdict is Verdict.FASTER else None

    @cached_property
    def compared(self) -> Mapping[tuple[str, str], Setting]:
        """The extras that ran in pairs, as name and value, each with a setting that has it."""
        baseline, tried = self.runs.baseline, self.runs.rechecked
        return {extra: each for each in reversed(tried) for extra in _extras_of(baseline, each)}

    def own_interval(self, setting: Setting, name: str) -> Interval | None:
        """Return the time with an extra divided by that without it; None if nothing shows it."""
        for base in self._bases_of(setting):
            if name not in dict(_extras_of(self.runs.baseline, base)):
                return compare(self.runs, setting, base).interval
        return None

    def uncredited(self, setting: Setting) -> Uncredited | None:
        """Return why its extras do not count; None if they do, or it has none.

        They count where a chain of comparisons leads to a setting without extras, each crediting
        one.
        """
        extras = dict(_extras_of(self.runs.baseline, setting))
        if not extras or setting in self._credited:
            return None
        counts = [len(pairs_of(self.runs, setting, base)) for base in self._bases_of(setting)]
        if not counts:
            return Uncredited(Doubt.NOT_COMPARED, extras)
        doubt = Doubt.FEW_PAIRS if max(counts) < PAIRS else Doubt.NO_GAIN
        return Uncredited(doubt, extras, max(counts))

    @cached_property
    def _rivals(self) -> Counter[Setting]:
        """How many settings were compared with a base that have it and an extra."""
        return Counter(base for each in self.runs.rechecked for base in self._bases_of(each))

    def _bases_of(self, setting: Setting) -> list[Setting]:
        """The settings that it has pairs with and that are the same without one extra of it."""
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
        """The settings with extras that count; those with fewer extras first."""
        counts = {s: len(_parts_of(self.runs.baseline, s)[1]) for s in self.runs.rechecked}
        found: set[Setting] = set()
        for setting in sorted(counts, key=lambda each: counts[each]):
            for base in self._bases_of(setting):
                if (base in found or counts[setting] == 1) and self.credit(setting, base):
                    found.add(setting)
        return found

    def _is_running(self, setting: Setting, base: Setting) -> bool:
        """Whether more pairs could credit it. What keeps failing is given up."""
        count = len(pairs_of(self.runs, setting, base))
        begun = len({trial.pair for trial in self.runs.of_setting(setting)} - {None})
        if count >= PAIRS or begun >= (2 * PAIRS if count else _FUTILE_AFTER):
            return False
        return count < _FUTILE_AFTER or self._estimate(setting, base) < 1

    def _estimate(self, setting: Setting, base: Setting) -> float:
        interval = compare(self.runs, setting, base).interval
        return interval.estimate if interval else 1.0


def _parts_of(baseline: Baseline, setting: Setting) -> tuple[object, frozenset[tuple[str, str]]]:
    """Thresholds and settings of the pull, and the extras."""
    rest = (tuple(sorted(baseline.thresholds_with(setting).items())), setting.transfer)
    return rest, frozenset(_extras_of(baseline, setting))


def _extras_of(baseline: Baseline, setting: Setting) -> Iterator[tuple[str, str]]:
    """What it changes besides thresholds and the pull's own settings, by name."""
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

    Those that were asked for are always tried.
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
    """Return what a wide sweep tries: each knob's `wide` values but the present one.

    `present` are the sysctls in force, `disk` the knobs that the destination's disk has with their
    values (empty: none), `mount_words` the tunable options that the mount has.
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
    """Return the same with all mount options as one: if all together do nothing, each does not."""
    texts = [each.value for each in extras if each.name == MOUNT]
    others = [each for each in extras if each.name != MOUNT]
    together = [Extra(MOUNT, ",".join(texts))] if texts else []
    return (*others, *together)
