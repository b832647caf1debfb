"""A search in stages: the core strategy, the halves of its best, then other knobs one at a time.

The product of all knobs would take days; one knob at a time around the best of the core tells which
of them do anything here. Knobs that the present runs say cannot matter are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sysctl.choice import within_limits
from sysctl.halves import halves_of
from sysctl.knobs.catalogue import DEVICE_KNOBS
from sysctl.knobs.mount import wide_texts
from sysctl.knobs.vm import KNOBS
from sysctl.price import limits_of
from sysctl.results import CANDIDATE, PRESENT, LeftOut, Results, Trial
from sysctl.search import Strategy
from sysctl.search.grid import untried
from sysctl.search.relevance import most_throttled, skip_reason
from sysctl.setting import Setting

#: The halves of a best setting are tried when so many candidates were no better.
HALVES_AFTER = 3
#: The name of a variation of the mount; others are named by their sysctl or knob.
MOUNT = "mount options"


@dataclass(frozen=True)
class Variation:
    """One knob with one value, `name` and `value` as text."""

    name: str
    value: str

    def of(self, setting: Setting) -> Setting:
        """The setting with this one knob changed."""
        if self.name == MOUNT:
            return replace(setting, mount_options=self.value)
        if self.name in _SYSCTLS:
            values = {**setting.values, self.name: int(self.value)}
            return replace(setting, sysctls=tuple(values.items()))
        knobs = {**dict(setting.device), self.name: self.value}
        return replace(setting, device=tuple(knobs.items()))

    def is_in(self, setting: Setting) -> bool:
        """Whether the setting has this value."""
        return self.of(setting) == setting


_SYSCTLS = tuple(knob.name for knob in KNOBS)


@dataclass(frozen=True)
class StagedSearch:
    """Implements `Strategy`. `variations` come last, around the fastest so far.

    No variation may be of a knob that the core varies. `core_names` are the knobs that the core may
    be spared for: those that nobody asked for. The core is left out when the present runs say of
    every one of them that it cannot matter. `context` is that of the results: with limits, the
    fastest within them is varied.
    """

    core: Strategy
    core_names: tuple[str, ...] = ()
    variations: tuple[Variation, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def next_setting(self, done: Sequence[Trial]) -> Setting | None:
        """The next setting of the first stage that has one."""
        is_left_out, halves = self._is_core_left_out(done), self._halves(done)
        if halves and self._has_lasted(done):
            return halves[0]  # a budget may leave no time for them later
        setting = None if is_left_out else self.core.next_setting(self._of_core(done))
        return setting or next(iter([*halves, *self._varied(done)]), None)

    def remaining(self, done: Sequence[Trial]) -> int:
        """How many settings are still to come, as far as is known."""
        core = 0 if self._is_core_left_out(done) else self.core.remaining(self._of_core(done))
        return core + len(self._halves(done)) + len(self._varied(done))

    def left_out(self, done: Sequence[Trial]) -> list[LeftOut]:
        """The knobs that are not tried, and what in the present runs speaks against them."""
        names = dict.fromkeys(variation.name for variation in self.variations)
        if self._is_core_left_out(done):
            names = {**dict.fromkeys(self.core_names), **names}
        reasons = {name: self._skip_reason(name, done) for name in names}
        return [LeftOut(name, why) for name, why in reasons.items() if why]

    def _skip_reason(self, name: str, done: Sequence[Trial]) -> str:
        present = most_throttled(done)
        return skip_reason(name, present) if present else ""

    def _is_core_left_out(self, done: Sequence[Trial]) -> bool:
        return bool(self.core_names) and all(self._skip_reason(n, done) for n in self.core_names)

    def _is_varied(self, setting: Setting) -> bool:
        return any(variation.is_in(setting) for variation in self.variations)

    def _of_core(self, done: Sequence[Trial]) -> list[Trial]:
        return [t for t in done if t.role != CANDIDATE or not self._is_varied(t.setting)]

    def _best(self, done: Sequence[Trial]) -> Setting | None:
        alone = [t for t in self._of_core(done) if t.role in (PRESENT, CANDIDATE)]
        return _fastest(self._within_limits(alone) or alone)

    def _halves(self, done: Sequence[Trial]) -> list[Setting]:
        """The best setting of the core with what it tells the host alone, and the pull alone."""
        best = self._best(done)
        present = next((trial.setting for trial in done if trial.role == PRESENT), None)
        return untried(halves_of(best, present), done) if best and present else []

    def _has_lasted(self, done: Sequence[Trial]) -> bool:
        """Whether `HALVES_AFTER` candidates in a row were not better than the best."""
        tried = [trial.setting for trial in done if trial.role == CANDIDATE]
        best = self._best(done)
        return best in tried and len(tried) - tried.index(best) > HALVES_AFTER

    def _varied(self, done: Sequence[Trial]) -> list[Setting]:
        """The best setting of the core with one knob changed, for each that was not tried yet."""
        tried = [trial.setting for trial in done if trial.role == CANDIDATE]
        best = self._best(done)
        return [
            variation.of(best)
            for variation in self.variations
            if best is not None
            and not any(variation.is_in(setting) for setting in tried)
            and not self._skip_reason(variation.name, done)
        ]

    def _within_limits(self, trials: Sequence[Trial]) -> list[Trial]:
        results = Results(dict(self.context), {}, trials=list(trials))
        settings = dict.fromkeys(trial.setting for trial in trials if trial.valid)
        able = set(within_limits(results, settings, limits_of(results)))
        return [trial for trial in trials if trial.setting in able]


def _fastest(trials: Sequence[Trial]) -> Setting | None:
    timed = [(trial.valid.return_s, trial.setting) for trial in trials if trial.valid]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


def wide_variations(
    present: Mapping[str, int],
    disk: Mapping[str, str],
    fstype: str,
    mount_words: Sequence[str],
    named: Collection[str] = (),
) -> tuple[Variation, ...]:
    """What a wide sweep tries beside the thresholds: each knob's `wide` values but the present one.

    `present` are the sysctls in force, `disk` the knobs that the destination's disk has with their
    values (empty: none), `mount_words` the tunable options that the mount has. `named` are the
    knobs that the core combines already (`MOUNT` for mount options): these are not varied.
    """
    sysctls = [(k.name, str(v)) for k in KNOBS for v in k.wide if present.get(k.name) != v]
    knobs = [
        (knob.name, value)
        for knob in DEVICE_KNOBS
        if knob.name in disk and knob.counterpart not in named
        for value in knob.wide
        if value != disk[knob.name]
    ]
    mounts = [(MOUNT, text) for text in wide_texts(fstype) if text not in mount_words]
    every = (*sysctls, *knobs, *mounts)
    return tuple(Variation(name, value) for name, value in every if name not in named)


def in_one_mount(variations: Sequence[Variation]) -> tuple[Variation, ...]:
    """The same, the mount options as one variation: if all do nothing together, each does not."""
    texts = [each.value for each in variations if each.name == MOUNT]
    others = [each for each in variations if each.name != MOUNT]
    together = [Variation(MOUNT, ",".join(texts))] if texts else []
    return (*others, *together)
