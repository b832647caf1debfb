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

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contracts.shared.units import counted
from sysctl.evidence.comparison import MIN_GAIN, Comparison, Verdict, compare, pairs_of
from sysctl.evidence.differences import changed_options, changed_sysctls, thresholds
from sysctl.evidence.results import RECHECK, LeftOut, Results, grouped
from sysctl.evidence.statistics import Interval
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.mount import wide_texts
from sysctl.knobs.setting import Setting
from sysctl.knobs.vm import KNOBS, THRESHOLDS
from sysctl.search.relevance import skip_reason, wait_shares

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


def judge_extras(results: Results, base: Setting, extras: Sequence[Extra]) -> Credited:
    """Return the base with the extras that the pairs credit, and the settings of the next block.

    No members: nothing is to be compared any more.
    """
    tried = {each: each.of(base) for each in extras if not each.is_in(base)}
    running = [s for s in tried.values() if _is_running(results, s, base)]
    if running:
        return Credited(base, (base, *running))
    counting = {e: s for e, s in tried.items() if credit(results, s, base)}
    if not counting:
        return Credited(base, ())
    best = min(counting, key=lambda extra: _estimate(results, counting[extra], base))
    others = [each for each in counting if each.name != best.name]
    return judge_extras(results, counting[best], others)


def credit(results: Results, setting: Setting, base: Setting) -> Comparison | None:
    """Return the comparison with the same setting without an extra, if it credits the extra."""
    if len(pairs_of(results, setting, base)) < PAIRS:
        return None
    found = compare(results, setting, base, error=ERROR / max(1, _rivals(results, base)))
    return found if found.verdict is Verdict.FASTER else None


def _rivals(results: Results, base: Setting) -> int:
    """How many settings were compared with a base that have it and an extra."""
    return results.derived(_rival_counts)[base]


def _rival_counts(results: Results) -> Counter[Setting]:
    tried = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    return Counter(base for each in tried for base in bases_of(results, each))


def bases_of(results: Results, setting: Setting) -> list[Setting]:
    """Return the settings that it has pairs with and that are the same without one extra of it."""
    alike, (rest, extras) = results.derived(_by_parts), _parts_of(results, setting)
    less = [(rest, extras - {extra}) for extra in extras]
    bases = [base for parts in less for base in alike.get(parts, ())]
    return [base for base in bases if pairs_of(results, setting, base)]


def _by_parts(results: Results) -> dict[object, list[Setting]]:
    ran = dict.fromkeys(trial.setting for trial in results.trials if trial.pair is not None)
    return grouped((_parts_of(results, setting), setting) for setting in ran)


def _parts_of(results: Results, setting: Setting) -> tuple[object, frozenset[tuple[str, str]]]:
    """Thresholds and settings of the pull, and the extras."""
    rest = (tuple(sorted(thresholds(results, setting).items())), setting.transfer)
    return rest, frozenset(_extras_of(results, setting))


def _extras_of(results: Results, setting: Setting) -> Iterator[tuple[str, str]]:
    """What it changes beside thresholds and the pull's own settings, by name."""
    if changed_options(results, setting):
        yield MOUNT, str(setting.mount_options)
    yield from setting.device
    values = setting.values
    for name in changed_sysctls(results, setting):
        if name not in THRESHOLDS:
            yield name, str(values[name])


def compared_extras(results: Results) -> dict[tuple[str, str], Setting]:
    """Return the extras that ran in pairs, as name and value, each with a setting that has it."""
    tried = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    return {extra: each for each in reversed(tried) for extra in _extras_of(results, each)}


def own_interval(results: Results, setting: Setting, name: str) -> Interval | None:
    """Return the time with an extra divided by the time without it; None where nothing says it."""
    for base in bases_of(results, setting):
        if name not in dict(_extras_of(results, base)):
            return compare(results, setting, base).interval
    return None


def why_uncredited(results: Results, setting: Setting) -> str:
    """Return why its extras do not count, to follow `took 90% of the present time, `; or empty.

    They count where a chain of comparisons leads to a setting without extras, each crediting one.
    """
    extras = dict(_extras_of(results, setting))
    if not extras or setting in results.derived(_credited):
        return ""
    named = f"mount={extras[MOUNT]}" if set(extras) == {MOUNT} else ", ".join(extras)
    counts = [len(pairs_of(results, setting, base)) for base in bases_of(results, setting)]
    if not counts:
        return f"but it was not measured next to the same settings without {named}"
    if max(counts) < PAIRS:
        few = counted(max(counts), "pair")
        return f"but it was compared without {named} in only {few}, and it takes {PAIRS}"
    return f"but the pairs with and without {named} do not show a gain of {MIN_GAIN:.0%}"


def _credited(results: Results) -> set[Setting]:
    """The settings with extras that count; those with fewer extras first."""
    tried = dict.fromkeys(trial.setting for trial in results.of_role(RECHECK))
    parts = {setting: _parts_of(results, setting)[1] for setting in tried}
    found: set[Setting] = set()
    for setting in sorted(tried, key=lambda each: len(parts[each])):
        for base in bases_of(results, setting):
            if (base in found or len(parts[setting]) == 1) and credit(results, setting, base):
                found.add(setting)
    return found


def _is_running(results: Results, setting: Setting, base: Setting) -> bool:
    """Return whether more pairs could credit it. What keeps failing is given up."""
    count = len(pairs_of(results, setting, base))
    begun = len({trial.pair for trial in results.of_setting(setting)} - {None})
    if count >= PAIRS or begun >= (2 * PAIRS if count else _FUTILE_AFTER):
        return False
    return count < _FUTILE_AFTER or _estimate(results, setting, base) < 1


def _estimate(results: Results, setting: Setting, base: Setting) -> float:
    interval = compare(results, setting, base).interval
    return interval.estimate if interval else 1.0


def worth_trying(
    results: Results, base: Setting, extras: Sequence[Extra]
) -> tuple[list[Extra], list[LeftOut]]:
    """Return the extras that could help under the base, and the others with the reason.

    Those that were asked for are always tried.
    """
    seen = next((t.valid for t in results.of_setting(base) if t.valid), None)
    if seen is None:
        return [], []
    waits = wait_shares(results, seen)
    reasons = {
        each: "" if each.is_asked_for else skip_reason(results, each.name, seen) or waits
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
